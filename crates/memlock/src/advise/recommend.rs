// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Which policy to take, and why.

use std::fmt;
use std::str::FromStr;

use serde::Serialize;

use super::observe::Observation;
use crate::run::Policy;
use crate::summary::size;

/// What locking is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Goal {
    /// Nothing that it touches reaches swap, and what it needs stays.
    Stay,
    /// No access waits, not even the first.
    Deadline,
}

/// How the program did under a policy: medians of its runs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Result {
    /// Seconds and sizes.
    pub measured: Observation,
    /// It ended as it does unlocked.
    pub works: bool,
    /// It needed `--compat`.
    pub compat: bool,
}

/// What to do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Recommendation {
    /// The policy's word.
    pub policy: &'static str,
    /// With `--compat`.
    pub compat: bool,
    /// With `--follow`, as it was tried.
    pub follow: bool,
    /// With smaller stacks, in bytes.
    pub stack: Option<u64>,
    /// Why, a sentence each.
    pub reasons: Vec<String>,
}

/// A size of stacks that suits threads which use little of theirs.
const SMALL_STACK: u64 = 256 << 10;

/// Picks a policy from what was measured. `stack` is the size that threads reserve, `free` the memory of the machine that
/// is not in use.
#[must_use]
pub fn recommend(
    goal: Goal,
    unlocked: &Observation,
    on_fault: &Result,
    future: &Result,
    stack: u64,
    free: u64,
) -> Recommendation {
    let mut reasons = Vec::new();
    let extra = future.measured.resident.saturating_sub(unlocked.resident);
    let pick = |policy: Policy, result: &Result, stack, reasons| Recommendation {
        policy: policy.word(),
        compat: result.compat,
        follow: false,
        stack,
        reasons,
    };
    if !on_fault.works && !future.works {
        reasons.push("It does not work locked: it ends otherwise than without a lock, under every policy.".to_owned());
        return pick(Policy::None, &Result { compat: false, ..*on_fault }, None, reasons);
    }
    let tight = extra > free / 2;
    if goal == Goal::Deadline && future.works && !tight {
        reasons.push(format!(
            "`future` is the only policy under which no access waits; it takes {} more memory, {} in all.",
            size(extra),
            size(future.measured.resident)
        ));
        let small = unlocked.threads > 2 && stack > SMALL_STACK * 4;
        if small {
            reasons.push(format!(
                "Each of its {} threads fills a stack of {}; try smaller ones.",
                unlocked.threads,
                size(stack)
            ));
        }
        return pick(Policy::Future, future, small.then_some(SMALL_STACK), reasons);
    }
    if goal == Goal::Deadline && tight {
        reasons.push(format!("`future` would take {} more memory, and {} are free.", size(extra), size(free)));
    }
    reasons.push(format!(
        "`onfault` keeps all that it touches in memory, for {} of the time without a lock and {} of memory.",
        percent(on_fault.measured.seconds, unlocked.seconds),
        size(on_fault.measured.resident)
    ));
    if goal == Goal::Stay && future.works {
        reasons.push(format!(
            "`future` would take {} of the time and {} of memory, and bring what is never touched into it.",
            percent(future.measured.seconds, unlocked.seconds),
            size(future.measured.resident)
        ));
    }
    if on_fault.compat {
        reasons.push("It insists on discarding memory (MADV_DONTNEED), which needs --compat.".to_owned());
    }
    pick(Policy::OnFault, on_fault, None, reasons)
}

fn percent(value: f64, of: f64) -> String {
    if of > 0.0 { format!("{:.0} %", value / of * 100.0) } else { "?".to_owned() }
}

impl FromStr for Goal {
    type Err = String;

    fn from_str(word: &str) -> std::result::Result<Self, Self::Err> {
        match word {
            "stay" => Ok(Self::Stay),
            "deadline" => Ok(Self::Deadline),
            _ => Err(format!("expected stay or deadline, found `{word}`")),
        }
    }
}

impl fmt::Display for Goal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if *self == Self::Stay { "stay" } else { "deadline" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn result(resident: u64, works: bool) -> Result {
        let measured = Observation { seconds: 1.0, resident, threads: 8, ..Observation::default() };
        Result { measured, works, compat: false }
    }

    #[test]
    fn goals_decide() {
        let unlocked = result(40 << 20, true).measured;
        let pick = |goal, on_fault: bool, future: bool, free| {
            let (on_fault, future) = (result(40 << 20, on_fault), result(600 << 20, future));
            recommend(goal, &unlocked, &on_fault, &future, 8 << 20, free).policy
        };
        assert_eq!(pick(Goal::Stay, true, true, 8 << 30), "onfault");
        assert_eq!(pick(Goal::Deadline, true, true, 8 << 30), "future");
        assert_eq!(pick(Goal::Deadline, true, true, 1 << 30), "onfault", "too little memory is free");
        assert_eq!(pick(Goal::Deadline, true, false, 8 << 30), "onfault");
        assert_eq!(pick(Goal::Stay, false, false, 8 << 30), "none");
    }

    #[test]
    fn many_threads_get_smaller_stacks() {
        let unlocked = result(40 << 20, true).measured;
        let (on_fault, future) = (result(40 << 20, true), result(100 << 20, true));
        let advice = recommend(Goal::Deadline, &unlocked, &on_fault, &future, 8 << 20, 8 << 30);
        assert_eq!(advice.stack, Some(SMALL_STACK));
        assert!(advice.reasons.iter().any(|reason| reason.contains("8 threads")), "{advice:?}");
    }
}
