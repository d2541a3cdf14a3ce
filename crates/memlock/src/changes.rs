// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What happened to the mappings between two moments: S1's figure 2, observed.

use std::fmt;

use serde::Serialize;

use crate::mapping::{Lock, Mapping};
use crate::summary::size;

/// Something that happened to a range of addresses.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "change")]
pub enum Change {
    /// One mapping became several, because a part was locked or unlocked.
    Split {
        /// Its first address.
        start: u64,
        /// Its name.
        name: String,
        /// How many it is now.
        parts: usize,
    },
    /// Several became one, because they no longer differ in their lock.
    Merged {
        /// The first address.
        start: u64,
        /// Its name.
        name: String,
        /// How many it was.
        parts: usize,
    },
    /// The lock of a whole mapping changed.
    Lock {
        /// Its first address.
        start: u64,
        /// Its name.
        name: String,
        /// Its length in bytes.
        size: u64,
        /// How it was locked.
        before: Lock,
        /// How it is locked.
        now: Lock,
    },
}

/// Finds splits, merges and changes of locks between two lists in the order of addresses.
#[must_use]
pub fn changes(before: &[Mapping], now: &[Mapping]) -> Vec<Change> {
    let mut found = Vec::new();
    for old in before {
        let parts = tiles(old, now);
        match parts {
            [new] if new.lock != old.lock => found.push(Change::Lock {
                start: old.start,
                name: old.name.clone(),
                size: old.size(),
                before: old.lock,
                now: new.lock,
            }),
            [_, _, ..] if by_lock(parts) => {
                found.push(Change::Split { start: old.start, name: old.name.clone(), parts: parts.len() });
            }
            _ => {}
        }
    }
    for new in now {
        let parts = tiles(new, before);
        if parts.len() > 1 && by_lock(parts) {
            found.push(Change::Merged { start: new.start, name: new.name.clone(), parts: parts.len() });
        }
    }
    found
}

/// The mappings of a sorted list that together cover just the range of `whole`; none if they do not.
fn tiles<'a>(whole: &Mapping, list: &'a [Mapping]) -> &'a [Mapping] {
    let first = list.partition_point(|mapping| mapping.start < whole.start);
    let after = list.partition_point(|mapping| mapping.end <= whole.end);
    let Some(parts) = list.get(first..after) else { return &[] };
    let covers = parts.first().is_some_and(|part| part.start == whole.start)
        && parts.last().is_some_and(|part| part.end == whole.end)
        && parts.windows(2).all(|pair| pair[0].end == pair[1].start);
    if covers { parts } else { &[] }
}

fn by_lock(parts: &[Mapping]) -> bool {
    parts.windows(2).all(|pair| pair[0].is_split_from(&pair[1]))
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = |start: &u64, name: &str| {
            if name.is_empty() { format!("{start:x} (anonymous)") } else { format!("{start:x} {name}") }
        };
        match self {
            Self::Split { start, name, parts } => write!(f, "split into {parts}: {}", place(start, name)),
            Self::Merged { start, name, parts } => write!(f, "merged from {parts}: {}", place(start, name)),
            Self::Lock { start, name, size: bytes, before, now } => {
                let word = match (before, now) {
                    (_, Lock::None) => "unlocked",
                    (_, Lock::OnFault) => "locked on fault",
                    (_, Lock::Whole) => "locked",
                };
                write!(f, "{word}: {} ({})", place(start, name), size(*bytes))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mapping(pages: std::ops::Range<u64>, lock: Lock) -> Mapping {
        Mapping {
            start: pages.start * 4096,
            end: pages.end * 4096,
            permissions: "rw-p".to_owned(),
            offset: 0,
            name: String::new(),
            lock,
            resident: 0,
            huge: 0,
            swapped: 0,
            guarded: false,
            special: false,
        }
    }

    #[test]
    fn a_split_and_its_merge_are_seen() {
        let whole = [mapping(0..10, Lock::None)];
        let parts = [mapping(0..3, Lock::None), mapping(3..5, Lock::Whole), mapping(5..10, Lock::None)];
        assert_eq!(changes(&whole, &parts), [Change::Split { start: 0, name: String::new(), parts: 3 }]);
        assert_eq!(changes(&parts, &whole), [Change::Merged { start: 0, name: String::new(), parts: 3 }]);
        assert_eq!(changes(&parts, &parts), []);
        assert_eq!(changes(&whole, &[]), []);
    }

    #[test]
    fn a_lock_of_a_whole_mapping_is_seen() {
        let found = changes(&[mapping(1..3, Lock::None)], &[mapping(1..3, Lock::OnFault)]);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].to_string(), "locked on fault: 1000 (anonymous) (8 KiB)");
    }

    #[test]
    fn what_is_split_otherwise_is_none_of_ours() {
        let mut other = mapping(2..4, Lock::None);
        other.permissions = "r--p".to_owned();
        assert_eq!(changes(&[mapping(0..4, Lock::None)], &[mapping(0..2, Lock::None), other]), []);
    }
}
