// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The section header table of the original, checked, and the one that takes its place.

use super::header::{Header, LORESERVE, Table, XINDEX};
use super::{ElfError, ReadAt};

/// The most that is read into memory of a table, and of the names: no real file comes near.
const MAX_TABLE: u64 = 16 << 20;
const NAME: &[u8] = b".touchmark\0";
const NAMES_NAME: &[u8] = b".shstrtab\0";
const SHT_PROGBITS: u64 = 1;
const SHT_STRTAB: u64 = 3;
const SHT_NOBITS: u64 = 8;
/// `SHF_EXCLUDE`: linkers leave the section out, because linking makes another file.
const SHF_EXCLUDE: u64 = 0x8000_0000;
/// What tables and sections are aligned to, in bytes.
pub(super) const ALIGN: u64 = 8;

/// The sections of the original: raw headers, and the names.
pub(super) struct Sections {
    entries: Vec<u8>,
    /// The index of the names' section; `None` if the file has no names.
    names_index: Option<u64>,
    names: Vec<u8>,
}

/// What goes behind the original, and the header fields that point there.
pub(super) struct Extension {
    pub(super) bytes: Vec<u8>,
    pub(super) table: Table,
}

impl Sections {
    pub(super) fn read(file: &(impl ReadAt + ?Sized), len: u64, header: &Header) -> Result<Self, ElfError> {
        let table = header.table();
        let layout = &header.layout.section;
        if table.shoff == 0 {
            return Ok(Self { entries: Vec::new(), names_index: None, names: Vec::new() });
        }
        if table.shentsize != layout.size as u64 {
            return Err(ElfError::malformed("size of a section header", layout.size, table.shentsize));
        }
        let first = read_range(file, len, "section header 0", table.shoff, layout.size as u64)?;
        let count = if table.shnum == 0 { header.value(&first, layout.bytes) } else { table.shnum };
        let size = count.checked_mul(layout.size as u64).filter(|size| *size <= MAX_TABLE);
        let size = size.ok_or_else(|| ElfError::malformed("number of sections", "a table of at most 16 MiB", count))?;
        if count == 0 {
            return Err(ElfError::malformed("number of sections", "at least 1, because there is a table", 0));
        }
        let entries = read_range(file, len, "section header table", table.shoff, size)?;
        let names_index = match table.shstrndx {
            0 => None,
            // 0 there means the same as 0 in the header: no names.
            XINDEX => Some(header.value(&first, layout.link)).filter(|index| *index != 0),
            index => Some(index),
        };
        let names = names_index.map_or(Ok(Vec::new()), |index| read_names(file, len, header, &entries, index))?;
        Ok(Self { entries, names_index, names })
    }

    /// Lays names and table out behind `at`, the original's end. `content` is the size of the new section.
    /// `None`: the result does not fit the format's fields (a 32-bit file near 4 GiB).
    pub(super) fn extend(mut self, header: &Header, at: u64, content: u64) -> Option<Extension> {
        let layout = &header.layout.section;
        let mut bytes = Vec::new();
        let names_at = pad(&mut bytes, at);

        if self.entries.is_empty() {
            self.entries = vec![0; layout.size];
        }
        let names_index = match self.names_index {
            Some(index) => index,
            None => self.add_names_section(header)?,
        };
        let name = append(&mut self.names, NAME);
        bytes.extend_from_slice(&self.names);
        let entry = entry_mut(&mut self.entries, layout.size, names_index)?;
        header.set(entry, layout.offset, names_at)?;
        header.set(entry, layout.bytes, self.names.len() as u64)?;

        let table_at = pad(&mut bytes, at);
        let count = (self.entries.len() / layout.size) as u64 + 1;
        let content_at = table_at + count * layout.size as u64;
        let mut entry = vec![0; layout.size];
        header.set(&mut entry, layout.name, name)?;
        header.set(&mut entry, layout.kind, SHT_PROGBITS)?;
        header.set(&mut entry, layout.flags, SHF_EXCLUDE)?;
        header.set(&mut entry, layout.offset, content_at)?;
        header.set(&mut entry, layout.bytes, content)?;
        header.set(&mut entry, layout.align, ALIGN)?;
        self.entries.extend_from_slice(&entry);

        let (shnum, shstrndx) = self.number(header, count, names_index)?;
        bytes.extend_from_slice(&self.entries);
        let table = Table { shoff: table_at, shentsize: layout.size as u64, shnum, shstrndx };
        Some(Extension { bytes, table })
    }

    /// For a file without names: a section that will hold them. The old entries' name fields pointed nowhere.
    fn add_names_section(&mut self, header: &Header) -> Option<u64> {
        let layout = &header.layout.section;
        for entry in self.entries.chunks_exact_mut(layout.size) {
            header.set(entry, layout.name, 0)?;
        }
        self.names = vec![0];
        let name = append(&mut self.names, NAMES_NAME);
        let mut entry = vec![0; layout.size];
        header.set(&mut entry, layout.name, name)?;
        header.set(&mut entry, layout.kind, SHT_STRTAB)?;
        header.set(&mut entry, layout.align, 1)?;
        let index = (self.entries.len() / layout.size) as u64;
        self.entries.extend_from_slice(&entry);
        Some(index)
    }

    /// The header's fields for these numbers; those that do not fit go to section 0 (`elf(5)`, e_shnum and e_shstrndx).
    fn number(&mut self, header: &Header, count: u64, names_index: u64) -> Option<(u64, u64)> {
        let layout = &header.layout.section;
        let first = entry_mut(&mut self.entries, layout.size, 0)?;
        let mut shnum = count;
        if count >= LORESERVE {
            header.set(first, layout.bytes, count)?;
            shnum = 0;
        }
        let mut shstrndx = names_index;
        if names_index >= LORESERVE {
            header.set(first, layout.link, names_index)?;
            shstrndx = XINDEX;
        }
        Some((shnum, shstrndx))
    }
}

fn read_names(
    file: &(impl ReadAt + ?Sized),
    len: u64,
    header: &Header,
    entries: &[u8],
    index: u64,
) -> Result<Vec<u8>, ElfError> {
    let layout = &header.layout.section;
    let count = entries.len() / layout.size;
    let entry = usize::try_from(index)
        .ok()
        .and_then(|index| entries.chunks_exact(layout.size).nth(index))
        .ok_or_else(|| ElfError::malformed("index of the section names", format!("less than {count}"), index))?;
    if header.value(entry, layout.kind) == SHT_NOBITS {
        return Err(ElfError::malformed("section names", "a section with content", "one without"));
    }
    let size = header.value(entry, layout.bytes);
    if size > MAX_TABLE {
        return Err(ElfError::malformed("section names", "at most 16 MiB", size));
    }
    read_range(file, len, "section names", header.value(entry, layout.offset), size)
}

fn read_range(
    file: &(impl ReadAt + ?Sized),
    len: u64,
    what: &'static str,
    offset: u64,
    size: u64,
) -> Result<Vec<u8>, ElfError> {
    let inside = offset.checked_add(size).is_some_and(|end| end <= len);
    let count = usize::try_from(size).ok().filter(|_| inside).ok_or_else(|| {
        ElfError::malformed(what, format!("a place inside the file's {len} bytes"), format!("{size} bytes at {offset}"))
    })?;
    let mut bytes = vec![0; count];
    file.read_exact_at(&mut bytes, offset)?;
    Ok(bytes)
}

/// Pads `bytes`, which stand from `base` on, to the alignment, and returns where they end in the file.
fn pad(bytes: &mut Vec<u8>, base: u64) -> u64 {
    let end = base + bytes.len() as u64;
    let aligned = end.next_multiple_of(ALIGN);
    bytes.extend(std::iter::repeat_n(0, usize::try_from(aligned - end).unwrap_or(0)));
    aligned
}

/// Appends a name to the names; they may end without a NUL.
fn append(names: &mut Vec<u8>, name: &[u8]) -> u64 {
    if names.last().is_some_and(|last| *last != 0) {
        names.push(0);
    }
    let at = names.len() as u64;
    names.extend_from_slice(name);
    at
}

fn entry_mut(entries: &mut [u8], size: usize, index: u64) -> Option<&mut [u8]> {
    entries.chunks_exact_mut(size).nth(usize::try_from(index).ok()?)
}
