// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What enforcement takes: the pinned programs and maps, and their memory as the kernel accounts it.

use std::os::fd::AsFd;

use libbpf_rs::{MapHandle, Program};

use crate::{EnforceError, fdinfo, pins};

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
            Ok(Usage { name, bytes: fdinfo::number(&handle, "memlock")?.unwrap_or(0) })
        })
        .collect()
}
