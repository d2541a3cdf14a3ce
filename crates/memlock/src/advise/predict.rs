// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a program will need under each policy, from what it needs without a lock.

use serde::Serialize;

use super::observe::Observation;
use crate::run::Policy;

/// From least to most.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Range {
    /// The least.
    pub least: f64,
    /// The most.
    pub most: f64,
}

impl Range {
    /// Around a value, by a part of it.
    #[must_use]
    pub fn around(value: f64, part: f64) -> Self {
        Self { least: value * (1.0 - part), most: value * (1.0 + part) }
    }

    /// Whether a value lies in it.
    #[must_use]
    pub fn holds(&self, value: f64) -> bool {
        (self.least..=self.most).contains(&value)
    }

    fn plus(self, least: f64, most: f64) -> Self {
        Self { least: self.least + least, most: self.most + most }
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

/// Predicts one policy. `seconds` is the range that unlocked runs took.
#[must_use]
pub fn predict(policy: Policy, unlocked: &Observation, seconds: Range, machine: &Machine) -> Prediction {
    #[allow(clippy::cast_precision_loss, reason = "sizes of processes are below 2^53 bytes")]
    let number = |bytes: u64| bytes as f64;
    let resident = number(unlocked.resident);
    let accessible = number(unlocked.accessible).max(resident);
    let files = number(unlocked.accessible_files);
    let faults = number(unlocked.minor_faults);
    let launch = |range: Range| range.plus(machine.launch.least, machine.launch.most);
    let memory = |bytes: f64| Range::around(bytes, RESIDENT_VARIES.0).plus(-RESIDENT_VARIES.1, RESIDENT_VARIES.1);
    match policy {
        Policy::None => Prediction { seconds, resident: memory(resident), faults: Range::around(faults, 0.02) },
        Policy::OnFault => Prediction {
            seconds: launch(seconds),
            resident: memory(resident),
            // Half a per cent, and what the launcher itself touches.
            faults: Range::around(faults, 0.02).plus(0.0, 200.0),
        },
        // What is mapped at the start: the program and its linker at most.
        Policy::Current => Prediction {
            seconds: launch(seconds),
            resident: memory(resident).plus(0.0, files),
            faults: Range { least: faults * 0.9, most: faults + 200.0 + files / PAGE / AROUND },
        },
        Policy::Future => {
            let extra = (accessible - resident).max(0.0);
            let cost = machine.seconds_per_byte;
            // Each anonymous page is a fault of its own unless it is a huge one; those of files come in groups.
            let anonymous = (accessible - files).max(0.0) / PAGE;
            Prediction {
                seconds: launch(seconds).plus(0.0, extra * cost.most),
                resident: memory(accessible),
                faults: Range { least: anonymous / 512.0, most: faults + anonymous + files / PAGE },
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn future_is_what_is_accessible_and_on_fault_what_is_touched() {
        let unlocked = Observation {
            resident: 40 << 20,
            accessible: 640 << 20,
            accessible_files: 20 << 20,
            ..Observation::default()
        };
        let machine = Machine {
            seconds_per_byte: Range { least: 1e-10, most: 3e-10 },
            launch: Range { least: 0.0, most: 0.002 },
        };
        let seconds = Range { least: 1.0, most: 1.1 };
        let future = predict(Policy::Future, &unlocked, seconds, &machine);
        assert!(future.resident.holds((640 << 20) as f64) && !future.resident.holds((600 << 20) as f64));
        assert!(future.seconds.most > 1.28 && future.seconds.least == 1.0, "{future:?}");
        let on_fault = predict(Policy::OnFault, &unlocked, seconds, &machine);
        assert!(on_fault.resident.holds((40 << 20) as f64) && on_fault.seconds.most < 1.11);
        assert!(predict(Policy::None, &unlocked, seconds, &machine).seconds == seconds);
    }
}
