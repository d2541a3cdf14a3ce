// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Small helpers for trials: commands, files, mounts that go away, and expected errors.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::{Context, Result, bail};

use crate::system;

/// Runs a command, without input, and returns what it wrote and how it ended.
pub(crate) fn run<S: AsRef<std::ffi::OsStr>>(words: impl IntoIterator<Item = S>) -> Result<Output> {
    let mut words = words.into_iter();
    let program = words.next().context("an empty command")?;
    let program = program.as_ref();
    let output = Command::new(program).args(words).stdin(Stdio::null()).output();
    output.with_context(|| format!("{} could not be started", program.to_string_lossy()))
}

/// Runs a command that must succeed, and returns its standard output.
pub(crate) fn succeed<S: AsRef<std::ffi::OsStr>>(words: impl IntoIterator<Item = S>) -> Result<String> {
    let words: Vec<S> = words.into_iter().collect();
    let output = run(&words)?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        let words: Vec<_> = words.iter().map(|word| word.as_ref().to_string_lossy()).collect();
        bail!("`{}` ended with {}: {}", words.join(" "), output.status, said.trim());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The SHA-256 of each file, in hexadecimal digits.
pub(crate) fn sha256(paths: &BTreeSet<PathBuf>) -> Result<Vec<(PathBuf, String)>> {
    let said = succeed([Path::new("sha256sum")].into_iter().chain(paths.iter().map(PathBuf::as_path)))?;
    let digest = |line: &str| line.split_whitespace().next().unwrap_or_default().to_owned();
    Ok(paths.iter().cloned().zip(said.lines().map(digest)).collect())
}

/// A program and the libraries that it is linked with, by their real names.
pub(crate) fn with_libraries(program: &str) -> Result<BTreeSet<PathBuf>> {
    let listed = succeed(["ldd", program])?;
    let libraries = listed.split_whitespace().filter(|word| word.starts_with('/'));
    [program].into_iter().chain(libraries).map(|path| fs::canonicalize(path).context("a library is gone")).collect()
}

/// Checks that something failed, with just this error.
pub(crate) fn expect_errno<T>(result: io::Result<T>, expected: rustix::io::Errno, what: &str) -> Result<()> {
    match result {
        Ok(_) => bail!("{what}: expected {expected}, but it succeeded"),
        Err(error) if error.raw_os_error() == Some(expected.raw_os_error()) => Ok(()),
        Err(error) => bail!("{what}: expected {expected}, found {error}"),
    }
}

/// Writes a file, with the folders above it.
pub(crate) fn write(path: impl AsRef<Path>, content: &[u8]) -> Result<()> {
    let path = path.as_ref();
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent).with_context(|| format!("{} cannot be made", parent.display()))?;
    }
    fs::write(path, content).with_context(|| format!("{} cannot be written", path.display()))
}

/// A fresh folder on the disk (ext4), removed when dropped.
#[derive(Debug)]
pub(crate) struct Folder(PathBuf);

impl Folder {
    /// Makes one.
    pub(crate) fn new() -> Result<Self> {
        let path = fresh("/var/tmp");
        fs::create_dir_all(&path).with_context(|| format!("{} cannot be made", path.display()))?;
        Ok(Self(path))
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A mounted file system, unmounted when dropped. (Whatever a trial mounts also goes with its mount namespace.)
#[derive(Debug)]
pub(crate) struct Mount {
    path: PathBuf,
    /// What must live as long as the mount.
    _below: Vec<Folder>,
}

impl Mount {
    /// An empty ext4 of 64 MiB with the feature `verity`, on a loop device.
    pub(crate) fn ext4() -> Result<Self> {
        system::load_module("loop")?;
        let below = Folder::new()?;
        let image = below.path().join("image");
        fs::File::create(&image)?.set_len(64 << 20)?;
        let image = image.to_string_lossy().into_owned();
        // On so small a disk mke2fs would take blocks of 1 KiB, on which 6.1 knows no fs-verity.
        succeed(["mke2fs", "-q", "-F", "-t", "ext4", "-b", "4096", "-O", "verity", &image])?;
        Self::attach(&["-t", "ext4", "-o", "loop", &image], vec![below])
    }

    /// An empty tmpfs.
    pub(crate) fn tmpfs() -> Result<Self> {
        Self::attach(&["-t", "tmpfs", "tmpfs"], Vec::new())
    }

    /// An overlay over `lower`, with an empty upper layer on the disk.
    pub(crate) fn overlay(lower: &Path) -> Result<Self> {
        let below = Folder::new()?;
        let (upper, work) = (below.path().join("upper"), below.path().join("work"));
        fs::create_dir(&upper)?;
        fs::create_dir(&work)?;
        let options = format!("lowerdir={},upperdir={},workdir={}", lower.display(), upper.display(), work.display());
        Self::attach(&["-t", "overlay", "-o", &options, "overlay"], vec![below])
    }

    /// Where it is mounted.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    fn attach(arguments: &[&str], below: Vec<Folder>) -> Result<Self> {
        let path = fresh("/run/touchmark-vm/mounts");
        fs::create_dir_all(&path)?;
        let place = path.to_string_lossy().into_owned();
        succeed(["mount"].iter().chain(arguments).chain(&[place.as_str()]))?;
        Ok(Self { path, _below: below })
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let _ = run(["umount".as_ref(), self.path.as_os_str()]);
        let _ = fs::remove_dir(&self.path);
    }
}

/// A name in `parent` that no other call in this process gave, nor another process.
fn fresh(parent: &str) -> PathBuf {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!("{parent}/{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed)).into()
}
