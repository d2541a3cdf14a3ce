// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Replaces files in groups: one wait for the disk serves them all.
//!
//! The bytes of new files must be on the disk before their names change, or a power cut could leave a name with an empty
//! file. To wait for every file by itself costs a journal commit and a cache flush each; `syncfs` once a group costs one.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fs::File;
use std::io;

use super::replace::{Change, ReplaceError};

/// A group is full at this many files: each keeps a descriptor open.
const FILES: usize = 256;
/// A group is full at this many bytes to be written.
const BYTES: u64 = 512 * 1024 * 1024;

/// Changes that wait for their bytes to be written, with what belongs to them, in order.
pub(crate) struct Batch<T> {
    waiting: Vec<(T, Option<Change>)>,
    bytes: u64,
    /// One file on each file system that was written to.
    devices: BTreeMap<u64, File>,
}

impl<T> Batch<T> {
    /// An empty group.
    pub(crate) fn new() -> Self {
        Self { waiting: Vec::new(), bytes: 0, devices: BTreeMap::new() }
    }

    /// Adds a change, or something that only has to keep its place in the order.
    pub(crate) fn add(&mut self, item: T, change: Option<Change>) -> io::Result<()> {
        if let Some(file) = change.as_ref().and_then(Change::unwritten) {
            self.wrote_to(file)?;
        }
        self.bytes += change.as_ref().map_or(0, Change::length);
        self.waiting.push((item, change));
        Ok(())
    }

    /// Notes that something was written to this file's file system.
    pub(crate) fn wrote_to(&mut self, file: &File) -> io::Result<()> {
        if let Entry::Vacant(entry) = self.devices.entry(rustix::fs::fstat(file)?.st_dev) {
            entry.insert(file.try_clone()?);
        }
        Ok(())
    }

    /// Whether it is time to [`Batch::commit`]; at once if nothing is to be waited for.
    pub(crate) fn is_full(&self) -> bool {
        let changes = self.waiting.iter().any(|(_, change)| change.is_some());
        !changes || self.waiting.len() >= FILES || self.bytes >= BYTES
    }

    /// Makes all changes, and returns what belongs to them with the outcome.
    pub(crate) fn commit(&mut self) -> Vec<(T, Result<(), ReplaceError>)> {
        let waiting = std::mem::take(&mut self.waiting);
        self.bytes = 0;
        let synced = if waiting.iter().any(|(_, change)| change.is_some()) { self.sync() } else { Ok(()) };
        let outcome = |change: Option<Change>| match (change, &synced) {
            (None, _) => Ok(()),
            (Some(change), Ok(())) => change.commit(),
            // io::Error cannot be cloned.
            (Some(_), Err(error)) => {
                Err(ReplaceError::Io("write to the disk", io::Error::new(error.kind(), error.to_string())))
            }
        };
        waiting.into_iter().map(|(item, change)| (item, outcome(change))).collect()
    }

    /// Waits until all that was done is on the disk.
    pub(crate) fn sync(&self) -> io::Result<()> {
        self.devices.values().try_for_each(|file| Ok(rustix::fs::syncfs(file)?))
    }
}
