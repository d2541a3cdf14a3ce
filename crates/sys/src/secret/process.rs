// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a process that handles secrets does about itself, because libraries make copies that no [`super::Secret`] holds.

use std::os::fd::{FromRawFd, OwnedFd};
use std::sync::OnceLock;

/// What could be had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Protection {
    /// No core dump, and no other process of the same user may trace it or read its memory.
    pub undumpable: bool,
    /// All memory it touches stays out of swap.
    pub locked: bool,
}

/// Guards the whole process, copies inside libraries included: no core dump, no reading of its memory by others of the
/// same user, and, if it may lock as much as it likes, no swapping. Without that right a full lock would make it fail
/// once it needs more than its limit, so it is not tried; secrets themselves are locked in any case.
pub fn protect_process() -> Protection {
    let none = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the argument is a `struct rlimit` to read.
    let no_core = unsafe { libc::setrlimit(libc::RLIMIT_CORE, &raw const none) } == 0;
    // SAFETY: the call takes numbers.
    let undumpable = unsafe { libc::prctl(libc::PR_SET_DUMPABLE, 0, 0, 0, 0) } == 0;
    let locked = may_lock_all() && {
        // SAFETY: locking changes no byte.
        unsafe { libc::mlockall(libc::MCL_CURRENT | libc::MCL_FUTURE | libc::MCL_ONFAULT) == 0 }
    };
    Protection { undumpable: undumpable && no_core, locked }
}

/// Whether the kernel gives out secret files.
pub(super) fn has_secretmem() -> bool {
    static FOUND: OnceLock<bool> = OnceLock::new();
    *FOUND.get_or_init(|| {
        // SAFETY: the call takes a number.
        let descriptor = unsafe { libc::syscall(libc::SYS_memfd_secret, libc::O_CLOEXEC) };
        let Ok(descriptor @ 0..) = i32::try_from(descriptor) else { return false };
        // SAFETY: the kernel just gave us this descriptor; nobody else has it.
        drop(unsafe { OwnedFd::from_raw_fd(descriptor) });
        true
    })
}

/// Whether the machine offers suspend to disk, which hidden memory would prevent.
pub(super) fn machine_can_hibernate() -> bool {
    let states = std::fs::read_to_string("/sys/power/state").unwrap_or_default();
    states.split_whitespace().any(|state| state == "disk")
}

/// No limit, or the capability to exceed it.
fn may_lock_all() -> bool {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the argument is a `struct rlimit` to be filled.
    let known = unsafe { libc::getrlimit(libc::RLIMIT_MEMLOCK, &raw mut limit) } == 0;
    known && limit.rlim_cur == libc::RLIM_INFINITY || crate::capability::has(crate::capability::IPC_LOCK)
}
