// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a program will need under each policy, from what it needs without a lock.

use serde::Serialize;

use super::Spread;
use super::observe::Observation;
use crate::run::Policy;

/// From least to most, and what is the likeliest.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Range {
    /// The least.
    pub least: f64,
    /// The likeliest.
    pub likely: f64,
    /// The most.
    pub most: f64,
}

impl Range {
    /// Whether a value lies in it.
    #[must_use]
    pub fn holds(&self, value: f64) -> bool {
        (self.least..=self.most).contains(&value)
    }

    /// What was seen in several runs.
    #[allow(clippy::cast_precision_loss, reason = "sizes of processes are below 2^53 bytes")]
    fn seen(runs: &Spread, field: fn(&Observation) -> u64) -> Self {
        let [least, likely, most] = [runs.least, runs.middle, runs.most].map(|run| field(&run) as f64);
        Self { least, likely, most }
    }

    /// Wider by a part of it, and by so much more.
    fn wider(self, part: f64, more: f64) -> Self {
        Self { least: (self.least * (1.0 - part) - more).max(0.0), most: self.most * (1.0 + part) + more, ..self }
    }

    fn plus(self, least: f64, likely: f64, most: f64) -> Self {
        Self { least: self.least + least, likely: self.likely + likely, most: self.most + most }
    }
}

/// What is expected under a policy.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Prediction {
    /// Seconds from start to end.
    pub seconds: Range,
    /// Bytes in memory at most.
    pub resident: Range,
    /// Page faults without the disk.
    pub faults: Range,
}

/// What bringing memory in costs on this machine.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Machine {
    /// Seconds for each byte, at least and at most.
    pub seconds_per_byte: Range,
    /// Seconds that starting with a lock takes longer.
    pub launch: Range,
}

/// A page.
const PAGE: f64 = 4096.0;
/// Of a file, so many pages come with one fault (`fault_around_bytes`).
const AROUND: f64 = 16.0;
/// What resident sizes vary from run to run: a part, because addresses are random, and bytes, because the kernel counts
/// pages in batches for each processor.
const RESIDENT_VARIES: (f64, f64) = (0.01, 256.0 * 1024.0);

/// How far times of unlocked runs may lie below and above those that were seen.
const TIMES_VARY: (f64, f64) = (0.85, 1.25);
/// How far page faults may lie beside those that were seen.
const FAULTS_VARY: f64 = 0.02;
/// Page faults of the launcher, at most.
const LAUNCHER: f64 = 200.0;

/// Predicts one policy from several unlocked runs.
#[must_use]
pub fn predict(policy: Policy, unlocked: &Spread, machine: &Machine) -> Prediction {
    let times = [unlocked.least.seconds * TIMES_VARY.0, unlocked.middle.seconds, unlocked.most.seconds * TIMES_VARY.1];
    let seconds = Range { least: times[0], likely: times[1], most: times[2] };
    let later = seconds.plus(machine.launch.least, machine.launch.likely, machine.launch.most);
    let seen = Range::seen(unlocked, |run| run.resident);
    let resident = seen.wider(RESIDENT_VARIES.0, RESIDENT_VARIES.1);
    let accessible = Range::seen(unlocked, |run| run.accessible.max(run.resident));
    let files = Range::seen(unlocked, |run| run.accessible_files).most;
    let faults = Range::seen(unlocked, |run| run.minor_faults).wider(FAULTS_VARY, 0.0);
    match policy {
        Policy::None => Prediction { seconds, resident, faults },
        Policy::OnFault => Prediction { seconds: later, resident, faults: faults.plus(0.0, 0.0, LAUNCHER) },
        // What is mapped at the start: the program and its linker at most.
        Policy::Current => Prediction {
            seconds: later,
            resident: resident.plus(0.0, 0.0, files),
            faults: Range { least: faults.least * 0.9, ..faults.plus(0.0, 0.0, LAUNCHER + files / PAGE / AROUND) },
        },
        Policy::Future => {
            let extra = |end: fn(&Range) -> f64| (end(&accessible) - end(&seen)).max(0.0);
            let cost = machine.seconds_per_byte;
            // Each anonymous page is a fault of its own unless it is a huge one; those of files come in groups.
            let anonymous = |accessible: f64| (accessible - files).max(0.0) / PAGE;
            let more = |accessible: f64| anonymous(accessible) + files / PAGE;
            Prediction {
                seconds: later.plus(0.0, extra(|it| it.likely) * cost.likely, extra(|it| it.most) * cost.most),
                resident: accessible.wider(RESIDENT_VARIES.0, RESIDENT_VARIES.1),
                faults: Range {
                    least: anonymous(accessible.least) / 512.0,
                    likely: anonymous(accessible.likely) + files / PAGE / AROUND,
                    most: faults.most + LAUNCHER + more(accessible.most),
                },
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MACHINE: Machine = Machine {
        seconds_per_byte: Range { least: 1e-10, likely: 2e-10, most: 3e-10 },
        launch: Range { least: 0.0, likely: 0.0, most: 0.002 },
    };

    fn runs(resident: [u64; 3], accessible: [u64; 3], seconds: [f64; 3]) -> Spread {
        let run = |at: usize| Observation {
            resident: resident[at] << 20,
            accessible: accessible[at] << 20,
            accessible_files: 20 << 20,
            seconds: seconds[at],
            ..Observation::default()
        };
        Spread { least: run(0), middle: run(1), most: run(2) }
    }

    #[test]
    fn future_is_what_is_accessible_and_on_fault_what_is_touched() {
        let unlocked = runs([40; 3], [640; 3], [1.0; 3]);
        let future = predict(Policy::Future, &unlocked, &MACHINE);
        assert!(future.resident.holds((640 << 20) as f64) && !future.resident.holds((600 << 20) as f64));
        assert!(future.seconds.most > 1.4 && future.seconds.least == 0.85, "{future:?}");
        assert!(future.seconds.likely > 1.1 && future.seconds.likely < 1.15, "{future:?}");
        let on_fault = predict(Policy::OnFault, &unlocked, &MACHINE);
        assert!(on_fault.resident.holds((40 << 20) as f64) && on_fault.seconds.most < 1.26);
        assert_eq!(predict(Policy::None, &unlocked, &MACHINE).resident.likely, (40 << 20) as f64);
    }

    #[test]
    fn what_varies_has_a_wider_range_around_the_same_middle() {
        let unlocked = runs([40, 50, 80], [600, 640, 700], [1.0, 1.5, 4.0]);
        let on_fault = predict(Policy::OnFault, &unlocked, &MACHINE);
        assert!(on_fault.resident.holds((80 << 20) as f64) && on_fault.resident.holds((40 << 20) as f64));
        assert_eq!((on_fault.resident.likely, on_fault.seconds.likely), ((50 << 20) as f64, 1.5));
        assert!(predict(Policy::Future, &unlocked, &MACHINE).resident.holds((700 << 20) as f64));
    }
}
