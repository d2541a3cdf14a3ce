// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Bringing code into an approved program by the file system.

use std::fs;
use std::io;
use std::process::Command;

use crate::Technique;
use crate::arena::{Arena, marked, run};

const UNSIGNED: &[&str] = &["unsigned"];

pub(crate) const TECHNIQUES: &[Technique] = &[
    Technique::new(
        "ld_preload",
        "LD_PRELOAD of a library that nobody signed",
        Arena::with_library,
        ld_preload,
        UNSIGNED,
    ),
    Technique::new("ld_audit", "LD_AUDIT of a library that nobody signed", Arena::with_library, ld_audit, UNSIGNED),
    Technique::new(
        "ld_library_path",
        "LD_LIBRARY_PATH to a changed libc",
        with_changed_libc,
        ld_library_path,
        UNSIGNED,
    ),
    Technique::new(
        "map_executable",
        "mmap(2) of a file with PROT_EXEC, as dlopen(3) does",
        Arena::with_strange_code,
        map_executable,
        UNSIGNED,
    ),
    Technique::new(
        "map_then_protect",
        "mmap(2) for reading, then mprotect(2) to PROT_EXEC",
        Arena::with_strange_code,
        map_then_protect,
        &["unchecked-mprotect"],
    ),
];

fn ld_preload(arena: &Arena) -> io::Result<()> {
    with_environment(arena, "LD_PRELOAD")
}

fn ld_audit(arena: &Arena) -> io::Result<()> {
    with_environment(arena, "LD_AUDIT")
}

fn with_environment(arena: &Arena, variable: &str) -> io::Result<()> {
    let mark = arena.path("mark");
    run(Command::new(arena.path("program")).env(variable, arena.path("library.so")).env("MARK", &mark))?;
    marked(&mark)
}

fn with_changed_libc(arena: &Arena) -> io::Result<()> {
    arena.with_library()?;
    let libc = fs::read("/lib/x86_64-linux-gnu/libc.so.6")?;
    arena.file("libc.so.6", &[&libc[..], b"changed"].concat()).map(drop)
}

/// The dynamic linker ends the program with 127 if it cannot map the library.
fn ld_library_path(arena: &Arena) -> io::Result<()> {
    match run(Command::new(arena.path("program")).env("LD_LIBRARY_PATH", arena.path(""))) {
        Err(error) if error.raw_os_error() == Some(127) => Err(rustix::io::Errno::PERM.into()),
        other => other,
    }
}

fn map_executable(arena: &Arena) -> io::Result<()> {
    arena.attack("map-executable", [arena.path("code")])
}

fn map_then_protect(arena: &Arena) -> io::Result<()> {
    arena.attack("map-then-protect", [arena.path("code")])
}
