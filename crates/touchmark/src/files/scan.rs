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
    /// How many bytes of the file it covers, from the start.
    pub(crate) covered: u64,
    /// The signature, DER.
    pub(crate) der: Vec<u8>,
    /// SHA-256 of all that it covers.
    pub(crate) content: Digest,
}

/// Reads the whole file, of `size` bytes when it was opened.
pub(crate) fn scan(file: BorrowedFd<'_>, size: u64, buffer: &mut [u8], stop: &Stop) -> Result<Scan, ScanError> {
    Look::at(file, size, buffer)?.digest(stop)
}

/// A file of which only the two ends have been read.
pub(crate) struct Look<'a> {
    file: BorrowedFd<'a>,
    size: u64,
    buffer: &'a mut [u8],
    /// How much of the buffer is the file's head.
    head: usize,
    embedded: Result<Option<Found>, ElfError>,
}

struct Found {
    covered: u64,
    der: Vec<u8>,
    /// All behind the covered part, as it was read when the signature was taken from it.
    rest: Vec<u8>,
}

impl<'a> Look<'a> {
    /// Reads the ends.
    pub(crate) fn at(file: BorrowedFd<'a>, size: u64, buffer: &'a mut [u8]) -> io::Result<Self> {
        let head = read_some(file, buffer, 0, size)?;
        let embedded = Source::new(file, size, buffer.get(..head).unwrap_or_default())
            .map_err(ElfError::Io)
            .and_then(|source| find_embedded(&source, size));
        Ok(Self { file, size, buffer, head, embedded })
    }

    /// Whether there is an embedded signature, sound or not.
    pub(crate) fn is_signed(&self) -> bool {
        !matches!(self.embedded, Ok(None))
    }

    /// Reads the rest of the file.
    pub(crate) fn digest(self, stop: &Stop) -> Result<Scan, ScanError> {
        let Self { file, size, buffer, head, embedded } = self;
        let found = embedded.as_ref().ok().and_then(Option::as_ref);
        // What is behind the covered part is not read again: the digests are of the very bytes that were looked at, even
        // if someone writes to the file meanwhile.
        let end = found.map_or(size, |found| found.covered);
        let mut hasher = FileHasher::new(found.map(|found| found.covered));
        let (mut done, mut length) = (0, head);
        while length > 0 && done < end {
            let wanted = usize::try_from(end - done).unwrap_or(usize::MAX).min(length);
            hasher.update(buffer.get(..wanted).unwrap_or_default());
            done += wanted as u64;
            stop.check()?;
            length = read_some(file, buffer, done, end)?;
        }
        if done != end || rustix::io::pread(file, &mut buffer[..1], size).map_err(io::Error::from)? != 0 {
            return Err(ScanError::Changed);
        }
        hasher.update(found.map_or(&[], |found| &found.rest));
        let digests = hasher.finish();
        let embedded = embedded.map(|found| {
            let (Found { covered, der, .. }, content) = found.zip(digests.content)?;
            Some(EmbeddedScan { covered, der, content })
        });
        Ok(Scan { whole: digests.whole, embedded })
    }
}

fn find_embedded(source: &Source<'_>, size: u64) -> Result<Option<Found>, ElfError> {
    if !is_elf(source.head) {
        return Ok(None);
    }
    let Some(found) = Embedded::find(source, size)? else { return Ok(None) };
    let der = found.read_der(source)?;
    // The signature, padding and trailer: `find` has seen to it that they are short.
    let mut rest = vec![0; usize::try_from(size - found.covered).unwrap_or(0)];
    source.read_exact_at(&mut rest, found.covered)?;
    Ok(Some(Found { covered: found.covered, der, rest }))
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

/// A file whose ends are in memory already.
pub(crate) struct Source<'a> {
    file: BorrowedFd<'a>,
    /// Its first bytes.
    pub(crate) head: &'a [u8],
    tail: Vec<u8>,
    /// Where the tail begins.
    tail_at: u64,
}

/// How much of the end is read at once, in bytes: more than the part of an embedded signature that is looked at.
const TAIL: u64 = 4096;

impl<'a> Source<'a> {
    /// Reads the end of an ELF file of `size` bytes that begins with `head`.
    pub(crate) fn new(file: BorrowedFd<'a>, size: u64, head: &'a [u8]) -> io::Result<Self> {
        let mut source = Self { file, head, tail: Vec::new(), tail_at: size };
        if is_elf(head) && head.len() as u64 != size {
            let length = size.min(TAIL);
            let mut tail = vec![0; usize::try_from(length).unwrap_or(0)];
            source.read_exact_at(&mut tail, size - length)?;
            (source.tail, source.tail_at) = (tail, size - length);
        }
        Ok(source)
    }
}

impl ReadAt for Source<'_> {
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        let length = buffer.len();
        let within = |bytes: &'_ [u8], start: u64| {
            let from = usize::try_from(offset.checked_sub(start)?).ok()?;
            Some(from..from.checked_add(length)?).filter(|range| range.end <= bytes.len())
        };
        // The tail first: what is taken from the end must all be from one reading.
        for (bytes, start) in [(&self.tail[..], self.tail_at), (self.head, 0)] {
            if let Some(known) = within(bytes, start).and_then(|range| bytes.get(range)) {
                buffer.copy_from_slice(known);
                return Ok(());
            }
        }
        let read = read_some(self.file, buffer, offset, offset.saturating_add(length as u64))?;
        if read == length { Ok(()) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
    }
}
