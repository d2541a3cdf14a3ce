// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The part of `touchmark enforce` that says what is checked and what follows from it.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::ValueEnum;
use touchmark_enforce::{Action, FileSystemRule, Mode, Policy, Role, Scope};
use touchmark_sign::digest::Digest;
use touchmark_sys::mapping::{Access, Mapping};

use crate::exit::UsageError;
use crate::{daemon, files};

/// The policy, as it is given on the command line.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Policy")]
pub(crate) struct PolicyArgs {
    /// Whose executions are checked: all, cgroup:PATH (tasks in it) or mount:PATH (files on that file system)
    #[arg(long, default_value = "all")]
    scope: Scope,
    /// Enforce this long, then be permissive (as in 30s, 10m, 2h)
    #[arg(long, value_name = "DURATION", value_parser = humantime::parse_duration)]
    trial: Option<Duration>,
    /// Report what was allowed after a check, too
    #[arg(long)]
    log_allowed: bool,
    /// Let files run that are open for writing, or mapped shared and writable; they are checked at every use
    #[arg(long)]
    allow_open_for_writing: bool,
    /// Let files be opened for writing while they are mapped executable
    #[arg(long)]
    allow_write_to_mapped: bool,
    /// Executable memory that is no file's content
    #[arg(long, value_enum, default_value_t = ActionArg::Deny, value_name = "ACTION")]
    anonymous: ActionArg,
    /// This program makes code: it may have such memory
    #[arg(long, value_name = "FILE")]
    jit: Vec<PathBuf>,
    /// Tracing other processes and writing into their memory
    #[arg(long, value_enum, default_value_t = ActionArg::Deny, value_name = "ACTION")]
    ptrace: ActionArg,
    /// This program is a debugger: it may trace
    #[arg(long, value_name = "FILE")]
    debugger: Vec<PathBuf>,
    /// This interpreter is started by the #! line of an approved script, or not at all
    #[arg(long, value_name = "FILE")]
    interpreter: Vec<PathBuf>,
    /// Modules, firmware and kexec images from memory instead of a file
    #[arg(long, value_enum, default_value_t = ActionArg::Deny, value_name = "ACTION")]
    kernel_buffers: ActionArg,
    /// Refuse programs on network and overlay file systems; otherwise they are hashed at every use
    #[arg(long)]
    refuse_uncacheable: bool,
    /// How files of one kind of file system are treated: NAME=cache, NAME=hash (at every use) or NAME=deny
    #[arg(long, value_name = "RULE")]
    file_system: Vec<FileSystemRule>,
    /// Let root end Touchmark by hand: remove its pins, write its maps, kill its daemon
    #[arg(long, conflicts_with = "lock")]
    unguarded: bool,
    /// Until the machine restarts, take changes only by an order that a trusted key signed
    #[arg(long)]
    lock: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ActionArg {
    /// It goes on
    Allow,
    /// It goes on, and an event tells
    Log,
    /// It is refused
    Deny,
}

impl From<ActionArg> for Action {
    fn from(action: ActionArg) -> Self {
        match action {
            ActionArg::Allow => Self::Allow,
            ActionArg::Log => Self::Log,
            ActionArg::Deny => Self::Deny,
        }
    }
}

impl PolicyArgs {
    /// The policy in this mode.
    pub(crate) fn resolve(&self, mode: Mode) -> anyhow::Result<Policy> {
        if self.trial.is_some() && mode != Mode::Enforce {
            return Err(UsageError("--trial goes with --mode enforce".to_owned()).into());
        }
        Ok(Policy {
            mode,
            scope: self.scope.clone(),
            trial: self.trial,
            log_allowed: self.log_allowed,
            refuse_writable: !self.allow_open_for_writing,
            protect_mapped: !self.allow_write_to_mapped,
            guard: !self.unguarded,
            lock: self.lock,
            anonymous: self.anonymous.into(),
            ptrace: self.ptrace.into(),
            kernel_buffers: self.kernel_buffers.into(),
            refuse_uncacheable: self.refuse_uncacheable,
            file_systems: self.file_system.clone(),
            roles: self.roles()?,
        })
    }

    /// Those given, and those of Touchmark's own programs.
    fn roles(&self) -> anyhow::Result<Vec<(Digest, Role)>> {
        let mut roles = vec![
            (files::digest(Path::new("/proc/self/exe"))?, Role::Steer),
            (files::digest(&daemon::executable()?)?, Role::Daemon),
        ];
        for (path, role) in self.given() {
            roles.push((files::digest(path)?, role));
        }
        Ok(roles)
    }

    fn given(&self) -> impl Iterator<Item = (&Path, Role)> {
        let lists = [(&self.jit, Role::Jit), (&self.debugger, Role::Debugger), (&self.interpreter, Role::Interpreter)];
        lists.into_iter().flat_map(|(paths, role)| paths.iter().map(move |path| (path.as_path(), role)))
    }
}

/// Shows the programs with a role to the kernel's side, which knows them by their digest: those that run already were
/// not looked at when they started.
pub(crate) fn introduce(policy: &PolicyArgs) {
    for (path, role) in policy.given() {
        let mapped = std::fs::File::open(path).and_then(|file| Mapping::new(file, 4096, Access::Execute));
        // An interpreter may not be mapped by hand; that it was looked at is enough.
        if let (Err(error), true) = (mapped, role != Role::Interpreter) {
            eprintln!("touchmark: {} has the role {role}, but may not run itself: {error}", path.display());
        }
    }
}
