// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Whether to lock a program, and how: S1 ends with "decide case by case", this decides.
//!
//! An unlocked run is watched, what each policy will need is predicted from it, then the policies are tried in turn to
//! check the prediction, and one is recommended.

mod fragments;
mod observe;
mod predict;
mod recommend;

pub use fragments::{kubernetes, libvirt, systemd};
pub use observe::{Observation, observe, of_running};
pub use predict::{Machine, Prediction, Range, predict};
pub use recommend::{Goal, Recommendation, Result, recommend};

/// The middle of several runs, each number by itself: one run may be slow, another looked at too late. How it ended is
/// that of the first.
#[must_use]
pub fn median(runs: &[Observation]) -> Option<Observation> {
    let number = |field: fn(&Observation) -> u64| {
        let mut all: Vec<u64> = runs.iter().map(field).collect();
        all.sort_unstable();
        all.get(all.len() / 2).copied().unwrap_or(0)
    };
    let mut seconds: Vec<f64> = runs.iter().map(|run| run.seconds).collect();
    seconds.sort_by(f64::total_cmp);
    let first = runs.first()?;
    Some(Observation {
        seconds: seconds.get(seconds.len() / 2).copied()?,
        code: first.code,
        cut: first.cut,
        resident: number(|run| run.resident),
        mapped: number(|run| run.mapped),
        accessible: number(|run| run.accessible),
        accessible_files: number(|run| run.accessible_files),
        minor_faults: number(|run| run.minor_faults),
        major_faults: number(|run| run.major_faults),
        threads: number(|run| run.threads),
        samples: number(|run| run.samples),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_number_has_its_own_middle() {
        let run = |seconds, resident| Observation { seconds, resident, code: Some(0), ..Observation::default() };
        let middle = median(&[run(1.0, 9), run(5.0, 7), run(2.0, 1)]).expect("three runs");
        assert_eq!((middle.seconds, middle.resident, middle.code), (2.0, 7, Some(0)));
        assert_eq!(median(&[]), None);
    }
}
