// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Embedding signatures in ELF files of every shape, and taking them out again.

mod common;

use std::fs;

use common::{Identity, unsign};
use object::write::elf::{FileHeader, SectionHeader, Writer};
use object::{Endianness, elf};
use proptest::prelude::*;
use touchmark_sign::cms;
use touchmark_sign::elf::ElfError;
use touchmark_sign::elf::embed::Plan;
use touchmark_sign::elf::embedded::Embedded;

/// An ELF file of `sections` sections besides the null one and the names.
fn synthetic(is_64: bool, endian: Endianness, sections: u32, overlay: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut writer = Writer::new(endian, is_64, &mut bytes);
    writer.reserve_file_header();
    writer.reserve_null_section_index();
    let name = writer.add_section_name(b".text");
    for _ in 0..sections {
        writer.reserve_section_index();
    }
    writer.reserve_shstrtab_section_index();
    let text = writer.reserve(16, 16);
    writer.reserve_shstrtab().expect("names");
    writer.reserve_section_headers();
    writer
        .write_file_header(&FileHeader {
            os_abi: elf::OsAbi(0),
            abi_version: 0,
            e_type: elf::FileType(2),
            e_machine: elf::Machine(62),
            e_entry: 0,
            e_flags: elf::FileFlags(0),
        })
        .expect("header");
    writer.write_align(16);
    writer.write(&[0x90; 16]);
    writer.write_shstrtab();
    writer.write_null_section_header();
    let name_offset = writer.section_name_offset(Some(name));
    for _ in 0..sections {
        writer.write_section_header(&SectionHeader {
            sh_name: name_offset,
            sh_type: elf::SectionType(1),
            sh_flags: elf::SectionFlags(6),
            sh_addr: 0,
            sh_offset: text,
            sh_size: 16,
            sh_link: 0,
            sh_info: 0,
            sh_addralign: 16,
            sh_entsize: 0,
        });
    }
    writer.write_shstrtab_section_header();
    bytes.extend_from_slice(overlay);
    bytes
}

/// The names and contents that the section headers give, as another ELF reader sees them.
fn sections_of(file: &[u8]) -> Vec<(String, u64)> {
    use object::{Object, ObjectSection};
    let parsed = object::File::parse(file).expect("a valid ELF file");
    parsed.sections().map(|section| (section.name().expect("name").to_owned(), section.size())).collect()
}

#[test]
fn every_class_order_and_size_of_table_comes_back_to_the_byte() {
    let identity = Identity::new();
    for is_64 in [true, false] {
        for endian in [Endianness::Little, Endianness::Big] {
            for sections in [0, 1, 20, 0xfefd, 0xfefe, 0xfeff, 0xff00, 0xff10] {
                let original = synthetic(is_64, endian, sections, b"an overlay of odd length");
                let signed = identity.sign(&original).expect("sign");
                assert!(identity.verifies(&signed));
                assert_eq!(unsign(&signed), original, "{is_64} {endian:?} {sections}");
                let (before, after) = (sections_of(&original), sections_of(&signed));
                assert_eq!(after.len(), before.len() + 1);
                assert_eq!(after.last().expect("sections").0, ".touchmark");
                assert_eq!(
                    after.iter().zip(&before).find(|(a, b)| a != b).map(|(a, _)| a.0.as_str()),
                    Some(".shstrtab")
                );
            }
        }
    }
}

#[test]
fn a_file_without_section_headers_gets_some() {
    let identity = Identity::new();
    let mut original = synthetic(true, Endianness::Little, 1, b"");
    original[40..48].fill(0);
    original[58..64].fill(0);
    let signed = identity.sign(&original).expect("sign");
    assert!(identity.verifies(&signed));
    assert_eq!(unsign(&signed), original);
    let names: Vec<_> = sections_of(&signed).into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, [".shstrtab", ".touchmark"]);
}

/// The header says that the index of the names is in section 0, and there it is 0: no names.
#[test]
fn a_file_without_names_by_section_0_gets_some() {
    let identity = Identity::new();
    for (is_64, endian) in [(true, Endianness::Little), (true, Endianness::Big), (false, Endianness::Little)] {
        let mut original = synthetic(is_64, endian, 2, b"odd");
        let shstrndx = if is_64 { 62 } else { 50 };
        original[shstrndx..shstrndx + 2].fill(0xff);
        let signed = identity.sign(&original).expect("sign");
        assert!(identity.verifies(&signed));
        assert_eq!(unsign(&signed), original);
        let names: Vec<_> = sections_of(&signed).into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["", "", "", ".shstrtab", ".touchmark"]);
    }
}

#[test]
fn every_elf_file_of_some_system_folders_comes_back() {
    let identity = Identity::new();
    let mut count = 0;
    for folder in ["/bin", "/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/libexec"] {
        let Ok(entries) = fs::read_dir(folder) else { continue };
        for path in entries.flatten().map(|entry| entry.path()) {
            let small = fs::metadata(&path).is_ok_and(|meta| meta.is_file() && meta.len() < 2 << 20);
            let Some(original) = small.then(|| fs::read(&path).ok()).flatten() else { continue };
            if !touchmark_sign::elf::is_elf(&original) || count >= 300 {
                continue;
            }
            let signed = identity.sign(&original).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            assert!(identity.verifies(&signed), "{}", path.display());
            assert!(unsign(&signed) == original, "{}", path.display());
            count += 1;
        }
    }
    assert!(count > 50, "expected a system with more than {count} ELF files");
}

#[test]
fn every_changed_byte_of_a_signed_file_is_noticed() {
    let identity = Identity::new();
    let signed = identity.sign(&synthetic(true, Endianness::Little, 2, b"overlay")).expect("sign");
    for at in 0..signed.len() {
        for value in [signed[at] ^ 1, signed[at] ^ 0x80, !signed[at], 0] {
            let mut changed = signed.clone();
            changed[at] = value;
            assert_eq!(identity.verifies(&changed), value == signed[at], "byte {at} of {}", signed.len());
        }
    }
    for len in 0..signed.len() {
        assert!(!identity.verifies(&signed[..len]), "truncated to {len}");
    }
    assert!(!identity.verifies(&[&signed[..], b"x"].concat()));
}

#[test]
fn a_signed_file_is_not_signed_over() {
    let identity = Identity::new();
    let signed = identity.sign(&synthetic(true, Endianness::Little, 2, b"")).expect("sign");
    assert!(matches!(identity.sign(&signed), Err(ElfError::AlreadySigned)));
    let embedded = Embedded::find(&signed[..], signed.len() as u64).expect("well-formed").expect("signed");
    let again = Plan::new(&embedded.original(&signed[..]), embedded.original_len, 200).expect("the original can be");
    assert_eq!(again.original_len, embedded.original_len);
}

#[test]
fn a_broken_frame_is_an_error_and_not_an_unsigned_file() {
    let identity = Identity::new();
    let signed = identity.sign(&synthetic(true, Endianness::Little, 2, b"")).expect("sign");
    let found = Embedded::find(&signed[..], signed.len() as u64).expect("well-formed").expect("signed");
    let header = usize::try_from(found.covered).expect("small") - 40;
    let trailer = signed.len() - 16;
    for (at, bytes, expected) in [
        (header, &b"x"[..], "start of .touchmark"),
        (header + 6, &[2], "start of .touchmark"),
        (header + 8, &[0xff; 8], "length of the original"),
        // Shorter than the ELF header that is to be restored in it.
        (header + 8, &63_u64.to_le_bytes(), "length of the original"),
        (header + 8, &[0; 8], "length of the original"),
        (header + 30, &[1], "reserved bytes"),
        (header + 32, &[1], "room for the signature"),
        (header + 36, &[1], "reserved bytes"),
        (trailer, &[0xff; 4], "length of the signature"),
        (trailer + 4, &[0xff; 4], "size of .touchmark"),
        (trailer + 4, &[0; 4], "size of .touchmark"),
        (trailer + 4, &(56_u32 + 2048).to_le_bytes(), "size of .touchmark"),
    ] {
        let mut changed = signed.clone();
        changed[at..at + bytes.len()].copy_from_slice(bytes);
        let error = Embedded::find(&changed[..], changed.len() as u64).expect_err(expected).to_string();
        assert!(error.contains(expected), "{at}: {error}");
    }
    let mut changed = signed.clone();
    changed[trailer + 8] ^= 1;
    assert_eq!(Embedded::find(&changed[..], changed.len() as u64).expect("no error"), None);
}

#[test]
fn room_that_nobody_would_find_again_is_refused() {
    let original = synthetic(true, Endianness::Little, 2, b"");
    let most = u32::try_from(cms::MAX_SIZE).expect("small");
    assert!(Plan::new(&original[..], original.len() as u64, most).is_ok());
    for capacity in [most + 1, u32::MAX] {
        let error = Plan::new(&original[..], original.len() as u64, capacity).expect_err("too much");
        assert!(error.to_string().contains("room for the signature"), "{error}");
    }
    let plan = Plan::new(&original[..], original.len() as u64, 10).expect("plan");
    assert!(matches!(plan.finish(&[0; 11]), Err(ElfError::TooLong { capacity: 10, found: 11 })));
}

#[test]
fn impossible_headers_are_named() {
    let identity = Identity::new();
    let original = synthetic(true, Endianness::Little, 2, b"");
    let with = |at: usize, bytes: &[u8]| {
        let mut changed = original.clone();
        changed[at..at + bytes.len()].copy_from_slice(bytes);
        identity.sign(&changed).expect_err("must be refused").to_string()
    };
    assert!(with(4, &[3]).contains("class"));
    assert!(with(5, &[0]).contains("byte order"));
    assert!(with(40, &u64::MAX.to_le_bytes()).contains("inside the file"));
    assert!(with(58, &[63, 0]).contains("size of a section header"));
    assert!(with(60, &[0xff, 0xfe]).contains("inside the file"));
    assert!(with(60, &[0, 0]).contains("number of sections"));
    assert!(with(62, &[9, 0]).contains("index of the section names"));
    assert!(identity.sign(b"\x7fELF").is_err());
    assert!(identity.sign(&original[..60]).is_err());
    assert!(
        identity.sign(b"#!/bin/sh\necho a script, long enough\n").expect_err("no ELF").to_string().contains("magic")
    );
}

proptest! {
    #[test]
    fn mutations_never_panic_and_never_verify(
        changes in prop::collection::vec((0_usize..1200, any::<u8>()), 1..12),
        cut in 0_usize..1200,
    ) {
        thread_local!(static SIGNED: (Identity, Vec<u8>) = {
            let identity = Identity::new();
            let signed = identity.sign(&synthetic(true, Endianness::Little, 3, b"x")).expect("sign");
            (identity, signed)
        });
        SIGNED.with(|(identity, signed)| {
            let mut changed = signed.clone();
            for (at, value) in changes {
                let at = at % changed.len();
                changed[at] = value;
            }
            let same = changed == *signed;
            prop_assert_eq!(identity.verifies(&changed), same);
            changed.truncate(cut.max(1));
            let _ = identity.sign(&changed);
            let _ = Embedded::find(&changed[..], changed.len() as u64);
            Ok(())
        })?;
    }

    #[test]
    fn whatever_can_be_signed_comes_back(bytes in prop::collection::vec(any::<u8>(), 0..300), is_64 in any::<bool>()) {
        thread_local!(static IDENTITY: Identity = Identity::new());
        let mut original = vec![0x7f, b'E', b'L', b'F', if is_64 { 2 } else { 1 }, 1, 1, 0];
        original.extend(bytes);
        IDENTITY.with(|identity| {
            if let Ok(signed) = identity.sign(&original) {
                prop_assert!(identity.verifies(&signed));
                prop_assert_eq!(unsign(&signed), original);
            }
            Ok(())
        })?;
    }
}
