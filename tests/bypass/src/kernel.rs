// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Code for the kernel, and ways into it, by a root that runs nothing but approved programs.

use std::fs;
use std::io;
use std::path::PathBuf;

use rustix::system::uname;

use crate::arena::Arena;
use crate::{Rule, Technique};

const UNSIGNED: &[&str] = &["unsigned"];
const BUFFER: &[&str] = &["kernel-buffer"];
const NOTHING: [&str; 0] = [];

pub(crate) const TECHNIQUES: &[Technique] = &[
    Technique::new(
        "module_from_file",
        "finit_module(2) of a module that nobody signed for us",
        with_module,
        module_from_file,
        UNSIGNED,
    ),
    Technique::new("module_from_memory", "init_module(2)", with_module, module_from_memory, BUFFER)
        .rule(Rule::Processes),
    Technique::new(
        "kexec_from_file",
        "kexec_file_load(2) of a kernel that nobody signed for us",
        Arena::with_both,
        |arena| arena.attack("kexec-from-file", [arena.stranger()]),
        UNSIGNED,
    ),
    Technique::new(
        "kexec_from_memory",
        "kexec_load(2)",
        Arena::with_attacker,
        |arena| arena.attack("kexec-from-memory", NOTHING),
        BUFFER,
    )
    .rule(Rule::Processes),
    Technique::new(
        "physical_memory",
        "Opening /dev/mem for writing",
        Arena::with_attacker,
        |arena| arena.attack("physical-memory", NOTHING),
        &["locked"],
    )
    .rule(Rule::Processes),
];

/// Small, and needed by nobody here.
const MODULE: &str = "kernel/net/sched/act_bpf.ko";

fn module_source() -> io::Result<PathBuf> {
    let release = uname().release().to_string_lossy().into_owned();
    let plain = PathBuf::from(format!("/lib/modules/{release}/{MODULE}"));
    if plain.exists() { Ok(plain) } else { Err(io::Error::other(format!("expected {}", plain.display()))) }
}

fn with_module(arena: &Arena) -> io::Result<()> {
    arena.with_attacker()?;
    arena.file("module.ko", &fs::read(module_source()?)?).map(drop)
}

fn unload() {
    // Not loaded: then there is nothing to take back.
    let _ = std::process::Command::new("rmmod").arg("act_bpf").output();
}

fn module_from_file(arena: &Arena) -> io::Result<()> {
    let outcome = arena.attack("module-from-file", [arena.path("module.ko")]);
    unload();
    outcome
}

fn module_from_memory(arena: &Arena) -> io::Result<()> {
    let outcome = arena.attack("module-from-memory", [arena.path("module.ko")]);
    unload();
    outcome
}
