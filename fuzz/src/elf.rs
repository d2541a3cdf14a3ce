// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Small ELF files, signing them, and files with holes.

use std::io;

use libfuzzer_sys::arbitrary::{self, Arbitrary};
use touchmark_sign::cms;
use touchmark_sign::digest::Digest;
use touchmark_sign::elf::embed::Plan;
use touchmark_sign::elf::embedded::apply;
use touchmark_sign::elf::{ElfError, ReadAt};
use touchmark_sign::statement::{Kind, Statement};

use crate::identity::Identity;

/// An ELF file whose headers are nearly right, which random bytes never are.
#[derive(Arbitrary, Clone, Debug)]
pub struct Shape {
    /// 64-bit, otherwise 32-bit.
    pub is_64: bool,
    /// Big endian, otherwise little.
    pub big_endian: bool,
    /// Bytes between the ELF header and the section headers.
    pub body: Vec<u8>,
    /// Headers: name, type, where in the body the content starts, its size, link.
    pub sections: Vec<(u8, u8, u8, u16, u16)>,
    /// The index of the section with names.
    pub shstrndx: u16,
    /// The number in the header, if not the true one: 0 says that it is in section 0.
    pub shnum: Option<u16>,
    /// Whether the header says where the section headers are.
    pub has_table: bool,
    /// Bytes behind the section headers.
    pub overlay: Vec<u8>,
}

impl Shape {
    /// The file.
    #[must_use]
    pub fn bytes(&self) -> Vec<u8> {
        let header_size = if self.is_64 { 64 } else { 52 };
        let section_size = if self.is_64 { 64 } else { 40 };
        let mut out = Writer { bytes: vec![0x7f, b'E', b'L', b'F'], is_64: self.is_64, big_endian: self.big_endian };
        out.bytes.extend([1 + u8::from(self.is_64), 1 + u8::from(self.big_endian), 1, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        out.number(2, 2); // executable
        out.number(if self.is_64 { 62 } else { 3 }, 2); // x86
        out.number(1, 4);
        out.word(0);
        out.word(0);
        out.word(if self.has_table { (header_size + self.body.len()) as u64 } else { 0 });
        out.number(0, 4);
        for value in [header_size as u64, 0, 0, section_size] {
            out.number(value, 2);
        }
        out.number(self.shnum.map_or(self.sections.len() as u64, u64::from), 2);
        out.number(self.shstrndx.into(), 2);
        out.bytes.extend(&self.body);
        for (name, kind, start, size, link) in &self.sections {
            out.number((*name).into(), 4);
            out.number((*kind).into(), 4);
            out.word(0);
            out.word(0);
            out.word(header_size as u64 + u64::from(*start));
            out.word((*size).into());
            out.number((*link).into(), 4);
            out.number(0, 4);
            out.word(1);
            out.word(0);
        }
        out.bytes.extend(&self.overlay);
        out.bytes
    }

    /// A whole and proper file, as a seed.
    #[must_use]
    pub fn proper(is_64: bool, big_endian: bool) -> Self {
        let body = b"\0.text\0.shstrtab\0\xc3".to_vec();
        let sections = vec![(0, 0, 0, 0, 0), (1, 1, 17, 1, 0), (7, 3, 0, 17, 0)];
        let overlay = b"odd".to_vec();
        Self { is_64, big_endian, body, sections, shstrndx: 2, shnum: None, has_table: true, overlay }
    }
}

struct Writer {
    bytes: Vec<u8>,
    is_64: bool,
    big_endian: bool,
}

impl Writer {
    fn number(&mut self, value: u64, width: usize) {
        let mut bytes = value.to_le_bytes()[..width].to_vec();
        if self.big_endian {
            bytes.reverse();
        }
        self.bytes.extend(bytes);
    }

    fn word(&mut self, value: u64) {
        self.number(value, if self.is_64 { 8 } else { 4 });
    }
}

/// Signs a file as `touchmark sign` does.
///
/// # Errors
/// It cannot be signed.
pub fn sign(identity: &Identity, original: &[u8]) -> Result<Vec<u8>, ElfError> {
    let capacity = cms::max_len(identity.certificate()).expect("a length");
    let plan = Plan::new(original, original.len() as u64, u32::try_from(capacity).expect("small"))?;
    let mut signed = original.to_vec();
    apply(&plan.patches, &mut signed, 0);
    signed.extend_from_slice(&plan.appended);
    let der = identity.sign(&Statement::new(Kind::ElfContent, Digest::of(&signed)));
    signed.extend(plan.finish(&der)?);
    assert_eq!(signed.len() as u64, plan.signed_len());
    Ok(signed)
}

/// A file of any size: a beginning, zeros, an end.
#[derive(Arbitrary, Clone, Debug)]
pub struct Sparse {
    /// The beginning.
    pub head: Vec<u8>,
    /// How many zeros follow.
    pub hole: u64,
    /// The end.
    pub tail: Vec<u8>,
}

impl Sparse {
    /// The size in bytes; `None` if no file can have it (`loff_t` is signed).
    #[must_use]
    pub fn len(&self) -> Option<u64> {
        let len = (self.head.len() as u64).checked_add(self.hole)?.checked_add(self.tail.len() as u64)?;
        i64::try_from(len).is_ok().then_some(len)
    }
}

impl ReadAt for Sparse {
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        let len = self.len().ok_or(io::ErrorKind::InvalidInput)?;
        if offset.checked_add(buffer.len() as u64).is_none_or(|end| end > len) {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        buffer.fill(0);
        let tail_at = len - self.tail.len() as u64;
        for (start, bytes) in [(0, &self.head), (tail_at, &self.tail)] {
            let from = start.max(offset);
            let to = (start + bytes.len() as u64).min(offset + buffer.len() as u64);
            if from < to {
                let target = (from - offset) as usize..(to - offset) as usize;
                buffer[target].copy_from_slice(&bytes[(from - start) as usize..(to - start) as usize]);
            }
        }
        Ok(())
    }
}
