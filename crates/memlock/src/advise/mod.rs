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

/// Several runs: the least, the middle and the most of each number by itself, because one run may be slow, another looked
/// at too late. How they ended is how the first did.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    /// The least of each number.
    pub least: Observation,
    /// The middle.
    pub middle: Observation,
    /// The most.
    pub most: Observation,
}

impl Spread {
    /// Of at least one run. Memory is that of the runs that were looked at before they ended, if any was.
    #[must_use]
    pub fn of(runs: &[Observation]) -> Option<Self> {
        let first = runs.first()?;
        let mut looked: Vec<Observation> = runs.iter().filter(|run| run.samples > 0).copied().collect();
        if looked.is_empty() {
            looked = runs.to_vec();
        }
        Some(Self {
            least: each(runs, &looked, first, |_| 0),
            middle: each(runs, &looked, first, |count| count / 2),
            most: each(runs, &looked, first, |count| count - 1),
        })
    }

    /// Of what can be had only once.
    #[must_use]
    pub fn once(run: Observation) -> Self {
        Self { least: run, middle: run, most: run }
    }
}

/// Of each number the one that stands at `place` when they are sorted.
fn each(runs: &[Observation], looked: &[Observation], first: &Observation, place: fn(usize) -> usize) -> Observation {
    let pick = |of: &[Observation], field: fn(&Observation) -> u64| {
        let mut all: Vec<u64> = of.iter().map(field).collect();
        all.sort_unstable();
        all.get(place(all.len())).copied().unwrap_or(0)
    };
    let mut seconds: Vec<f64> = runs.iter().map(|run| run.seconds).collect();
    seconds.sort_by(f64::total_cmp);
    Observation {
        seconds: seconds.get(place(seconds.len())).copied().unwrap_or(0.0),
        code: first.code,
        cut: first.cut,
        resident: pick(looked, |run| run.resident),
        mapped: pick(looked, |run| run.mapped),
        accessible: pick(looked, |run| run.accessible),
        accessible_files: pick(looked, |run| run.accessible_files),
        minor_faults: pick(runs, |run| run.minor_faults),
        major_faults: pick(runs, |run| run.major_faults),
        threads: pick(looked, |run| run.threads),
        samples: pick(runs, |run| run.samples),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_number_has_its_own_middle() {
        let run = |seconds, resident, samples| Observation {
            seconds,
            resident,
            samples,
            code: Some(0),
            ..Observation::default()
        };
        let spread = Spread::of(&[run(1.0, 9, 3), run(5.0, 7, 3), run(2.0, 1, 3)]).expect("three runs");
        assert_eq!((spread.middle.seconds, spread.middle.resident, spread.middle.code), (2.0, 7, Some(0)));
        assert_eq!((spread.least.seconds, spread.least.resident), (1.0, 1));
        assert_eq!((spread.most.seconds, spread.most.resident), (5.0, 9));
        let missed = Spread::of(&[run(1.0, 0, 0), run(1.0, 8, 2)]).expect("two runs");
        assert_eq!(missed.least.resident, 8, "a run that ended unseen says nothing about memory");
        assert_eq!(Spread::of(&[]), None);
    }
}
