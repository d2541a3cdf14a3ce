// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Two files change places all the time while one of them is started.

use std::fs;
use std::io;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{CWD, RenameFlags};
use rustix::io::Errno;

use crate::arena::{Arena, run};

/// Enough for either file to be met, and for an exchange at many points of a check.
const TRIES: usize = 60;

pub(crate) fn prepare(arena: &Arena) -> io::Result<()> {
    arena.with_both()
}

/// Which of the two ran is told by the program itself: it asks the kernel for the size of its own file. So it does not
/// matter what lay under the name before or after.
pub(crate) fn exchanged_during_check(arena: &Arena) -> io::Result<()> {
    let (program, stranger) = (arena.attacker(), arena.stranger());
    let size = fs::metadata(&program)?.len().to_string();
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let swapping = scope.spawn(|| swap(&program, &stranger, &over));
        let outcome = start_often(&program, &size);
        over.store(true, Ordering::Relaxed);
        swapping.join().map_err(|_| io::Error::other("the thread that swaps panicked"))??;
        outcome
    })
}

fn swap(one: &Path, other: &Path, over: &AtomicBool) -> io::Result<()> {
    while !over.load(Ordering::Relaxed) {
        rustix::fs::renameat_with(CWD, one, CWD, other, RenameFlags::EXCHANGE)?;
    }
    Ok(())
}

/// Works as soon as the stranger ran once. That it was never met proves nothing, and is an error of its own.
fn start_often(program: &Path, size: &str) -> io::Result<()> {
    let mut refused = false;
    for _ in 0..TRIES {
        match run(Command::new(program).args(["other-than", size])) {
            Err(error) if error.raw_os_error() == Some(Errno::AGAIN.raw_os_error()) => {}
            Err(error) if error.raw_os_error() == Some(Errno::PERM.raw_os_error()) => refused = true,
            other => return other,
        }
    }
    Err(if refused { Errno::PERM.into() } else { io::Error::other("the other file was never met") })
}
