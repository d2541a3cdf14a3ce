// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Changing an approved file while it is in use, and using one that can be changed.

use std::fs;
use std::io;

use nix::mount::{MntFlags, MsFlags, mount, umount2};
use rustix::io::Errno;

use crate::arena::Arena;
use crate::{Outcome, Technique};

const BUSY: Outcome = Outcome::Stopped(Errno::TXTBSY, &["mapped"]);
const OPEN: &[&str] = &["open-for-writing"];

const fn while_mapped(name: &'static str, about: &'static str, attempt: fn(&Arena) -> io::Result<()>) -> Technique {
    Technique::new(name, about, Arena::with_approved_code, attempt, &[]).outcome(BUSY)
}

pub(crate) const TECHNIQUES: &[Technique] = &[
    // S2's first two tests. The kernel refuses by itself (but for 6.11 and the first 6.12), and Touchmark does not rely on it.
    Technique::new(
        "s2_write_to_a_running_program",
        "Open a program for writing while it runs",
        Arena::with_attacker,
        write_running,
        &[],
    )
    .outcome(Outcome::KernelStops(Errno::TXTBSY)),
    Technique::new(
        "s2_run_a_program_open_for_writing",
        "Start a program that is open for writing",
        Arena::with_attacker,
        run_while_open,
        &[],
    )
    .outcome(Outcome::KernelStops(Errno::TXTBSY)),
    while_mapped("write_to_mapped_library", "Write to a file that is mapped executable, as libraries are", |arena| {
        arena.attack("write-mapped", [arena.path("code"), arena.path("code")])
    }),
    while_mapped("write_by_hard_link", "The same by another name", |arena| {
        fs::hard_link(arena.path("code"), arena.path("link"))?;
        arena.attack("write-mapped", [arena.path("code"), arena.path("link")])
    }),
    while_mapped("write_by_bind_mount", "The same through a bind mount", write_by_bind_mount),
    while_mapped("write_by_handle", "The same by open_by_handle_at(2)", |arena| {
        arena.attack("write-mapped-by-handle", [arena.path("code"), arena.path("")])
    }),
    while_mapped("write_by_io_uring", "The same by io_uring", |arena| {
        arena.attack("write-mapped-by-ring", [arena.path("code")])
    }),
    while_mapped("truncate_mapped", "truncate(2) of a file that is mapped executable", |arena| {
        arena.attack("truncate-mapped", [arena.path("code")])
    }),
    while_mapped("truncate_by_open", "The same by opening it for reading with O_TRUNC", |arena| {
        arena.attack("truncate-mapped-by-open", [arena.path("code")])
    }),
    while_mapped("punch_hole", "fallocate(2) of a hole into it", |arena| {
        arena.attack("punch-mapped", [arena.path("code")])
    }),
    Technique::new(
        "map_while_open_for_writing",
        "Map a file executable that is open for writing",
        Arena::with_approved_code,
        |arena| arena.attack("map-while-open", [arena.path("code")]),
        OPEN,
    ),
    Technique::new(
        "map_while_mapped_writable",
        "Map a file executable that is mapped shared and writable",
        Arena::with_approved_code,
        |arena| arena.attack("map-while-mapped-writable", [arena.path("code")]),
        OPEN,
    ),
];

fn write_running(arena: &Arena) -> io::Result<()> {
    arena.attack("write-running", [arena.attacker()])
}

fn run_while_open(arena: &Arena) -> io::Result<()> {
    // By another program: the attacker itself runs, and cannot be opened for writing at all.
    let program = arena.path("second");
    fs::copy(arena.attacker(), &program)?;
    arena.attack("run-while-open", [program])
}

fn write_by_bind_mount(arena: &Arena) -> io::Result<()> {
    let place = arena.path("bound");
    fs::create_dir_all(&place)?;
    mount(Some(&arena.path("")), &place, None::<&str>, MsFlags::MS_BIND, None::<&str>)?;
    let outcome = arena.attack("write-mapped", [arena.path("code"), place.join("code")]);
    umount2(&place, MntFlags::MNT_DETACH)?;
    outcome
}
