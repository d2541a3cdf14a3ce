// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the kernel says about a BPF descriptor in `/proc/self/fdinfo` (kernel/bpf/syscall.c, `bpf_*_show_fdinfo`).

use std::fs;
use std::os::fd::{AsFd, AsRawFd};

use crate::EnforceError;

/// The number in the line `name:`; `None` if there is no such line.
pub(crate) fn number(handle: &impl AsFd, name: &str) -> Result<Option<u64>, EnforceError> {
    let path = format!("/proc/self/fdinfo/{}", handle.as_fd().as_raw_fd());
    let text = fs::read_to_string(&path).map_err(EnforceError::io(format!("read {path}")))?;
    let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    Ok(value.and_then(|value| value.trim().parse().ok()))
}
