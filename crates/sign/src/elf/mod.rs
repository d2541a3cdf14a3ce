// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Signatures embedded in ELF files.
//!
//! A signed file is the original with three header fields changed, and behind it a new section header table whose last
//! section, `.touchmark`, holds the signature and ends the file. The signature covers every byte before it. Layout:
//! `docs/formats.md`, "Embedded ELF section". [`embed`] makes it, [`embedded`] finds it and takes it away.

pub mod embed;
pub mod embedded;
mod header;
mod sections;

use std::io;

/// What is read from at chosen places: a slice, or a file.
pub trait ReadAt {
    /// Fills `buffer` from `offset` on.
    ///
    /// # Errors
    /// `UnexpectedEof` if there are not that many bytes, and what reading reports.
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()>;
}

impl ReadAt for [u8] {
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        let range = usize::try_from(offset).ok().and_then(|start| Some(start..start.checked_add(buffer.len())?));
        let source = range.and_then(|range| self.get(range)).ok_or(io::ErrorKind::UnexpectedEof)?;
        buffer.copy_from_slice(source);
        Ok(())
    }
}

/// Bytes to put in place of others, at an offset.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Patch {
    /// From the start of the file.
    pub offset: u64,
    /// What stands there instead.
    pub bytes: Vec<u8>,
}

/// What can be wrong with an ELF file, or with the signature in it.
#[derive(Debug, thiserror::Error)]
pub enum ElfError {
    /// Not an ELF file at all.
    #[error("expected an ELF file, found {0}")]
    NotElf(&'static str),
    /// A header says something impossible.
    #[error("{what}: expected {expected}, found {found}")]
    Malformed {
        /// Which part.
        what: &'static str,
        /// What it should be.
        expected: String,
        /// What it is.
        found: String,
    },
    /// It is signed already.
    #[error("expected an ELF file without a .touchmark section, found a signed one")]
    AlreadySigned,
    /// The signature does not fit the room set aside for it.
    #[error("expected a signature of at most {capacity} bytes, found {found}")]
    TooLong {
        /// The room.
        capacity: u32,
        /// The signature's length.
        found: usize,
    },
    /// Reading failed.
    #[error("cannot read: {0}")]
    Io(#[from] io::Error),
}

impl ElfError {
    fn malformed(what: &'static str, expected: impl ToString, found: impl ToString) -> Self {
        Self::Malformed { what, expected: expected.to_string(), found: found.to_string() }
    }
}

/// Whether a file that begins with `head` says that it is ELF.
#[must_use]
pub fn is_elf(head: &[u8]) -> bool {
    head.starts_with(b"\x7fELF")
}
