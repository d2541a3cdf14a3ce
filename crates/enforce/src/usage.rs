// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What enforcement takes: the pinned programs and maps, and their memory as the kernel accounts it.

use std::fs;
use std::os::fd::{AsFd, AsRawFd};

use libbpf_rs::{MapHandle, Program};

use crate::{EnforceError, pins};

/// A pinned program or map.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Usage {
    /// Its name.
    pub name: String,
    /// Kernel memory in bytes; on kernels before 6.4 an estimate for maps.
    pub bytes: u64,
}

impl Usage {
    /// The pinned programs.
    ///
    /// # Errors
    /// The pins cannot be read.
    pub fn programs() -> Result<Vec<Self>, EnforceError> {
        list("programs", |path| Program::fd_from_pinned_path(path))
    }

    /// The pinned maps.
    ///
    /// # Errors
    /// The pins cannot be read.
    pub fn maps() -> Result<Vec<Self>, EnforceError> {
        list("maps", |path| MapHandle::from_pinned_path(path))
    }
}

fn list<Handle: AsFd>(
    folder: &str,
    open: impl Fn(&std::path::Path) -> libbpf_rs::Result<Handle>,
) -> Result<Vec<Usage>, EnforceError> {
    pins::names(folder)?
        .into_iter()
        .map(|path| {
            let handle = open(&path).map_err(EnforceError::kernel(format!("open {}", path.display())))?;
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            Ok(Usage { name, bytes: memlock(&handle)? })
        })
        .collect()
}

/// The `memlock` line of the descriptor's fdinfo (kernel/bpf/syscall.c, `bpf_map_show_fdinfo`).
fn memlock(handle: &impl AsFd) -> Result<u64, EnforceError> {
    let path = format!("/proc/self/fdinfo/{}", handle.as_fd().as_raw_fd());
    let text = fs::read_to_string(&path).map_err(EnforceError::io(format!("read {path}")))?;
    Ok(text
        .lines()
        .find_map(|line| line.strip_prefix("memlock:"))
        .and_then(|value| value.trim().parse().ok())
        .unwrap_or(0))
}
