// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Putting a signature into an ELF file.

use super::embedded::{self, Embedded, HEADER_SIZE, TRAILER_SIZE};
use super::header::Header;
use super::sections::Sections;
use super::{ElfError, Patch, ReadAt};
use crate::cms;

/// What becomes of a file that is signed: patches within the original, then [`Plan::appended`], then what
/// [`Plan::finish`] returns. The statement to sign is of everything before the latter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The original's length in bytes.
    pub original_len: u64,
    /// To apply to the original's bytes; all lie within the ELF header.
    pub patches: Vec<Patch>,
    /// Goes behind the original and is covered by the signature.
    pub appended: Vec<u8>,
    capacity: u32,
}

impl Plan {
    /// Plans for a file of `len` bytes and a signature of at most `capacity` bytes ([`crate::cms::max_len`]).
    ///
    /// # Errors
    /// Not an ELF file, headers that make no sense, or a file that is signed already.
    pub fn new(file: &(impl ReadAt + ?Sized), len: u64, capacity: u32) -> Result<Self, ElfError> {
        if capacity as usize > cms::MAX_SIZE {
            // Nobody would find it again.
            return Err(ElfError::malformed("room for the signature", format!("at most {}", cms::MAX_SIZE), capacity));
        }
        let header = Header::read(file, len)?;
        if Embedded::find(file, len)?.is_some() {
            return Err(ElfError::AlreadySigned);
        }
        let table = header.table();
        let sections = Sections::read(file, len, &header)?;
        let content_size = HEADER_SIZE + capacity as usize + TRAILER_SIZE;
        let too_large = || ElfError::malformed("file size", "room for a section in a 32-bit file", len);
        let extension = sections.extend(&header, len, content_size as u64).ok_or_else(too_large)?;
        let patches = header.describe(&extension.table).ok_or_else(too_large)?;
        let mut appended = extension.bytes;
        appended.extend_from_slice(&embedded::encode_header(len, &table, capacity));
        Ok(Self { original_len: len, patches, appended, capacity })
    }

    /// The signed file's length in bytes.
    #[must_use]
    pub fn signed_len(&self) -> u64 {
        self.original_len + (self.appended.len() + self.capacity as usize + TRAILER_SIZE) as u64
    }

    /// What goes behind the covered part: the signature, padding, trailer.
    ///
    /// # Errors
    /// The signature is longer than planned for.
    pub fn finish(&self, der: &[u8]) -> Result<Vec<u8>, ElfError> {
        let too_long = || ElfError::TooLong { capacity: self.capacity, found: der.len() };
        let padding = (self.capacity as usize).checked_sub(der.len()).ok_or_else(too_long)?;
        let der_len = u32::try_from(der.len()).map_err(|_| too_long())?;
        let mut bytes = der.to_vec();
        bytes.resize(der.len() + padding, 0);
        bytes.extend_from_slice(&embedded::encode_trailer(der_len, self.capacity));
        Ok(bytes)
    }
}
