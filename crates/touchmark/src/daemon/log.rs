// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The log of decisions: one JSON object a line, two files of bounded size.

use std::fs::{self, DirBuilder, File};
use std::io::{self, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use anyhow::Context;
use serde::{Deserialize, Serialize};
use touchmark_enforce::Event;

use super::start::open_private_append;
use crate::text::{self, PathText};

/// A file reaches this size, then it becomes the old one and a new one is begun.
const ROTATE_AT_BYTES: u64 = 16 << 20;

/// Where the logs are.
pub(crate) fn directory() -> &'static Path {
    Path::new("/var/log/touchmark")
}

/// The log being written.
pub(crate) fn current() -> PathBuf {
    directory().join("events.jsonl")
}

/// The log before it.
pub(crate) fn previous() -> PathBuf {
    directory().join("events.1.jsonl")
}

pub(super) fn create_directory() -> anyhow::Result<()> {
    match DirBuilder::new().mode(0o700).recursive(true).create(directory()) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        other => other.with_context(|| format!("cannot create {}", directory().display())),
    }
}

/// A decision as it is logged.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Entry {
    /// RFC 3339, UTC, microseconds.
    pub(crate) time: String,
    pub(crate) pid: u32,
    pub(crate) parent: u32,
    pub(crate) uid: u32,
    pub(crate) command: String,
    #[serde(flatten)]
    pub(crate) path: PathText,
    /// Only the last component of the path is known.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) path_is_name: bool,
    /// `MAJOR:MINOR` of the file's device.
    pub(crate) device: String,
    pub(crate) inode: u64,
    /// Lowercase hex SHA-256 or fs-verity digest, if it was taken.
    pub(crate) digest: Option<String>,
    /// The process that was acted on: traced, signalled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) target: Option<u32>,
    pub(crate) hook: String,
    /// `denied`, `permitted` (would be denied, but the mode is permissive) or `allowed`.
    pub(crate) decision: String,
    pub(crate) reason: String,
    /// The kernel's errno behind the reason, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) errno: Option<i32>,
}

impl From<&Event> for Entry {
    fn from(event: &Event) -> Self {
        let decision = match (event.reason.allows(), event.blocked) {
            (true, _) => "allowed",
            (false, true) => "denied",
            (false, false) => "permitted",
        };
        Self {
            time: humantime::format_rfc3339_micros(event.time).to_string(),
            pid: event.pid,
            parent: event.parent,
            uid: event.uid,
            command: text::printable(&event.command),
            path: PathText::new(&event.path),
            path_is_name: event.path_is_name,
            device: format!("{}:{}", event.device.0, event.device.1),
            inode: event.inode,
            digest: event.digest.as_ref().map(ToString::to_string),
            target: event.target,
            hook: event.hook.to_string(),
            decision: decision.to_owned(),
            reason: event.reason.to_string(),
            errno: (event.error < 0).then_some(-event.error),
        }
    }
}

/// Writes entries. It never fails and never waits for anyone: what cannot be written is counted, and the count is
/// written when there is room again.
pub(super) struct Log {
    file: File,
    size: u64,
    lost: u64,
}

impl Log {
    pub(super) fn open() -> anyhow::Result<Self> {
        create_directory()?;
        let path = current();
        let open = || -> io::Result<(File, u64)> {
            let file = open_private_append(&path)?;
            let size = file.metadata()?.len();
            Ok((file, size))
        };
        let (file, size) = open().with_context(|| format!("cannot open {}", path.display()))?;
        Ok(Self { file, size, lost: 0 })
    }

    pub(super) fn write(&mut self, event: &Event) {
        if self.append(event).is_ok() {
            if self.lost > 0 {
                eprintln!("touchmarkd: {} {} events could not be logged", now(), self.lost);
                self.lost = 0;
            }
        } else {
            self.lost += 1;
        }
    }

    fn append(&mut self, event: &Event) -> io::Result<()> {
        if self.size >= ROTATE_AT_BYTES {
            fs::rename(current(), previous())?;
            self.file = open_private_append(&current())?;
            self.size = 0;
        }
        let mut line = serde_json::to_vec(&Entry::from(event))?;
        line.push(b'\n');
        // One write a line: a reader, or a crash, never sees half of one unless the disk is full.
        self.file.write_all(&line)?;
        self.size += line.len() as u64;
        Ok(())
    }
}

fn now() -> humantime::Rfc3339Timestamp {
    humantime::format_rfc3339_seconds(SystemTime::now())
}
