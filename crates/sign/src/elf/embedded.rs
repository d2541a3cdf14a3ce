// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Finding the signature in an ELF file, and taking it away again.
//!
//! The file's last bytes tell where the signature is, so nothing else of the file is trusted to find it.

use std::io;
use std::ops::Range;

use super::header::{Header, Table};
use super::{ElfError, Patch, ReadAt};
use crate::cms;

/// The size of the section's part before the signature, in bytes.
pub(super) const HEADER_SIZE: usize = 40;
/// The size of its part behind, in bytes.
pub(super) const TRAILER_SIZE: usize = 16;

/// Both parts together, as the trailer counts.
const FRAME_SIZE: u32 = 56;
const _: () = assert!(FRAME_SIZE as usize == HEADER_SIZE + TRAILER_SIZE);

const HEADER_MAGIC: &[u8; 8] = b"tmkelf\x01\0";
const TRAILER_MAGIC: &[u8; 8] = b"touchmrk";

/// A signature found in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Embedded {
    /// The signature covers the bytes before this offset.
    pub covered: u64,
    /// Where the signature's DER lies.
    pub der: Range<u64>,
    /// The original's length in bytes.
    pub original_len: u64,
    /// What restores the original's header.
    pub restore: Vec<Patch>,
    padding: Range<u64>,
}

impl Embedded {
    /// Looks for a signature in a file of `len` bytes; `None` if there is none.
    ///
    /// # Errors
    /// There is one, and it is broken.
    pub fn find(file: &(impl ReadAt + ?Sized), len: u64) -> Result<Option<Self>, ElfError> {
        let Some(trailer_at) = len.checked_sub(TRAILER_SIZE as u64) else { return Ok(None) };
        let mut trailer = [0; TRAILER_SIZE];
        file.read_exact_at(&mut trailer, trailer_at)?;
        if &trailer[8..] != TRAILER_MAGIC {
            return Ok(None);
        }
        let elf = Header::read(file, len)?;
        let (der_len, content_size) = (number(&trailer[..4]), number(&trailer[4..8]));
        let fixed = u64::from(FRAME_SIZE);
        let capacity = content_size.checked_sub(fixed).filter(|capacity| *capacity <= cms::MAX_SIZE as u64);
        let capacity = capacity.ok_or_else(|| {
            ElfError::malformed(
                "size of .touchmark",
                format!("{fixed} to {}", fixed + cms::MAX_SIZE as u64),
                content_size,
            )
        })?;
        let header_at = len
            .checked_sub(content_size)
            .ok_or_else(|| ElfError::malformed("size of .touchmark", format!("at most {len}"), content_size))?;
        if der_len > capacity {
            return Err(ElfError::malformed("length of the signature", format!("at most {capacity}"), der_len));
        }
        let mut header = [0; HEADER_SIZE];
        file.read_exact_at(&mut header, header_at)?;
        let (original_len, table) = decode_header(&header, capacity)?;
        if original_len < elf.layout.header_size as u64 {
            let least = format!("at least {}", elf.layout.header_size);
            return Err(ElfError::malformed("length of the original", least, original_len));
        }
        if original_len > header_at {
            return Err(ElfError::malformed("length of the original", format!("at most {header_at}"), original_len));
        }
        let restore = elf
            .describe(&table)
            .ok_or_else(|| ElfError::malformed("place of the original's section headers", "32 bits", table.shoff))?;
        let covered = header_at + HEADER_SIZE as u64;
        let der = covered..covered + der_len;
        Ok(Some(Self { covered, padding: der.end..covered + capacity, der, original_len, restore }))
    }

    /// Reads the signature's DER. The padding behind it must be zero, so that no byte of the file is free.
    ///
    /// # Errors
    /// Reading fails, or the padding is not zero.
    pub fn read_der(&self, file: &(impl ReadAt + ?Sized)) -> Result<Vec<u8>, ElfError> {
        let der = read_range(file, &self.der)?;
        if read_range(file, &self.padding)?.iter().any(|byte| *byte != 0) {
            return Err(ElfError::malformed("padding behind the signature", "zeros", "something else"));
        }
        Ok(der)
    }

    /// The original, as it can be read from the signed file.
    pub fn original<'f, File: ReadAt + ?Sized>(&self, file: &'f File) -> Original<'f, File> {
        Original { file, len: self.original_len, restore: self.restore.clone() }
    }
}

/// A view of a signed file as it was before.
pub struct Original<'f, File: ?Sized> {
    file: &'f File,
    len: u64,
    restore: Vec<Patch>,
}

impl<File: ReadAt + ?Sized> ReadAt for Original<'_, File> {
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        if offset.checked_add(buffer.len() as u64).is_none_or(|end| end > self.len) {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.file.read_exact_at(buffer, offset)?;
        apply(&self.restore, buffer, offset);
        Ok(())
    }
}

/// Applies those parts of the patches that fall into `buffer`, which was read from `offset` on.
pub fn apply(patches: &[Patch], buffer: &mut [u8], offset: u64) {
    for patch in patches {
        for (at, byte) in (patch.offset..).zip(&patch.bytes) {
            let index = at.checked_sub(offset).and_then(|index| usize::try_from(index).ok());
            if let Some(target) = index.and_then(|index| buffer.get_mut(index)) {
                *target = *byte;
            }
        }
    }
}

/// The section's first part: what [`decode_header`] reads.
pub(super) fn encode_header(original_len: u64, table: &Table, capacity: u32) -> [u8; HEADER_SIZE] {
    let mut header = [0; HEADER_SIZE];
    header[..8].copy_from_slice(HEADER_MAGIC);
    header[8..16].copy_from_slice(&original_len.to_le_bytes());
    header[16..24].copy_from_slice(&table.shoff.to_le_bytes());
    // The fields are 16 bits wide in every ELF header.
    for (at, value) in [(24, table.shentsize), (26, table.shnum), (28, table.shstrndx)] {
        header[at..at + 2].copy_from_slice(&value.to_le_bytes()[..2]);
    }
    header[32..36].copy_from_slice(&capacity.to_le_bytes());
    header
}

/// The section's last part.
pub(super) fn encode_trailer(der_len: u32, capacity: u32) -> [u8; TRAILER_SIZE] {
    let content_size = capacity.saturating_add(FRAME_SIZE);
    let mut trailer = [0; TRAILER_SIZE];
    trailer[..4].copy_from_slice(&der_len.to_le_bytes());
    trailer[4..8].copy_from_slice(&content_size.to_le_bytes());
    trailer[8..].copy_from_slice(TRAILER_MAGIC);
    trailer
}

fn decode_header(header: &[u8; HEADER_SIZE], capacity: u64) -> Result<(u64, Table), ElfError> {
    if &header[..8] != HEADER_MAGIC {
        return Err(ElfError::malformed("start of .touchmark", "tmkelf, version 1", header[..8].escape_ascii()));
    }
    if number(&header[32..36]) != capacity {
        return Err(ElfError::malformed("room for the signature", capacity, number(&header[32..36])));
    }
    let original_len = number(&header[8..16]);
    let table = Table {
        shoff: number(&header[16..24]),
        shentsize: number(&header[24..26]),
        shnum: number(&header[26..28]),
        shstrndx: number(&header[28..30]),
    };
    // The reserved bytes are covered by the signature; a later version may give them a meaning.
    if header[30..32] != [0; 2] || header[36..] != [0; 4] {
        return Err(ElfError::malformed("reserved bytes of .touchmark", "zeros", "something else"));
    }
    Ok((original_len, table))
}

fn number(little_endian: &[u8]) -> u64 {
    little_endian.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte))
}

fn read_range(file: &(impl ReadAt + ?Sized), range: &Range<u64>) -> Result<Vec<u8>, ElfError> {
    // `find` bounded both ranges by the largest signature.
    let mut bytes = vec![0; usize::try_from(range.end - range.start).unwrap_or(0)];
    file.read_exact_at(&mut bytes, range.start)?;
    Ok(bytes)
}
