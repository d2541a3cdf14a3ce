// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the running kernel is and has.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use crate::sh;

/// The first two numbers of the kernel's release; (0, 0) if it has none.
pub(crate) fn kernel_version() -> (u32, u32) {
    let uname = rustix::system::uname();
    let release = uname.release().to_string_lossy();
    let mut numbers = release.split(['.', '-', '+']).map_while(|part| part.parse().ok());
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0))
}

/// The active security modules, in order.
pub(crate) fn active_lsms() -> Result<Vec<String>> {
    let list = fs::read_to_string("/sys/kernel/security/lsm").context("the list of security modules cannot be read")?;
    Ok(list.trim().split(',').map(str::to_owned).collect())
}

/// Whether the kernel describes a function of this name to BPF programs.
pub(crate) fn has_kernel_function(name: &str) -> bool {
    // Names in the kernel's type information are strings between zeros.
    let pattern = [&[0], name.as_bytes(), &[0]].concat();
    let Ok(types) = fs::read("/sys/kernel/btf/vmlinux") else { return false };
    memchr::memmem::find(&types, &pattern).is_some()
}

/// Loads a kernel module with what it needs; nothing happens when it is there, or built in.
pub(crate) fn load_module(name: &str) -> Result<()> {
    // From 7.2 on the list of what is built in is in a package of its own, and modprobe does not know it.
    if Path::new("/sys/module").join(name).exists() {
        return Ok(());
    }
    sh::succeed(["modprobe", name]).map(drop)
}
