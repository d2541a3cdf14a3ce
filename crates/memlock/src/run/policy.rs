// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Which memory of a program is locked.

use std::fmt;
use std::str::FromStr;

/// What is locked, and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// Nothing.
    None,
    /// What is mapped when the program starts (`MCL_CURRENT`): itself, its dynamic linker, its first stack. Not what it
    /// maps later.
    Current,
    /// Everything, from the moment it is mapped (`MCL_CURRENT | MCL_FUTURE`): no page fault later, but all that is
    /// merely reserved fills memory.
    Future,
    /// Everything, from the moment it is touched (`MCL_CURRENT | MCL_FUTURE | MCL_ONFAULT`).
    OnFault,
}

/// The policies on the command line; `Auto` is decided when the program starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// This one.
    Fixed(Policy),
    /// `Future` for what runs under a real-time scheduling class, which must not fault; else `OnFault`.
    Auto,
}

impl Policy {
    /// The flags of `mlockall(2)`; `None` if it is not to be called.
    #[must_use]
    pub fn flags(self) -> Option<u64> {
        match self {
            Self::None => None,
            Self::Current => Some(1),
            Self::Future => Some(1 | 2),
            Self::OnFault => Some(1 | 2 | 4),
        }
    }

    /// The word on the command line.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Current => "current",
            Self::Future => "future",
            Self::OnFault => "onfault",
        }
    }
}

impl Choice {
    /// The policy for a program that this process becomes.
    #[must_use]
    pub fn decide(self) -> Policy {
        /// `SCHED_FIFO`, `SCHED_RR` and `SCHED_DEADLINE`.
        const REAL_TIME: [u32; 3] = [1, 2, 6];
        match self {
            Self::Fixed(policy) => policy,
            Self::Auto => {
                let stat = procfs::process::Process::myself().and_then(|process| process.stat());
                let class = stat.ok().and_then(|stat| stat.policy);
                if class.is_some_and(|class| REAL_TIME.contains(&class)) { Policy::Future } else { Policy::OnFault }
            }
        }
    }
}

impl FromStr for Choice {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, Self::Err> {
        let all = [Policy::None, Policy::Current, Policy::Future, Policy::OnFault];
        match all.into_iter().find(|policy| policy.word() == word) {
            Some(policy) => Ok(Self::Fixed(policy)),
            None if word == "auto" => Ok(Self::Auto),
            None => Err(format!("expected none, current, future, onfault or auto, found `{word}`")),
        }
    }
}

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Fixed(policy) => policy.word(),
            Self::Auto => "auto",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_and_flags() {
        for (word, flags) in
            [("none", None), ("current", Some(1)), ("future", Some(3)), ("onfault", Some(7)), ("auto", Some(7))]
        {
            let choice: Choice = word.parse().expect(word);
            assert_eq!(choice.to_string(), word);
            assert_eq!(choice.decide().flags(), flags, "{word}");
        }
        assert!("all".parse::<Choice>().is_err());
    }
}
