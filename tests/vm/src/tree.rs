// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A real Debian file tree, unpacked from its packages without root and without running their scripts.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;

use anyhow::{Context, Result, anyhow};

use crate::apt::{self, Apt};
use crate::cache::{self, FetchLock, Scratch};
use crate::command;

/// Counted up when the tree's making or [`PACKAGES`] change, so that an older cache is not taken for it.
const LAYOUT: u32 = 4;

/// What the tree is for: enough programs and libraries to be a system, and the libraries that our own binaries need.
const PACKAGES: [&str; 48] = [
    "base-files",
    "base-passwd",
    "bash",
    "coreutils",
    "dash",
    "debianutils",
    "diffutils",
    "e2fsprogs",
    "file",
    "findutils",
    "gawk",
    "grep",
    "gzip",
    "hostname",
    "iproute2",
    "kmod",
    "less",
    "libc-bin",
    "libelf1t64",
    "libgcc-s1",
    "libssl3t64",
    "libstdc++6",
    "login",
    "mount",
    "nano",
    "ncurses-bin",
    "netbase",
    "openssl",
    "passwd",
    "perl-base",
    "procps",
    "python3-minimal",
    "sed",
    "strace",
    "tar",
    "util-linux",
    "xxd",
    "xz-utils",
    "zlib1g",
    "attr",
    "keyutils",
    "psmisc",
    "vim-tiny",
    "bzip2",
    "zstd",
    "fapolicyd",
    "make",
    "tcc",
];

/// A file tree in the cache. Never write to it: [`crate::Image`] makes copies.
#[derive(Clone, Debug)]
pub struct Tree {
    path: PathBuf,
}

impl Tree {
    /// The tree of Debian 13: from the cache, or fetched when it is not there.
    ///
    /// # Errors
    /// It cannot be fetched.
    pub fn fetch() -> Result<Self> {
        let path = place()?;
        if !path.exists() {
            let _lock = FetchLock::acquire()?;
            if !path.exists() {
                make(&path).context("the file tree of Debian 13 could not be fetched")?;
            }
        }
        Ok(Self { path })
    }

    /// Forgets the cached tree, so that the next use fetches what is the newest then.
    ///
    /// # Errors
    /// The folder cannot be removed.
    pub fn forget() -> Result<()> {
        let _lock = FetchLock::acquire()?;
        let path = place()?;
        if path.exists() {
            fs::remove_dir_all(path)?;
        }
        Ok(())
    }

    /// The folder that is to be the machine's `/`.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

fn place() -> Result<PathBuf> {
    Ok(cache::root()?.join("trees").join(format!("trixie-{LAYOUT}")))
}

fn make(place: &Path) -> Result<()> {
    let apt = Apt::open(&["trixie", "trixie-security"])?;
    let archives = apt.download(&apt.closure(&PACKAGES)?)?;
    eprintln!("touchmark-vm: unpacking {} packages", archives.len());
    let scratch = Scratch::new()?;
    let root = scratch.path().join("root");
    for name in ["bin", "sbin", "lib", "lib64"] {
        fs::create_dir_all(root.join("usr").join(name))?;
        symlink(format!("usr/{name}"), root.join(name))?;
    }
    unpack_all(&archives, &root)?;
    finish(&root)?;
    cache::publish(&root, place)
}

/// Unpacks on two threads; the packages' files do not overlap.
fn unpack_all(archives: &[PathBuf], root: &Path) -> Result<()> {
    let queue = Mutex::new(archives.iter());
    let next = || queue.lock().ok()?.next();
    std::thread::scope(|scope| {
        let work = || -> Result<()> {
            while let Some(archive) = next() {
                apt::unpack(archive, root)?;
            }
            Ok(())
        };
        let workers = [scope.spawn(work), scope.spawn(work)];
        workers.into_iter().try_for_each(|worker| worker.join().map_err(|_| anyhow!("an unpacking thread panicked"))?)
    })
}

/// Does what the packages' scripts would have done and the tree needs.
fn finish(root: &Path) -> Result<()> {
    for name in ["passwd", "group"] {
        fs::copy(root.join("usr/share/base-passwd").join(format!("{name}.master")), root.join("etc").join(name))?;
    }
    fs::write(root.join("etc/hostname"), "touchmark\n")?;
    fs::write(root.join("etc/hosts"), "127.0.0.1 localhost touchmark\n")?;
    for folder in ["proc", "sys", "dev", "run", "tmp", "root", "mnt", "opt", "srv", "var/tmp", "usr/local/bin"] {
        fs::create_dir_all(root.join(folder))?;
    }
    for (name, target) in [("awk", "gawk"), ("vi", "vim.tiny"), ("pager", "less"), ("which", "which.debianutils")] {
        let link = root.join("usr/bin").join(name);
        if link.symlink_metadata().is_err() && root.join("usr/bin").join(target).exists() {
            symlink(target, link)?;
        }
    }
    // The cache of libraries needs a chroot; without the right to one, the default paths serve.
    let ldconfig = Command::new("/sbin/ldconfig").arg("-r").arg(root).output();
    if !ldconfig.is_ok_and(|output| output.status.success()) {
        let _ = command::run(Command::new("unshare").args(["--map-root-user", "/sbin/ldconfig", "-r"]).arg(root));
    }
    Ok(())
}
