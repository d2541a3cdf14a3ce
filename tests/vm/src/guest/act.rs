// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a program under enforcement may try: trials start a copy of this program with one of these words.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context, Result, bail};
use rustix::fs::{MemfdFlags, memfd_create};
use touchmark_sys::mapping::{Access, Mapping};
use touchmark_vm::protocol::GUEST_ON_DISK;

use crate::site::Site;

/// Exit code of an act that was refused.
const REFUSED: u8 = 13;

/// The size of a huge page on x86-64, in bytes.
const HUGE: usize = 2 << 20;

type Act = fn() -> io::Result<()>;

/// What is tried.
const ACTS: &[(&str, Act)] = &[
    ("nothing", || Ok(())),
    ("map-memory", || Mapping::anonymous(4096, Access::Execute).map(drop)),
    ("protect-memory", || Mapping::anonymous(4096, Access::Read)?.make_executable()),
    ("map-memory-file", || map_memory_file(MemfdFlags::empty(), 4096)),
    ("map-huge-memory-file", || map_memory_file(MemfdFlags::HUGETLB, HUGE)),
    ("write-itself", || File::options().write(true).open("/proc/self/mem").map(drop)),
];

/// Does what the word says and tells by the exit code whether it was refused.
pub(crate) fn run(word: &str) -> ExitCode {
    let Some((_, act)) = ACTS.iter().find(|(name, _)| *name == word) else { return ExitCode::from(2) };
    match act() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => ExitCode::from(REFUSED),
        Err(error) => {
            eprintln!("{word}: {error}");
            ExitCode::FAILURE
        }
    }
}

/// A copy of this program on the site.
pub(crate) fn actor(site: &Site, name: &str) -> Result<PathBuf> {
    site.program(GUEST_ON_DISK, name)
}

/// Whether the actor could do it; that it cannot run at all is an error.
pub(crate) fn can(actor: &Path, word: &str) -> Result<bool> {
    let output = Command::new(actor).args(["act", word]).stdin(Stdio::null()).output();
    let output = output.with_context(|| format!("{} should run", actor.display()))?;
    match output.status.code() {
        Some(0) => Ok(true),
        Some(code) if code == i32::from(REFUSED) => Ok(false),
        _ => bail!("{word} ended with {}: {}", output.status, String::from_utf8_lossy(&output.stderr)),
    }
}

fn map_memory_file(flags: MemfdFlags, length: usize) -> io::Result<()> {
    let memory = File::from(memfd_create("memory", flags)?);
    memory.set_len(length as u64)?;
    Mapping::new(&memory, length, Access::Execute).map(drop)
}
