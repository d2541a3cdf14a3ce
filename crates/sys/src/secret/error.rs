// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Why a secret could not be kept, and what helps.

use std::io;

/// Why there is no memory for a secret.
#[derive(Debug, thiserror::Error)]
pub enum SecretError {
    /// The limit on locked memory leaves no room; numbers in bytes.
    #[error(
        "cannot keep a secret out of swap: expected room for {wanted} more bytes of locked memory, found a limit of \
         {limit} (RLIMIT_MEMLOCK), {used} of them used; raise it (`ulimit -l`, `LimitMEMLOCK=` in a systemd unit, \
         `--ulimit memlock=` of a container), or grant CAP_IPC_LOCK"
    )]
    Limit {
        /// What was to be locked.
        wanted: u64,
        /// The soft limit.
        limit: u64,
        /// What this process has locked.
        used: u64,
    },
    /// The kernel has no `memfd_secret(2)`, or it is switched off.
    #[error(
        "expected memfd_secret, which this kernel does not offer (CONFIG_SECRETMEM; before 6.5 also \
         secretmem.enable=1 on its command line); locked memory works everywhere"
    )]
    NoSecretmem,
    /// Longer than it may be.
    #[error("expected a secret of at most {most} bytes, found more")]
    TooLong {
        /// The most bytes.
        most: usize,
    },
    /// Reading what is to be the secret failed.
    #[error(transparent)]
    Read(io::Error),
    /// A system call failed.
    #[error("{call} failed while making room for a secret")]
    System {
        /// Its name.
        call: &'static str,
        /// What it reported.
        source: io::Error,
    },
}

impl SecretError {
    /// The last error of `call`, which was to make `wanted` bytes stay in memory.
    pub(super) fn of_call(call: &'static str, wanted: usize) -> Self {
        let source = io::Error::last_os_error();
        match source.raw_os_error() {
            Some(libc::ENOSYS) => Self::NoSecretmem,
            // mlock says EPERM for a limit of zero and ENOMEM above it; mmap of a secret file says EAGAIN.
            Some(libc::EPERM | libc::ENOMEM | libc::EAGAIN) => match limit() {
                Some(limit) if used().saturating_add(wanted as u64) > limit => {
                    Self::Limit { wanted: wanted as u64, limit, used: used() }
                }
                _ => Self::System { call, source },
            },
            _ => Self::System { call, source },
        }
    }
}

/// The soft limit on locked memory in bytes; `None` if there is none.
fn limit() -> Option<u64> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the argument is a `struct rlimit` to be filled.
    let result = unsafe { libc::getrlimit(libc::RLIMIT_MEMLOCK, &raw mut limit) };
    (result == 0 && limit.rlim_cur != libc::RLIM_INFINITY).then_some(limit.rlim_cur)
}

/// What this process has locked, in bytes; 0 where `/proc` is missing.
fn used() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmLck:"));
    let kib = line.and_then(|line| line.split_whitespace().next()).and_then(|number| number.parse::<u64>().ok());
    kib.unwrap_or(0).saturating_mul(1024)
}
