// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Kernel modules: picking some with all that they need, uncompressed, so that the guest needs no decompressor.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::command;

/// What the guest loads before it can see its disk; those that a kernel has built in are passed over.
pub const FOR_BOOT: [&str; 2] = ["virtio_pci", "virtio_blk"];

/// What the guest finds in `/lib/modules` to load when something asks for it.
pub const FOR_USE: [&str; 15] = [
    "virtio_pci",
    "virtio_blk",
    "virtio_net",
    "virtio_rng",
    "overlay",
    "binfmt_misc",
    "fuse",
    "virtiofs",
    "loop",
    "squashfs",
    "veth",
    "dummy",
    "act_bpf",
    "cls_bpf",
    "sch_ingress",
];

/// The modules of one kernel, by `modules.dep`.
#[derive(Debug)]
pub struct Modules {
    folder: PathBuf,
    /// File name relative to `folder` -> the files that it needs, also relative.
    needs: BTreeMap<String, Vec<String>>,
}

impl Modules {
    /// Indexes `root/lib/modules/release` with `depmod`.
    ///
    /// # Errors
    /// `depmod` fails.
    pub fn index(root: &Path, release: &str) -> Result<Self> {
        command::run(Command::new("depmod").env("PATH", search_path()).arg("-b").arg(root).arg(release))?;
        Self::read(root.join("lib/modules").join(release))
    }

    /// Reads the index of a folder `lib/modules/RELEASE`.
    ///
    /// # Errors
    /// There is no `modules.dep`.
    pub fn read(folder: PathBuf) -> Result<Self> {
        let index = folder.join("modules.dep");
        let text = fs::read_to_string(&index).with_context(|| format!("{} cannot be read", index.display()))?;
        Ok(Self { folder, needs: parse(&text) })
    }

    /// The files of the named modules and of what they need, each after what it needs. Names without a file (built into
    /// the kernel, or unknown to it) are passed over.
    #[must_use]
    pub fn closure(&self, names: &[&str]) -> Vec<PathBuf> {
        let mut seen = BTreeSet::new();
        let mut ordered = Vec::new();
        for name in names {
            let Some((file, needs)) = self.needs.iter().find(|(file, _)| module_name(file) == *name) else { continue };
            // modules.dep lists what is needed first last.
            for file in needs.iter().rev().chain([file]) {
                if seen.insert(file) {
                    ordered.push(self.folder.join(file));
                }
            }
        }
        ordered
    }

    /// Copies the named modules and what they need to `root/lib/modules/release`, uncompressed, and indexes them there.
    ///
    /// # Errors
    /// A file cannot be copied or decompressed.
    pub fn copy(&self, names: &[&str], root: &Path, release: &str) -> Result<()> {
        let target = root.join("lib/modules").join(release);
        let mut packed = Vec::new();
        for file in self.closure(names) {
            let place = target.join(file.strip_prefix(&self.folder)?);
            fs::create_dir_all(place.parent().context("a module without a folder")?)?;
            fs::copy(&file, &place).with_context(|| format!("{} cannot be copied", file.display()))?;
            if place.extension().is_some_and(|extension| extension == "xz") {
                packed.push(place);
            }
        }
        if !packed.is_empty() {
            command::run(Command::new("xz").args(["--decompress", "--force", "--"]).args(&packed))?;
        }
        // Tells depmod and modprobe what needs no file.
        for list in ["modules.builtin", "modules.order"] {
            if self.folder.join(list).exists() {
                fs::copy(self.folder.join(list), target.join(list))?;
            }
        }
        Self::index(root, release).map(drop)
    }
}

/// `kernel/fs/overlayfs/overlay.ko.xz` -> `overlay`, with dashes as underscores.
fn module_name(file: &str) -> String {
    let name = file.rsplit('/').next().unwrap_or(file);
    name.split('.').next().unwrap_or(name).replace('-', "_")
}

/// Reads lines `FILE: NEEDED NEEDED ...`.
fn parse(text: &str) -> BTreeMap<String, Vec<String>> {
    text.lines()
        .filter_map(|line| line.split_once(':'))
        .map(|(file, needs)| (file.to_owned(), needs.split_whitespace().map(str::to_owned).collect()))
        .collect()
}

/// The search path with the folders for administrators, which other users' may lack.
fn search_path() -> String {
    format!("{}:/usr/sbin:/sbin", std::env::var("PATH").unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_modules_after_what_they_need() {
        let needs =
            parse("k/virtio-blk.ko.xz: k/ring.ko.xz k/virtio.ko.xz\nk/ring.ko.xz: k/virtio.ko.xz\nk/virtio.ko.xz:\n");
        let modules = Modules { folder: PathBuf::from("/m"), needs };
        let order: Vec<PathBuf> = modules.closure(&["virtio_blk", "not_there", "ring"]);
        assert_eq!(order, ["/m/k/virtio.ko.xz", "/m/k/ring.ko.xz", "/m/k/virtio-blk.ko.xz"].map(PathBuf::from));
    }
}
