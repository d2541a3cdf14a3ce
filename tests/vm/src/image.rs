// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The machine's disk: an ext4 image of the tree and of files staged on top of it.

use std::fs::{self, File};
use std::os::fd::AsRawFd;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use rustix::fs::{Mode, OFlags};

use crate::cache::{self, Scratch};
use crate::command;
use crate::programs::Programs;
use crate::protocol::GUEST_ON_DISK;
use crate::{Kernel, Tree};

/// Room on the disk beside the files, in bytes.
const FREE: u64 = 768 << 20;

/// What to put on a disk.
#[derive(Debug, Default)]
pub struct Contents {
    files: Vec<(PathBuf, String)>,
    texts: Vec<(String, String, u32)>,
    modules: Vec<Kernel>,
}

impl Contents {
    /// Nothing but the tree.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// A copy of a host's file (with its permissions) or folder; `place` is the absolute path on the disk.
    #[must_use]
    pub fn file(mut self, host: impl Into<PathBuf>, place: impl Into<String>) -> Self {
        self.files.push((host.into(), place.into()));
        self
    }

    /// A file made of a text, with these permissions.
    #[must_use]
    pub fn text(mut self, text: impl Into<String>, place: impl Into<String>, permissions: u32) -> Self {
        self.texts.push((text.into(), place.into(), permissions));
        self
    }

    /// The modules of a kernel, in `/lib/modules`.
    #[must_use]
    pub fn modules(mut self, kernel: &Kernel) -> Self {
        self.modules.push(kernel.clone());
        self
    }

    /// The programs under test, in `/usr/bin` and `/usr/sbin`, and the guest's.
    #[must_use]
    pub fn programs(self, programs: &Programs) -> Self {
        self.file(programs.touchmark(), "/usr/bin/touchmark")
            .file(programs.touchmarkd(), "/usr/sbin/touchmarkd")
            .file(programs.guest(), GUEST_ON_DISK)
    }

    fn stage(&self, root: &Path) -> Result<()> {
        for (host, place) in &self.files {
            let target = inside(root, place)?;
            command::run(Command::new("cp").args(["-a", "-L", "--remove-destination"]).arg(host).arg(&target))?;
        }
        for (text, place, permissions) in &self.texts {
            let target = inside(root, place)?;
            // The place may be a hard link to the cached tree: never write into what is there.
            let _ = fs::remove_file(&target);
            fs::write(&target, text).with_context(|| format!("{place} cannot be staged"))?;
            fs::set_permissions(&target, fs::Permissions::from_mode(*permissions))?;
        }
        for kernel in &self.modules {
            let target = inside(root, &format!("/usr/lib/modules/{}", kernel.release))?;
            let source = kernel.module_root().join("lib/modules").join(&kernel.release);
            command::run(Command::new("cp").arg("-a").arg(source).arg(&target))?;
        }
        Ok(())
    }
}

/// A finished disk, in a file without a name: it goes with this value, whatever happens. Machines write to layers of
/// their own on top of it, so any number of them can use it at once.
#[derive(Debug)]
pub struct Image {
    file: File,
}

impl Image {
    /// Makes a disk of the tree and the staged contents.
    ///
    /// # Errors
    /// A file cannot be staged, or `mke2fs` fails.
    pub fn build(tree: &Tree, contents: &Contents) -> Result<Self> {
        // Hard links are enough: nothing writes to the files themselves.
        Self::with_copy(tree, "-al", |root| contents.stage(root))
    }

    /// Makes a disk of the tree and the staged contents, after `prepare` changed what it likes in the folder that will
    /// be `/`, such as signing programs. Extended attributes get to the disk.
    ///
    /// # Errors
    /// As [`Image::build`], or `prepare` fails.
    pub fn prepared(tree: &Tree, contents: &Contents, prepare: impl FnOnce(&Path) -> Result<()>) -> Result<Self> {
        Self::with_copy(tree, "-a", |root| {
            contents.stage(root)?;
            prepare(root)
        })
    }

    /// The name under which another process of this user can open the file while this value lives.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        path_of(&self.file)
    }

    fn with_copy(tree: &Tree, how: &str, change: impl FnOnce(&Path) -> Result<()>) -> Result<Self> {
        let scratch = Scratch::new()?;
        let root = scratch.path().join("root");
        command::run(Command::new("cp").args([how, "--reflink=auto"]).arg(tree.path()).arg(&root))
            .or_else(|_| command::run(Command::new("cp").arg(how).arg(tree.path()).arg(&root)))?;
        change(&root)?;
        let used = command::run(Command::new("du").args(["--summarize", "--block-size=1"]).arg(&root))?;
        let used: u64 = used.split_whitespace().next().unwrap_or_default().parse().context("du printed no number")?;
        let file = unnamed(&cache::root()?)?;
        file.set_len((used + used / 8 + FREE).next_multiple_of(1 << 20))?;
        let mut mke2fs = as_root("mke2fs");
        mke2fs.args(["-q", "-F", "-t", "ext4", "-b", "4096", "-O", "verity", "-L", "touchmark"]);
        mke2fs.args(["-E", "lazy_itable_init=0,lazy_journal_init=0,root_owner=0:0,nodiscard", "-d"]);
        // By its own descriptor: in a user namespace it may not look at ours.
        command::run(mke2fs.arg(&root).arg("/proc/self/fd/0").stdin(file.try_clone()?))?;
        Ok(Self { file })
    }
}

/// The name of an open file that other processes can open.
pub(crate) fn path_of(file: &File) -> PathBuf {
    format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd()).into()
}

/// A file without a name on the file system of `folder`.
fn unnamed(folder: &Path) -> Result<File> {
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    let file = rustix::fs::open(folder, flags, Mode::RUSR | Mode::WUSR)
        .with_context(|| format!("no file without a name can be made in {}", folder.display()))?;
    Ok(file.into())
}

/// A command that sees this user's files as root's, so that they are root's on the disk too.
fn as_root(program: &str) -> Command {
    let path = format!("{}:/usr/sbin:/sbin", std::env::var("PATH").unwrap_or_default());
    let mut command = if rustix::process::geteuid().is_root() {
        Command::new(program)
    } else {
        let mut unshare = Command::new("unshare");
        unshare.args(["--map-root-user", program]);
        unshare
    };
    command.env("PATH", path);
    command
}

/// Where an absolute path of the disk is in the folder that becomes it; the folders above are made.
fn inside(root: &Path, place: &str) -> Result<PathBuf> {
    ensure!(place.starts_with('/') && !place.contains("/../"), "expected an absolute path on the disk, found {place}");
    let target = root.join(place.trim_start_matches('/'));
    if let Some(parent) = target.parent() {
        fs::create_dir_all(parent).with_context(|| format!("{place} cannot be staged"))?;
    }
    Ok(target)
}
