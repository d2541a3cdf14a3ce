// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One mapping of a process, as `/proc/PID/smaps` has it (`Documentation/filesystems/proc.rst`).

use serde::Serialize;

/// How a mapping is locked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Lock {
    /// Not at all: its pages can be taken away.
    None,
    /// All its pages were made resident when it was locked (`VM_LOCKED`).
    Whole,
    /// A page stays once it was touched (`VM_LOCKED` and `VM_LOCKONFAULT`).
    OnFault,
}

/// One mapping; sizes in bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Mapping {
    /// Its first address.
    pub start: u64,
    /// The address after its last.
    pub end: u64,
    /// As `ls` would say it: `r-xp`.
    pub permissions: String,
    /// Where in the file it begins; 0 for anonymous memory.
    pub offset: u64,
    /// The file, `[heap]`, `[stack]` and the like; empty for anonymous memory.
    pub name: String,
    /// How it is locked.
    pub lock: Lock,
    /// What of it is in memory now.
    pub resident: u64,
    /// Of the resident: what is in huge pages.
    pub huge: u64,
    /// What of it is in swap.
    pub swapped: u64,
    /// It has guard pages without a mapping of their own (`MADV_GUARD_INSTALL`), which `mlockall` passes over.
    pub guarded: bool,
    /// It cannot be locked (device memory, the vdso and the like): nothing of it can be taken away either.
    pub special: bool,
}

impl Mapping {
    /// Its length.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.end.saturating_sub(self.start)
    }

    /// Whether it is address space only: no access, hence no memory, whatever the lock says.
    #[must_use]
    pub fn is_reserve(&self) -> bool {
        self.permissions.starts_with("---")
    }

    /// Locked, and not in memory: reserved, not yet touched, or passed over.
    #[must_use]
    pub fn locked_not_resident(&self) -> u64 {
        if self.lock == Lock::None { 0 } else { self.size().saturating_sub(self.resident) }
    }

    /// Whether `next` follows it and differs in nothing but the lock: the kernel would make the two one.
    #[must_use]
    pub fn is_split_from(&self, next: &Self) -> bool {
        let follows =
            self.name.is_empty() || self.name.starts_with('[') || self.offset.wrapping_add(self.size()) == next.offset;
        self.end == next.start
            && follows
            && self.permissions == next.permissions
            && self.name == next.name
            && self.lock != next.lock
    }
}
