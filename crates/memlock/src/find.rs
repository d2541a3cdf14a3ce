// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Processes by number or name.

use std::path::Path;

use crate::snapshot::StatusError;

/// The processes that a user means: a number, or the name of a program (as the kernel has it, of its file, or of its
/// first argument). This process is never among those found by name.
///
/// # Errors
/// There is none.
pub fn find(wanted: &str) -> Result<Vec<i32>, StatusError> {
    if let Ok(pid) = wanted.parse::<i32>() {
        return Ok(vec![pid]);
    }
    let nobody = || StatusError::NoSuchName(wanted.to_owned());
    let own = i32::try_from(std::process::id()).unwrap_or(0);
    let processes = procfs::process::all_processes().map_err(|_| nobody())?;
    let mut found: Vec<i32> = processes
        .flatten()
        .filter(|process| process.pid != own && is_called(process, wanted))
        .map(|process| process.pid)
        .collect();
    found.sort_unstable();
    if found.is_empty() { Err(nobody()) } else { Ok(found) }
}

fn is_called(process: &procfs::process::Process, wanted: &str) -> bool {
    let file_name = |path: &Path| path.file_name().is_some_and(|name| name == wanted);
    process.stat().is_ok_and(|stat| stat.comm == wanted)
        || process.exe().is_ok_and(|path| file_name(&path))
        || process.cmdline().is_ok_and(|line| line.first().is_some_and(|first| file_name(Path::new(first))))
}
