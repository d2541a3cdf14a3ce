// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The cache outside the source tree: what was downloaded, and scratch folders that outlive no run.
//!
//! Everything is made in a scratch folder and renamed to its final place, so what stands there is whole. One lock keeps
//! two runs from fetching at once. A scratch folder is locked while its process lives; whoever comes next removes those
//! that a killed run left.

use std::fs::{self, File};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::{Context, Result};
use rustix::fs::{FlockOperation, flock};

/// The cache folder: `$TOUCHMARK_CACHE`, or `touchmark` in `$XDG_CACHE_HOME`, or in `$HOME/.cache`. Made when missing.
///
/// # Errors
/// None of the three variables is set, or the folder cannot be made.
pub fn root() -> Result<PathBuf> {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let root = set("TOUCHMARK_CACHE")
        .or_else(|| set("XDG_CACHE_HOME").map(|dir| dir.join("touchmark")))
        .or_else(|| set("HOME").map(|dir| dir.join(".cache/touchmark")))
        .context("no place for the cache: set TOUCHMARK_CACHE, XDG_CACHE_HOME or HOME")?;
    let root = std::path::absolute(root)?;
    fs::create_dir_all(&root).with_context(|| format!("the cache {} could not be made", root.display()))?;
    Ok(root)
}

/// The right to fetch; held by one process at a time, and given back when dropped or when the process ends.
#[derive(Debug)]
pub struct FetchLock {
    _file: File,
}

impl FetchLock {
    /// Waits until no other process fetches.
    ///
    /// # Errors
    /// The lock file cannot be made or locked.
    pub fn acquire() -> Result<Self> {
        let path = root()?.join("lock");
        let file = File::create(&path).with_context(|| format!("{} could not be made", path.display()))?;
        if flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
            eprintln!("touchmark-vm: another run is fetching; waiting for it");
            flock(&file, FlockOperation::LockExclusive)?;
        }
        Ok(Self { _file: file })
    }
}

/// A folder of our own in the cache, removed when dropped.
#[derive(Debug)]
pub struct Scratch {
    path: PathBuf,
    /// The open folder carries the lock that says that its owner lives.
    _lock: File,
}

impl Scratch {
    /// Makes a scratch folder, and removes those whose owners are gone.
    ///
    /// # Errors
    /// The folder cannot be made.
    pub fn new() -> Result<Self> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let parent = root()?.join("scratch");
        fs::create_dir_all(&parent)?;
        // Held from here to the end of this function: nobody sweeps between our mkdir and our lock.
        let gate = File::open(&parent)?;
        flock(&gate, FlockOperation::LockExclusive)?;
        sweep(&parent);
        let path = parent.join(format!("{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed)));
        fs::DirBuilder::new()
            .mode(0o755)
            .create(&path)
            .with_context(|| format!("{} could not be made", path.display()))?;
        let lock = File::open(&path)?;
        flock(&lock, FlockOperation::LockExclusive)?;
        Ok(Self { path, _lock: lock })
    }

    /// Where the folder is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // What cannot be removed now, the next run sweeps.
        let _ = fs::remove_dir_all(&self.path);
    }
}

/// Renames a finished file or folder to its final place; an older one there is replaced.
///
/// # Errors
/// The parent cannot be made or the rename fails.
pub fn publish(made: &Path, place: &Path) -> Result<()> {
    if let Some(parent) = place.parent() {
        fs::create_dir_all(parent)?;
    }
    if place.is_dir() {
        fs::remove_dir_all(place).with_context(|| format!("{} could not be replaced", place.display()))?;
    }
    fs::rename(made, place).with_context(|| format!("{} could not be put in place", place.display()))
}

/// Removes the scratch folders that nobody holds.
fn sweep(parent: &Path) {
    let Ok(entries) = fs::read_dir(parent) else { return };
    for entry in entries.flatten() {
        let Ok(folder) = File::open(entry.path()) else { continue };
        if flock(&folder, FlockOperation::NonBlockingLockExclusive).is_ok() {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}
