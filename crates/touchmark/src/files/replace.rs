// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Puts a new file in the place of an old one. At every instant the name holds one of the two, whole.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::AtFlags;
use rustix::io::Errno;
use touchmark_sign::cms::SignatureInfo;
use touchmark_sign::elf::Patch;
use touchmark_sign::elf::embedded::apply;

use super::attributes::{self, AttributeError};
use super::container::{detached_place, read_detached};
use super::identity::{Identity, Opened};
use super::place::Place;
use super::scan::read_some;
use super::temporary::Temporary;
use crate::stop::{Interrupted, Stop};

/// Why a file was not replaced.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReplaceError {
    /// The kernel refuses a step.
    #[error("cannot {0}: {1}")]
    Io(&'static str, #[source] io::Error),
    /// The new file would differ in more than its bytes.
    #[error(transparent)]
    Attribute(#[from] AttributeError),
    /// Someone else changed or replaced the file.
    #[error("expected a file at rest, found it changed or replaced during the run; it was left as it is")]
    Changed,
    /// The command was told to stop.
    #[error(transparent)]
    Interrupted(#[from] Interrupted),
}

/// A new file in the making.
pub(crate) struct Draft<'a> {
    original: &'a Opened,
    temporary: Temporary,
    length: u64,
}

impl<'a> Draft<'a> {
    /// Begins an empty file beside the old one.
    pub(crate) fn begin(original: &'a Opened, place: &Place) -> Result<Self, ReplaceError> {
        let temporary = Temporary::beside(place).map_err(|error| ReplaceError::Io("make a temporary file", error))?;
        Ok(Self { original, temporary, length: 0 })
    }

    /// Copies the first `length` bytes of the old file with `patches` in them, and shows `see` every byte written.
    ///
    /// Shares the blocks with the old file where the file system can, and leaves holes where the old file has some.
    pub(crate) fn copy(
        &mut self,
        length: u64,
        patches: &[Patch],
        buffer: &mut [u8],
        stop: &Stop,
        mut see: impl FnMut(&[u8]),
    ) -> Result<(), ReplaceError> {
        let cloned = clone(self.original, self.temporary.file());
        let source = if cloned { self.temporary.file() } else { &self.original.file };
        let sparse = self.original.stat.stx_blocks.saturating_mul(512) < self.original.size();
        while self.length < length {
            let read = read_some(source.as_fd(), buffer, self.length, length)
                .map_err(|error| ReplaceError::Io("read", error))?;
            let piece = buffer.get_mut(..read).unwrap_or_default();
            if piece.is_empty() {
                return Err(ReplaceError::Changed);
            }
            apply(patches, piece, self.length);
            see(piece);
            let hole = sparse && piece.iter().all(|byte| *byte == 0);
            if !(cloned || hole) {
                self.write_at(self.length, piece)?;
            }
            self.length += read as u64;
            stop.step(read as u64)?;
        }
        if cloned {
            patches.iter().try_for_each(|patch| self.write_at(patch.offset, &patch.bytes))?;
        }
        if cloned || sparse {
            self.temporary.file().set_len(length).map_err(|error| ReplaceError::Io("write", error))?;
        }
        Ok(())
    }

    /// Adds bytes at the end.
    pub(crate) fn append(&mut self, bytes: &[u8]) -> Result<(), ReplaceError> {
        self.write_at(self.length, bytes)?;
        self.length += bytes.len() as u64;
        Ok(())
    }

    /// Gives the file everything else of the old one, and a signature in its attribute; the inner error is about that.
    pub(crate) fn finish(self, signature: Option<&[u8]>) -> Result<(Content, io::Result<()>), ReplaceError> {
        let signed = attributes::take_over(self.original, self.temporary.file(), signature)?;
        let content = Content { temporary: self.temporary, original: self.original.identity(), length: self.length };
        Ok((content, signed))
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<(), ReplaceError> {
        self.temporary.file().write_all_at(bytes, offset).map_err(|error| ReplaceError::Io("write", error))
    }
}

/// New content, ready to take its place.
#[derive(Debug)]
pub(crate) struct Content {
    temporary: Temporary,
    original: Identity,
    length: u64,
}

/// What is to be done to the names of one file, once its bytes are on the disk.
#[derive(Debug, Default)]
pub(crate) struct Change {
    /// All names of the file that this run found.
    pub(crate) places: Vec<Place>,
    /// New content for all of them.
    pub(crate) content: Option<Content>,
    /// A detached signature for each of `places`; empty: none.
    pub(crate) detached: Vec<Temporary>,
    /// Remove detached signatures: they speak of other content.
    pub(crate) drop_detached: bool,
}

impl Change {
    /// A file whose file system must be told to write before [`Change::commit`].
    pub(crate) fn unwritten(&self) -> Option<&File> {
        self.content.as_ref().map(|content| &content.temporary).or(self.detached.first()).map(Temporary::file)
    }

    /// How many bytes wait to be written.
    pub(crate) fn length(&self) -> u64 {
        self.content.as_ref().map_or(0, |content| content.length)
    }

    /// Gives the new files their names.
    pub(crate) fn commit(self) -> Result<(), ReplaceError> {
        if let Some(Content { temporary, original, .. }) = self.content {
            for place in &self.places {
                let found = place.stat().map_err(|error| ReplaceError::Io("look at the file again", error))?;
                if Identity::from(&found) != original {
                    return Err(ReplaceError::Changed);
                }
            }
            let Some((first, others)) = self.places.split_first() else { return Ok(()) };
            // All new links before any name changes: what can fail fails here, with nothing changed.
            let links: Vec<_> = others
                .iter()
                .map(|place| temporary.link_for(place))
                .collect::<Result<_, _>>()
                .map_err(|error| ReplaceError::Io("link", error))?;
            let put = |temporary: Temporary, place: &Place| {
                temporary.put(place).map_err(|error| ReplaceError::Io("replace the file", error))
            };
            for (link, place) in links.into_iter().zip(others) {
                put(link, place)?;
            }
            put(temporary, first)?;
        }
        let failed = |error| ReplaceError::Io("replace the detached signature", error);
        for (temporary, place) in self.detached.into_iter().zip(&self.places) {
            temporary.put(&detached_place(place)).map_err(failed)?;
        }
        if self.drop_detached {
            for place in &self.places {
                // A file that only has the name is someone's.
                if read_detached(place).is_ok_and(|der| der.is_some_and(|der| SignatureInfo::parse(&der).is_ok())) {
                    remove(&detached_place(place)).map_err(failed)?;
                }
            }
        }
        Ok(())
    }
}

/// Removes a name; says whether there was one.
pub(crate) fn remove(place: &Place) -> io::Result<bool> {
    match rustix::fs::unlinkat(place.directory(), place.name(), AtFlags::empty()) {
        Ok(()) => Ok(true),
        Err(Errno::NOENT | Errno::NAMETOOLONG) => Ok(false),
        Err(errno) => Err(errno.into()),
    }
}

/// The device that was last found unable to share blocks; it is not asked again.
static CANNOT_CLONE: AtomicU64 = AtomicU64::new(u64::MAX);

fn clone(original: &Opened, new: &File) -> bool {
    let (device, _) = original.identity().key();
    if CANNOT_CLONE.load(Ordering::Relaxed) == device {
        return false;
    }
    let cloned = rustix::fs::ioctl_ficlone(new, &original.file).is_ok();
    if !cloned {
        CANNOT_CLONE.store(device, Ordering::Relaxed);
    }
    cloned
}
