// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Code that an approved program makes in memory.

use std::io;

use crate::arena::Arena;
use crate::{Outcome, Technique};

const ANONYMOUS: &[&str] = &["anonymous"];
const NOTHING: [&str; 0] = [];

const fn by_attacker(name: &'static str, about: &'static str, attempt: fn(&Arena) -> io::Result<()>) -> Technique {
    Technique::new(name, about, Arena::with_attacker, attempt, ANONYMOUS)
}

pub(crate) const TECHNIQUES: &[Technique] = &[
    by_attacker("anonymous_memory", "mmap(2) of anonymous memory, writable and executable", |arena| {
        arena.attack("anonymous", NOTHING)
    }),
    by_attacker("anonymous_shared", "The same, shared", |arena| arena.attack("anonymous-shared", NOTHING)),
    by_attacker("anonymous_later", "Anonymous memory, written and then made executable", |arena| {
        arena.attack("anonymous-later", NOTHING)
    }),
    by_attacker("heap", "The heap made executable", |arena| arena.attack("heap", NOTHING)),
    by_attacker("stack", "The stack made executable", |arena| arena.attack("stack", NOTHING)),
    by_attacker("memory_file_mapping", "A memory file (memfd_create), written and mapped executable", |arena| {
        arena.attack("memory-file", NOTHING)
    }),
    by_attacker("shared_segment", "System V shared memory attached with SHM_EXEC", |arena| {
        arena.attack("shared-segment", NOTHING)
    }),
    by_attacker("private_copy", "A private mapping of a signed file, written and made executable", |arena| {
        arena.attack("private-copy", [arena.attacker()])
    }),
    by_attacker(
        "private_writable_executable",
        "A private mapping of a signed file, writable and executable",
        |arena| arena.attack("private-writable-executable", [arena.attacker()]),
    ),
    by_attacker("heap_by_personality", "personality(READ_IMPLIES_EXEC), then brk(2)", |arena| {
        arena.attack("heap-by-personality", NOTHING)
    })
    .outcome(Outcome::NotStopped(
        "no hook sees brk(2) but the one that counts memory, which every mapping passes: watching it would cost each \
         program start half a percent",
    )),
];
