// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A process's memory at one moment.

use std::io;

use procfs::Current;
use procfs::process::{LimitValue, Process};
use serde::Serialize;

use crate::mapping::Mapping;
use crate::smaps;

/// Why a process could not be looked at.
#[derive(Debug, thiserror::Error)]
pub enum StatusError {
    /// There is none, or it ended meanwhile.
    #[error("expected a running process, found none with the number {0}")]
    Gone(i32),
    /// Nothing has that name.
    #[error("expected a running process called `{0}`, found none")]
    NoSuchName(String),
    /// It is another user's, or it protects itself.
    #[error(
        "the process {0} may not be looked at: expected it to be yours and not protected, or CAP_SYS_PTRACE (sudo)"
    )]
    Forbidden(i32),
    /// Reading failed otherwise.
    #[error("cannot read /proc/{pid}/{file}")]
    Read {
        /// The process.
        pid: i32,
        /// The file.
        file: &'static str,
        /// What happened.
        source: io::Error,
    },
    /// The file is not what it is expected to be.
    #[error("cannot read /proc/{pid}/{file}: {found}")]
    Content {
        /// The process.
        pid: i32,
        /// The file.
        file: &'static str,
        /// What was found.
        found: String,
    },
}

/// The limits that locking meets; bytes, `None` for no limit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Limits {
    /// `RLIMIT_MEMLOCK`, soft.
    pub locked_soft: Option<u64>,
    /// `RLIMIT_MEMLOCK`, hard.
    pub locked_hard: Option<u64>,
    /// Whether the process has the right to exceed it (`CAP_IPC_LOCK`).
    pub may_exceed: bool,
    /// `RLIMIT_STACK`, soft: by default each thread reserves as much for its stack.
    pub stack: Option<u64>,
}

/// What a process has mapped and locked; sizes in bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Snapshot {
    /// Its number.
    pub pid: i32,
    /// Its name, as the kernel cuts it: at most 15 bytes.
    pub name: String,
    /// How many threads it has.
    pub threads: u64,
    /// Its limits.
    pub limits: Limits,
    /// What the kernel counts as locked (`VmLck`): all of every locked mapping, resident or not.
    pub counted_as_locked: u64,
    /// Its mappings in the order of their addresses.
    pub mappings: Vec<Mapping>,
    /// Of the whole machine: pages that cannot be taken away, by locks or otherwise (`Unevictable`).
    pub machine_unevictable: u64,
    /// Of the whole machine: pages that are locked (`Mlocked`).
    pub machine_locked: u64,
}

/// Bit 14 of a capability set.
const CAP_IPC_LOCK: u64 = 1 << 14;

impl Snapshot {
    /// Looks at a process.
    ///
    /// # Errors
    /// It is not there, it is not ours to look at, or `/proc` cannot be read.
    pub fn of(pid: i32) -> Result<Self, StatusError> {
        let process = Process::new(pid).map_err(|error| failed(pid, "stat", error))?;
        let text = std::fs::read(format!("/proc/{pid}/smaps")).map_err(|error| failed_io(pid, "smaps", error))?;
        let status = process.status().map_err(|error| failed(pid, "status", error))?;
        let limits = process.limits().map_err(|error| failed(pid, "limits", error))?;
        let machine = procfs::Meminfo::current().map_err(|error| failed(pid, "../meminfo", error))?;
        Ok(Self {
            pid,
            name: status.name,
            threads: status.threads,
            limits: Limits {
                locked_soft: bytes(limits.max_locked_memory.soft_limit),
                locked_hard: bytes(limits.max_locked_memory.hard_limit),
                may_exceed: status.capeff & CAP_IPC_LOCK != 0,
                stack: bytes(limits.max_stack_size.soft_limit),
            },
            counted_as_locked: status.vmlck.unwrap_or(0).saturating_mul(1024),
            mappings: smaps::parse(&text),
            machine_unevictable: machine.unevictable.unwrap_or(0),
            machine_locked: machine.mlocked.unwrap_or(0),
        })
    }
}

fn bytes(limit: LimitValue) -> Option<u64> {
    match limit {
        LimitValue::Unlimited => None,
        LimitValue::Value(value) => Some(value),
    }
}

fn failed(pid: i32, file: &'static str, error: procfs::ProcError) -> StatusError {
    match error {
        procfs::ProcError::NotFound(_) => StatusError::Gone(pid),
        procfs::ProcError::PermissionDenied(_) => StatusError::Forbidden(pid),
        procfs::ProcError::Io(source, _) => failed_io(pid, file, source),
        other => StatusError::Content { pid, file, found: other.to_string() },
    }
}

/// A process that ends while it is read answers ESRCH.
fn failed_io(pid: i32, file: &'static str, source: io::Error) -> StatusError {
    match source.kind() {
        io::ErrorKind::NotFound => StatusError::Gone(pid),
        io::ErrorKind::PermissionDenied => StatusError::Forbidden(pid),
        _ if source.raw_os_error() == Some(3) => StatusError::Gone(pid),
        _ => StatusError::Read { pid, file, source },
    }
}
