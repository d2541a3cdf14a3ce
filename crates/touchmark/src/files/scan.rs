// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads a file once, from an open descriptor: its digests, and the signature embedded in it.

use std::io;
use std::os::fd::BorrowedFd;

use touchmark_sign::digest::Digest;
use touchmark_sign::elf::embedded::Embedded;
use touchmark_sign::elf::{ElfError, ReadAt, is_elf};
use touchmark_sign::verify::FileHasher;

use crate::stop::{Interrupted, Stop};

/// How much is read at a time, in bytes: large enough that system calls do not count, small enough for the second cache.
pub(crate) const BUFFER: usize = 256 * 1024;

/// Why a file could not be read to the end.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ScanError {
    /// The file cannot be opened, or is no regular file.
    #[error("{0}")]
    Open(io::Error),
    /// The file cannot be read.
    #[error("cannot read: {0}")]
    Read(#[from] io::Error),
    /// Bytes were added or removed while it was read.
    #[error("expected a file at rest, found one whose size changed while it was read")]
    Changed,
    /// The command was told to stop.
    #[error(transparent)]
    Interrupted(#[from] Interrupted),
}

/// What one pass over a file gives.
#[derive(Debug)]
pub(crate) struct Scan {
    /// SHA-256 of the whole file.
    pub(crate) whole: Digest,
    /// The embedded signature, if the file is an ELF file with one; an error if it cannot be one of ours.
    pub(crate) embedded: Result<Option<EmbeddedScan>, ElfError>,
}

/// An embedded signature and what it must fit.
#[derive(Debug)]
pub(crate) struct EmbeddedScan {
    /// Where it is.
    pub(crate) found: Embedded,
    /// The signature, DER.
    pub(crate) der: Vec<u8>,
    /// SHA-256 of all that the signature covers.
    pub(crate) content: Digest,
}

/// Reads the whole file, of `size` bytes when it was opened.
pub(crate) fn scan(file: BorrowedFd<'_>, size: u64, buffer: &mut [u8], stop: &Stop) -> Result<Scan, ScanError> {
    let head = read_some(file, buffer, 0, size)?;
    let embedded = find_embedded(&Source { file, head: buffer.get(..head).unwrap_or_default() }, size);
    let (found, der) = match embedded {
        Ok(Some((found, der))) => (Ok(Some(found)), der),
        Ok(None) => (Ok(None), Vec::new()),
        // Its hash is still wanted: other signatures cover the whole file.
        Err(error) => (Err(error), Vec::new()),
    };
    let covered = found.as_ref().ok().and_then(Option::as_ref).map(|found: &Embedded| found.covered);
    let mut hasher = FileHasher::new(covered);
    let mut done = 0;
    let mut length = head;
    while length > 0 {
        hasher.update(buffer.get(..length).unwrap_or_default());
        done += length as u64;
        stop.check()?;
        length = read_some(file, buffer, done, size)?;
    }
    // One more byte than expected would be read here.
    if done != size || rustix::io::pread(file, &mut buffer[..1], size).map_err(io::Error::from)? != 0 {
        return Err(ScanError::Changed);
    }
    let digests = hasher.finish();
    let embedded = match (found, digests.content) {
        (Ok(Some(found)), Some(content)) => Ok(Some(EmbeddedScan { found, der, content })),
        (Ok(_), _) => Ok(None),
        (Err(error), _) => Err(error),
    };
    Ok(Scan { whole: digests.whole, embedded })
}

/// The embedded signature's place and bytes.
fn find_embedded(source: &Source<'_>, size: u64) -> Result<Option<(Embedded, Vec<u8>)>, ElfError> {
    if !is_elf(source.head) {
        return Ok(None);
    }
    let Some(found) = Embedded::find(source, size)? else { return Ok(None) };
    let der = found.read_der(source)?;
    Ok(Some((found, der)))
}

/// Fills the buffer from `offset`, but not past `size`; less only at the end of the file.
pub(super) fn read_some(file: BorrowedFd<'_>, buffer: &mut [u8], offset: u64, size: u64) -> io::Result<usize> {
    let wanted = usize::try_from(size.saturating_sub(offset)).unwrap_or(usize::MAX).min(buffer.len());
    let mut done = 0;
    while done < wanted {
        match rustix::io::pread(file, &mut buffer[done..wanted], offset + done as u64) {
            Ok(0) => break,
            Ok(read) => done += read,
            Err(rustix::io::Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
    Ok(done)
}

/// A file whose first bytes are in memory already.
pub(crate) struct Source<'a> {
    /// The file.
    pub(crate) file: BorrowedFd<'a>,
    /// Its first bytes.
    pub(crate) head: &'a [u8],
}

impl ReadAt for Source<'_> {
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        let known = usize::try_from(offset).ok().and_then(|from| self.head.get(from..)?.get(..buffer.len()));
        if let Some(known) = known {
            buffer.copy_from_slice(known);
            return Ok(());
        }
        let read = read_some(self.file, buffer, offset, offset.saturating_add(buffer.len() as u64))?;
        if read == buffer.len() { Ok(()) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
    }
}
