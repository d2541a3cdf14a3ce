// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a technique is.

use std::io;

use rustix::io::Errno;

use crate::Arena;

/// What is under the rule while the technique is tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// Files on the arena's file system.
    Files,
    /// All that the attempting process does, and its children.
    Processes,
    /// As `Files`, but it is tried without the rule while there is one that guards nothing: the technique is against
    /// what enforces.
    Guard,
}

/// How an attempt ends under the rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It fails with this error, and an event names one of these reasons.
    Stopped(Errno, &'static [&'static str]),
    /// The kernel refuses it by itself, rule or not, with this error.
    KernelStops(Errno),
    /// It works, and why that is so.
    NotStopped(&'static str),
    /// It is nobody's attack and has to go on working.
    Rightful,
}

/// A way around the rule.
#[derive(Clone, Copy, Debug)]
pub struct Technique {
    /// A word for it.
    pub name: &'static str,
    /// What is done, in a few words.
    pub about: &'static str,
    /// Puts files in place, and says which are approved. Nothing is enforced yet.
    pub prepare: fn(&Arena) -> io::Result<()>,
    /// Does it; `Ok` means that it worked.
    pub attempt: fn(&Arena) -> io::Result<()>,
    /// What is under the rule.
    pub rule: Rule,
    /// How it ends.
    pub outcome: Outcome,
    /// The policy's options for it: an option, and the name of the arena's file that it takes.
    pub options: &'static [(&'static str, &'static str)],
    /// What the policy says for it beside that, word by word.
    pub policy: &'static [&'static str],
    /// The first kernel that has what it is about.
    pub since: (u32, u32),
    /// The kernel module that it needs.
    pub module: Option<&'static str>,
    /// From this kernel on it fails by itself where there is no rule, with this error.
    pub kernel_stops_from: Option<((u32, u32), Errno)>,
    /// Where it works, what enforces is broken afterwards.
    pub harms: bool,
}

type Step = fn(&Arena) -> io::Result<()>;

pub(crate) const NOT_PERMITTED: Errno = Errno::PERM;

impl Technique {
    /// One against files of the arena, refused with `EPERM` for this reason.
    pub(crate) const fn new(
        name: &'static str,
        about: &'static str,
        prepare: Step,
        attempt: Step,
        reasons: &'static [&'static str],
    ) -> Self {
        Self {
            name,
            about,
            prepare,
            attempt,
            rule: Rule::Files,
            outcome: Outcome::Stopped(NOT_PERMITTED, reasons),
            options: &[],
            policy: &[],
            since: (0, 0),
            module: None,
            kernel_stops_from: None,
            harms: false,
        }
    }

    pub(crate) const fn rule(self, rule: Rule) -> Self {
        Self { rule, ..self }
    }

    pub(crate) const fn outcome(self, outcome: Outcome) -> Self {
        Self { outcome, ..self }
    }

    pub(crate) const fn options(self, options: &'static [(&'static str, &'static str)]) -> Self {
        Self { options, ..self }
    }

    pub(crate) const fn policy(self, policy: &'static [&'static str]) -> Self {
        Self { policy, ..self }
    }

    pub(crate) const fn since(self, major: u32, minor: u32) -> Self {
        Self { since: (major, minor), ..self }
    }

    pub(crate) const fn kernel_stops_from(self, major: u32, minor: u32, errno: Errno) -> Self {
        Self { kernel_stops_from: Some(((major, minor), errno)), ..self }
    }

    pub(crate) const fn harms(self) -> Self {
        Self { harms: true, ..self }
    }

    pub(crate) const fn module(self, module: &'static str) -> Self {
        Self { module: Some(module), ..self }
    }
}
