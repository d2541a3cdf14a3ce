// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Writing into a process that runs an approved program.

use std::fs;
use std::io;
use std::path::PathBuf;
use std::process::Command;

use rustix::io::Errno;

use crate::Technique;
use crate::arena::{Arena, run};

const PTRACE: &[&str] = &["ptrace"];
const NOTHING: [&str; 0] = [];

pub(crate) const TECHNIQUES: &[Technique] = &[
    Technique::new(
        "ptrace_attach",
        "PTRACE_ATTACH, then PTRACE_POKEDATA",
        Arena::with_attacker,
        |arena| arena.attack("attach", NOTHING),
        PTRACE,
    ),
    Technique::new(
        "ptrace_traceme",
        "A child that asks to be traced",
        Arena::with_attacker,
        |arena| arena.attack("traceme", NOTHING),
        PTRACE,
    ),
    Technique::new(
        "process_vm_writev",
        "process_vm_writev(2)",
        Arena::with_attacker,
        |arena| arena.attack("vm-writev", NOTHING),
        PTRACE,
    ),
    Technique::new(
        "proc_pid_mem",
        "Writing to /proc/PID/mem",
        Arena::with_attacker,
        |arena| arena.attack("others-memory", NOTHING),
        PTRACE_OR_MEMORY,
    ),
    Technique::new(
        "proc_self_mem",
        "Writing over one's own code by /proc/self/mem",
        Arena::with_attacker,
        |arena| arena.attack("own-memory", NOTHING),
        &["process-memory"],
    )
    // Debian's newest lets only tracers write over what may not be written (CONFIG_PROC_MEM_FORCE_PTRACE).
    .kernel_stops_from(6, 13, Errno::IO),
    Technique::new(
        "traced_exec",
        "Starting an approved program under a tracer that was there before",
        with_tracer,
        traced_exec,
        &["traced"],
    ),
];

/// Whichever hook comes first.
const PTRACE_OR_MEMORY: &[&str] = &["ptrace", "process-memory"];

/// Not under the rule, which is about files of the arena.
fn tracer() -> PathBuf {
    PathBuf::from("/var/tmp/touchmark-bypass-tracer")
}

fn with_tracer(arena: &Arena) -> io::Result<()> {
    arena.with_attacker()?;
    fs::copy(arena.attacker(), tracer())?;
    Ok(())
}

fn traced_exec(arena: &Arena) -> io::Result<()> {
    run(Command::new(tracer()).arg("trace-across-exec").arg(arena.attacker()))
}
