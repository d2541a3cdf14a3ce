// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the numbers of a snapshot mean.

use serde::Serialize;

use crate::mapping::{Lock, Mapping};
use crate::snapshot::Snapshot;

/// Sums over the mappings of a process; bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Summary {
    /// Mapped at all.
    pub mapped: u64,
    /// In memory.
    pub resident: u64,
    /// In memory and locked: will stay.
    pub locked_resident: u64,
    /// In memory and not locked: may be taken away. Without what cannot be locked.
    pub unlocked_resident: u64,
    /// Locked and not in memory, though it could be used: comes with the first touch, or was passed over.
    pub locked_untouched: u64,
    /// Locked address space without access, which no memory will ever fill. The kernel counts it as locked.
    pub locked_reserve: u64,
    /// In swap.
    pub swapped: u64,
    /// How many mappings there are.
    pub mappings: usize,
    /// How many boundaries between mappings only the lock makes.
    pub splits: usize,
    /// How many mappings have guard pages that `mlockall` passes over.
    pub guarded: usize,
}

impl Summary {
    /// Adds up the mappings.
    #[must_use]
    pub fn of(mappings: &[Mapping]) -> Self {
        let mut sum = Self { mappings: mappings.len(), ..Self::default() };
        for mapping in mappings.iter().filter(|mapping| !mapping.special) {
            sum.mapped += mapping.size();
            sum.resident += mapping.resident;
            sum.swapped += mapping.swapped;
            sum.guarded += usize::from(mapping.guarded);
            if mapping.lock == Lock::None {
                sum.unlocked_resident += mapping.resident;
                continue;
            }
            sum.locked_resident += mapping.resident;
            let rest = mapping.locked_not_resident();
            *(if mapping.is_reserve() { &mut sum.locked_reserve } else { &mut sum.locked_untouched }) += rest;
        }
        sum.splits = mappings.windows(2).filter(|pair| pair[0].is_split_from(&pair[1])).count();
        sum
    }

    /// What a person wants to know, a sentence each.
    #[must_use]
    pub fn sentences(&self, snapshot: &Snapshot) -> Vec<String> {
        let mut said = Vec::new();
        said.push(match (self.locked_resident, self.unlocked_resident) {
            (0, _) => format!("Nothing is locked: any of its {} in memory can be swapped out.", size(self.resident)),
            (locked, 0) => format!("All {} that it has in memory are locked and will stay.", size(locked)),
            (locked, free) => format!(
                "{} in memory are locked and will stay; {} are not locked and can be taken away.",
                size(locked),
                size(free)
            ),
        });
        let whole = snapshot.mappings.iter().any(|mapping| mapping.lock == Lock::Whole && !mapping.is_reserve());
        if self.locked_untouched > 0 && whole {
            said.push(format!(
                "{} of what is locked are not in memory: mapped past the end of a file, guarded, or locked on fault.",
                size(self.locked_untouched)
            ));
        } else if self.locked_untouched > 0 {
            said.push(format!(
                "{} more are locked on fault: a page comes with its first touch, and stays from then on.",
                size(self.locked_untouched)
            ));
        }
        if self.locked_reserve > 0 {
            said.push(format!(
                "The kernel counts {} as locked; {} of it are address space without access, which fills no memory.",
                size(snapshot.counted_as_locked),
                size(self.locked_reserve)
            ));
        }
        if self.swapped > 0 {
            said.push(format!("{} are in swap.", size(self.swapped)));
        }
        if self.guarded > 0 {
            said.push(format!(
                "{} mappings have guard pages inside, which mlockall passes over without a word.",
                self.guarded
            ));
        }
        said.extend(self.about_the_limit(snapshot));
        said
    }

    /// How near the limit is.
    fn about_the_limit(&self, snapshot: &Snapshot) -> Option<String> {
        let limits = &snapshot.limits;
        let Some(limit) = limits.locked_soft.filter(|_| !limits.may_exceed) else {
            return (self.locked_resident > 0)
                .then(|| "No limit holds it: it may lock as much as it likes.".to_owned());
        };
        let used = snapshot.counted_as_locked;
        let future = snapshot.mappings.iter().rev().find(|mapping| !mapping.special && mapping.name.is_empty());
        let all = future.is_some_and(|mapping| mapping.lock != Lock::None);
        let warning = if all && limit.saturating_sub(used) < limit / 4 {
            "; when it is reached the program gets no more memory at all"
        } else {
            ""
        };
        Some(format!("{} of the {} that it may lock (RLIMIT_MEMLOCK) are used{warning}.", size(used), size(limit)))
    }
}

/// A number of bytes for people: `3.4 MiB`.
#[must_use]
pub fn size(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["KiB", "MiB", "GiB", "TiB", "PiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    // Tenths are enough, and whole numbers cannot be rounded to something odd.
    let mut tenths = u128::from(bytes) * 10 / 1024;
    let mut unit = 0;
    while tenths >= 10240 && unit + 1 < UNITS.len() {
        tenths /= 1024;
        unit += 1;
    }
    if tenths % 10 == 0 || tenths >= 1000 {
        format!("{} {}", tenths / 10, UNITS[unit])
    } else {
        format!("{}.{} {}", tenths / 10, tenths % 10, UNITS[unit])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_readable() {
        let shown = [0, 1023, 1024, 1536, 4096, 1 << 20, 5_400_000, 150 << 20, 1 << 30, u64::MAX].map(size);
        let expected =
            ["0 B", "1023 B", "1 KiB", "1.5 KiB", "4 KiB", "1 MiB", "5 MiB", "150 MiB", "1 GiB", "16383 PiB"];
        assert_eq!(shown[..6], expected[..6]);
        assert_eq!(shown[6], "5.1 MiB");
        assert_eq!(shown[7..], expected[7..]);
    }
}
