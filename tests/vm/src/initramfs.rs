// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The machine's first root: the guest program with its libraries, the modules it needs to see the disk, and its job.

use std::fs::{self, File};
use std::io::BufWriter;
use std::path::Path;

use anyhow::{Context, Result};
use rustix::fs::MemfdFlags;

use crate::Kernel;
use crate::cpio::Archive;
use crate::libraries;
use crate::modules::FOR_BOOT;
use crate::protocol::{BOOT_MODULES, JOB_FILE, Job};

/// Writes it to a file in memory, without a name.
///
/// # Errors
/// The guest program, a library or a module cannot be read.
pub(crate) fn build(kernel: &Kernel, guest: &Path, job: &Job) -> Result<File> {
    let file = File::from(rustix::fs::memfd_create("touchmark-initramfs", MemfdFlags::CLOEXEC)?);
    let mut archive = Archive::new(BufWriter::new(file));
    for folder in ["dev", "proc", "sys", "newroot"] {
        archive.folder(folder)?;
    }
    archive.file("init", 0o755, &read(guest)?)?;
    for library in libraries::of(guest)? {
        archive.file(&library.to_string_lossy(), 0o755, &read(&library)?)?;
    }
    let mut list = String::new();
    for module in kernel.modules()?.closure(&FOR_BOOT) {
        let name = module.file_name().context("a module without a name")?.to_string_lossy().into_owned();
        archive.file(&format!("modules/{name}"), 0o644, &read(&module)?)?;
        list.push_str(&format!("/modules/{name}\n"));
    }
    archive.file(BOOT_MODULES, 0o644, list.as_bytes())?;
    archive.file(JOB_FILE, 0o644, &serde_json::to_vec(job)?)?;
    Ok(archive.finish()?.into_inner().map_err(|error| error.into_error())?)
}

fn read(path: &Path) -> Result<Vec<u8>> {
    fs::read(path).with_context(|| format!("{} cannot be read", path.display()))
}
