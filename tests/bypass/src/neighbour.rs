// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How others that decide what may run fare: recorded in `neighbours.txt`, and measured again by the guest of
//! `tests/vm`.

use crate::{Outcome, Rule, Technique};

/// Another that decides what may run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Neighbour {
    /// The kernel's IMA appraisal.
    Ima,
    /// fapolicyd.
    Fapolicyd,
}

/// How an attempt ended under a neighbour's rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Result {
    /// It failed.
    Stopped,
    /// It worked.
    NotStopped,
    /// It failed there without any rule, too: the kernel is new enough to stop it.
    Kernel,
    /// Not tried.
    Untried,
}

impl Result {
    /// As `neighbours.txt` and the table spell it.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Stopped => "stopped",
            Self::NotStopped => "free",
            Self::Kernel => "kernel",
            Self::Untried => "untried",
        }
    }
}

/// Lines `TECHNIQUE IMA FAPOLICYD`.
static RECORD: &str = include_str!("../neighbours.txt");

impl Technique {
    /// Whether the technique says something about others too: it is not against Touchmark itself or about an option of
    /// its own, and not what the kernel does by itself.
    #[must_use]
    pub fn is_general(&self) -> bool {
        let stopped_by_all = matches!(self.outcome, Outcome::KernelStops(_) | Outcome::Rightful);
        self.rule != Rule::Guard && self.options.is_empty() && self.policy.is_empty() && !stopped_by_all
    }

    /// What is recorded.
    #[must_use]
    pub fn known(&self, neighbour: Neighbour) -> Option<Result> {
        let mut words = RECORD.lines().find(|line| line.split(' ').next() == Some(self.name))?.split(' ').skip(1);
        let word = match neighbour {
            Neighbour::Ima => words.next(),
            Neighbour::Fapolicyd => words.nth(1),
        };
        [Result::Stopped, Result::NotStopped, Result::Kernel, Result::Untried]
            .into_iter()
            .find(|result| Some(result.word()) == word)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::FAMILIES;

    #[test]
    fn the_record_is_of_the_techniques_that_are_about_others_too() {
        for technique in FAMILIES.iter().flat_map(|(_, techniques)| techniques.iter()) {
            for neighbour in [Neighbour::Ima, Neighbour::Fapolicyd] {
                assert_eq!(technique.known(neighbour).is_some(), technique.is_general(), "{}", technique.name);
            }
        }
        for name in RECORD.lines().filter_map(|line| line.split(' ').next()) {
            assert!(name.starts_with('#') || crate::find(name).is_some(), "{name}");
        }
    }
}
