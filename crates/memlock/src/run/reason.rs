// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Why a program cannot be locked, and what helps.

use std::io;

use crate::summary::size;

/// What raises the limit.
const RAISE: &str = "raise RLIMIT_MEMLOCK (`ulimit -l`, `LimitMEMLOCK=` in a systemd unit, `--ulimit memlock=` of a \
                     container), or grant CAP_IPC_LOCK";

/// Why nothing was started.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The program is not there, or may not be executed.
    #[error("cannot start {program}{hint}")]
    Start {
        /// As it was given.
        program: String,
        /// What may be the reason, in brackets; or nothing.
        hint: &'static str,
        /// What `execvp` reported.
        source: io::Error,
    },
    /// Known beforehand: it could not be locked.
    #[error("{program} was not started, because it cannot be locked: {why}")]
    Unlockable {
        /// As it was given.
        program: String,
        /// With what helps.
        why: String,
    },
    /// The stack size could not be set.
    #[error("cannot set the size of stacks to {}", size(*.bytes))]
    Stack {
        /// What was asked for.
        bytes: u64,
        /// What `setrlimit` reported.
        source: io::Error,
    },
    /// There was no helper to lock it from outside.
    #[error("cannot start the helper that locks the program")]
    Helper(#[source] io::Error),
}

/// What may be behind an exec that was refused.
pub(super) fn of_exec(error: &io::Error, traced: bool) -> &'static str {
    // EPERM; a file without permission to execute is EACCES.
    if traced && error.raw_os_error() == Some(1) {
        " (if Touchmark enforces here: it starts nothing under a tracer, which locks it, unless `touchmark enforce \
         --debugger` names this touchmark)"
    } else {
        ""
    }
}

/// What an error of `mlockall`, called by the program, means.
pub(super) fn of_mlockall(number: i32) -> String {
    /// Linux: EPERM, EAGAIN, ENOMEM.
    const EPERM: i32 = 1;
    const EAGAIN: i32 = 11;
    const ENOMEM: i32 = 12;
    match number {
        EPERM => format!("it may lock nothing; {RAISE}"),
        ENOMEM => format!("already at its start it has more mapped than it may lock; {RAISE}"),
        EAGAIN => "the kernel could not bring all of it into memory".to_owned(),
        other => format!("mlockall failed: {}", io::Error::from_raw_os_error(other)),
    }
}

/// What an error of `ptrace` means.
pub(super) fn of_seize(error: &io::Error) -> String {
    if error.kind() == io::ErrorKind::PermissionDenied {
        return "the helper may not trace it, because this process is traced already (a debugger, strace), or tracing is \
                forbidden (kernel.yama.ptrace_scope 2 or 3, a container's seccomp filter, Touchmark's own enforcement: \
                `--debugger` with this program's path)"
            .to_owned();
    }
    format!("the helper cannot trace it: {error}")
}

/// A hard limit of nothing.
pub(super) fn no_limit_left() -> String {
    format!("the hard limit of locked memory is 0; {RAISE}")
}

/// A program known to reserve much.
pub(super) fn too_large(what: &str, limit: u64) -> String {
    format!("{what} reserves far more address space than the {} that it may lock; {RAISE}", size(limit))
}

/// The remark about a limit that a program may meet later.
pub(super) fn may_meet(limit: u64) -> String {
    format!(
        "all that it maps from now on counts against the {} that it may lock; when they are used up it gets no more \
         memory; {RAISE}",
        size(limit)
    )
}
