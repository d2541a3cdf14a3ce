// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What can go wrong while loading, steering and reading the programs in the kernel.

use std::io;
use std::path::PathBuf;

/// An error of this crate. Messages are fragments: what was expected, what was found.
#[derive(Debug, thiserror::Error)]
pub enum EnforceError {
    /// The BPF file system is missing.
    #[error("expected a BPF file system at {path}, found none; mount it: mount -t bpf bpf {path}")]
    NoBpffs {
        /// Where it belongs.
        path: PathBuf,
    },
    /// The kernel refused to load, attach or pin something.
    #[error("the kernel refused to {action}: {source}")]
    Kernel {
        /// What was attempted.
        action: String,
        /// The kernel's or libbpf's reason.
        source: libbpf_rs::Error,
    },
    /// Programs of another version of Touchmark are pinned.
    #[error(
        "expected pinned maps of version {expected}, found version {found}; run `touchmark enforce --mode off` of the \
         version that put them there, or restart the machine"
    )]
    AbiMismatch {
        /// This program's version.
        expected: u32,
        /// The pinned maps'.
        found: u32,
    },
    /// The guard is on, and it does not know this program.
    #[error(
        "{path} is for the touchmark that put the policy in force, and this is another build; before an upgrade (or \
         with a copy of the old touchmark and touchmarkd in one folder) run `touchmark enforce --unguarded`, then \
         `touchmark enforce` of the new one; or restart the machine"
    )]
    NotRecognized {
        /// The pinned map.
        path: PathBuf,
    },
    /// What is found by a pin's name need not be what was pinned.
    #[error(
        "expected {path} as it was pinned, but {reason}; unmount or remove what does not belong there, or restart the \
         machine"
    )]
    ForeignPin {
        /// The pin.
        path: PathBuf,
        /// What was found.
        reason: &'static str,
    },
    /// A map holds something that this version cannot read.
    #[error("expected {expected} in the pinned map {map}, found {found} bytes")]
    MapContent {
        /// The map's name.
        map: &'static str,
        /// What belongs there.
        expected: &'static str,
        /// The size found.
        found: usize,
    },
    /// A newer revocation list is in force.
    #[error("expected a revocation list of version {expected} or newer, found version {found}; nothing was changed")]
    OldRevocations {
        /// The version in force.
        expected: u64,
        /// The version offered.
        found: u64,
    },
    /// A file or system call failed.
    #[error("cannot {action}: {source}")]
    Io {
        /// What was attempted.
        action: String,
        /// The system's reason.
        source: io::Error,
    },
    /// A scope that does not exist or cannot be expressed.
    #[error("scope {scope}: {reason}")]
    Scope {
        /// As given.
        scope: String,
        /// What was expected and found.
        reason: String,
    },
}

impl EnforceError {
    /// For `map_err`: an I/O error with what was attempted.
    pub(crate) fn io(action: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { action: action.into(), source }
    }

    /// For `map_err`: a refusal of the kernel or libbpf with what was attempted.
    pub(crate) fn kernel(action: impl Into<String>) -> impl FnOnce(libbpf_rs::Error) -> Self {
        move |source| Self::Kernel { action: action.into(), source }
    }
}
