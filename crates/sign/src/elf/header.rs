// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The ELF header's fields that an edit touches, for both classes and byte orders (`elf(5)`).

use super::{ElfError, Patch, ReadAt, is_elf};

/// `SHN_LORESERVE`: section numbers from here on do not fit the header's fields.
pub(super) const LORESERVE: u64 = 0xff00;
/// `SHN_XINDEX`: the real number is in section 0.
pub(super) const XINDEX: u64 = 0xffff;

/// Where a field lies and how wide it is, in bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Field {
    pub(super) at: usize,
    pub(super) width: usize,
}

/// The places that differ between the 32-bit and the 64-bit format.
#[derive(Debug)]
pub(super) struct Layout {
    pub(super) header_size: usize,
    shoff: Field,
    shentsize: Field,
    shnum: Field,
    shstrndx: Field,
    pub(super) section: SectionLayout,
}

/// The places within a section header.
#[derive(Debug)]
pub(super) struct SectionLayout {
    pub(super) size: usize,
    pub(super) name: Field,
    pub(super) kind: Field,
    pub(super) flags: Field,
    pub(super) offset: Field,
    pub(super) bytes: Field,
    pub(super) link: Field,
    pub(super) align: Field,
}

const fn field(at: usize, width: usize) -> Field {
    Field { at, width }
}

const ELF32: Layout = Layout {
    header_size: 52,
    shoff: field(32, 4),
    shentsize: field(46, 2),
    shnum: field(48, 2),
    shstrndx: field(50, 2),
    section: SectionLayout {
        size: 40,
        name: field(0, 4),
        kind: field(4, 4),
        flags: field(8, 4),
        offset: field(16, 4),
        bytes: field(20, 4),
        link: field(24, 4),
        align: field(32, 4),
    },
};

const ELF64: Layout = Layout {
    header_size: 64,
    shoff: field(40, 8),
    shentsize: field(58, 2),
    shnum: field(60, 2),
    shstrndx: field(62, 2),
    section: SectionLayout {
        size: 64,
        name: field(0, 4),
        kind: field(4, 4),
        flags: field(8, 8),
        offset: field(24, 8),
        bytes: field(32, 8),
        link: field(40, 4),
        align: field(48, 8),
    },
};

/// The header of one file.
#[derive(Debug)]
pub(super) struct Header {
    pub(super) layout: &'static Layout,
    big_endian: bool,
    bytes: Vec<u8>,
}

/// The header's four fields about the section header table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Table {
    pub(super) shoff: u64,
    pub(super) shentsize: u64,
    pub(super) shnum: u64,
    pub(super) shstrndx: u64,
}

impl Header {
    pub(super) fn read(file: &(impl ReadAt + ?Sized), len: u64) -> Result<Self, ElfError> {
        let mut ident = [0; 16];
        if len < ident.len() as u64 {
            return Err(ElfError::NotElf("a file of fewer than 16 bytes"));
        }
        file.read_exact_at(&mut ident, 0)?;
        if !is_elf(&ident) {
            return Err(ElfError::NotElf("other magic bytes"));
        }
        let layout = match ident[4] {
            1 => &ELF32,
            2 => &ELF64,
            other => return Err(ElfError::malformed("class", "1 (32-bit) or 2 (64-bit)", other)),
        };
        let big_endian = match ident[5] {
            1 => false,
            2 => true,
            other => return Err(ElfError::malformed("byte order", "1 (little) or 2 (big)", other)),
        };
        if len < layout.header_size as u64 {
            return Err(ElfError::malformed("file size", format!("at least {}", layout.header_size), len));
        }
        let mut bytes = vec![0; layout.header_size];
        file.read_exact_at(&mut bytes, 0)?;
        Ok(Self { layout, big_endian, bytes })
    }

    pub(super) fn table(&self) -> Table {
        Table {
            shoff: self.value(&self.bytes, self.layout.shoff),
            shentsize: self.value(&self.bytes, self.layout.shentsize),
            shnum: self.value(&self.bytes, self.layout.shnum),
            shstrndx: self.value(&self.bytes, self.layout.shstrndx),
        }
    }

    /// The patches that make the header describe `table`; `None` if a value does not fit its field.
    pub(super) fn describe(&self, table: &Table) -> Option<Vec<Patch>> {
        [
            (self.layout.shoff, table.shoff),
            (self.layout.shentsize, table.shentsize),
            (self.layout.shnum, table.shnum),
            (self.layout.shstrndx, table.shstrndx),
        ]
        .into_iter()
        .map(|(field, value)| {
            let mut bytes = vec![0; field.width];
            self.set(&mut bytes, Field { at: 0, ..field }, value)?;
            Some(Patch { offset: field.at as u64, bytes })
        })
        .collect()
    }

    /// The value of a field within `bytes`, which must hold it.
    pub(super) fn value(&self, bytes: &[u8], field: Field) -> u64 {
        let field = &bytes[field.at..field.at + field.width];
        let push = |value: u64, byte: &u8| value << 8 | u64::from(*byte);
        if self.big_endian { field.iter().fold(0, push) } else { field.iter().rev().fold(0, push) }
    }

    /// Sets a field within `bytes`, which must hold it; `None` if the value does not fit.
    #[must_use]
    pub(super) fn set(&self, bytes: &mut [u8], field: Field, value: u64) -> Option<()> {
        let all = value.to_be_bytes();
        let (spare, used) = all.split_at(all.len() - field.width);
        if spare.iter().any(|byte| *byte != 0) {
            return None;
        }
        let target = &mut bytes[field.at..field.at + field.width];
        target.copy_from_slice(used);
        if !self.big_endian {
            target.reverse();
        }
        Some(())
    }
}
