// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Ways around a rule about what may run.
//!
//! Each [`Technique`] is tried where there is no rule, and must work there: otherwise it proves nothing. Then it is
//! tried under the rule, and must end as it says. This crate knows nothing of who enforces: the guest of `tests/vm`
//! approves what [`Arena::approved`] lists, switches the rule on, and looks for the event.

mod arena;
mod attribute;
mod beside;
mod exec;
mod fuse;
mod guard;
mod interpreter;
mod kernel;
mod library;
mod memory;
mod neighbour;
mod process;
mod race;
mod table;
mod technique;
mod writer;

pub use arena::Arena;
pub use neighbour::{Neighbour, Result};
pub use table::table;
pub use technique::{Outcome, Rule, Technique};

/// All techniques, by family.
pub const FAMILIES: &[(&str, &[Technique])] = &[
    ("Starting programs", exec::TECHNIQUES),
    ("Libraries and mappings", library::TECHNIQUES),
    ("Memory", memory::TECHNIQUES),
    ("Other processes", process::TECHNIQUES),
    ("Changing files in use", writer::TECHNIQUES),
    ("Beside the file", beside::TECHNIQUES),
    ("Interpreters", interpreter::TECHNIQUES),
    ("The kernel", kernel::TECHNIQUES),
    ("Touchmark itself, by root", guard::TECHNIQUES),
];

/// The technique of this name.
#[must_use]
pub fn find(name: &str) -> Option<&'static Technique> {
    FAMILIES.iter().flat_map(|(_, techniques)| techniques.iter()).find(|technique| technique.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_there_are_at_least_forty() {
        let mut names: Vec<_> =
            FAMILIES.iter().flat_map(|(_, techniques)| techniques.iter().map(|technique| technique.name)).collect();
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
        assert!(count >= 40, "{count}");
    }
}
