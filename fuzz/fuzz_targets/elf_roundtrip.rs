// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Whatever ELF file can be signed verifies, is noticed when changed, and comes back to the byte.
#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::arbitrary::{self, Arbitrary};
use libfuzzer_sys::fuzz_target;
use object::{Object, ObjectSection};
use touchmark_fuzz::elf::{Shape, sign};
use touchmark_fuzz::identity::Identity;
use touchmark_sign::cms::verify;
use touchmark_sign::digest::Digest;
use touchmark_sign::elf::ElfError;
use touchmark_sign::elf::embedded::{Embedded, apply};
use touchmark_sign::key::KeyAlgorithm;
use touchmark_sign::statement::{Kind, Statement};

#[derive(Arbitrary, Debug)]
enum Original {
    Shape(Shape),
    Raw { is_64: bool, big_endian: bool, rest: Vec<u8> },
}

static IDENTITY: LazyLock<Identity> = LazyLock::new(|| Identity::new(KeyAlgorithm::EcdsaP256));

fuzz_target!(|input: (Original, u32, u8)| {
    let original = match input.0 {
        Original::Shape(shape) => shape.bytes(),
        Original::Raw { is_64, big_endian, rest } => {
            let ident = [0x7f, b'E', b'L', b'F', 1 + u8::from(is_64), 1 + u8::from(big_endian), 1];
            [&ident[..], &rest].concat()
        }
    };
    let Ok(signed) = sign(&IDENTITY, &original) else { return };
    assert!(verifies(&signed));

    let found = Embedded::find(&signed[..], signed.len() as u64).expect("well-formed").expect("signed");
    let mut unsigned = signed[..usize::try_from(found.original_len).expect("small")].to_vec();
    apply(&found.restore, &mut unsigned, 0);
    assert_eq!(unsigned, original);
    assert!(matches!(sign(&IDENTITY, &signed), Err(ElfError::AlreadySigned)));

    // What another reader made of the sections it still does, and there is one more.
    // It takes section 0 for names where the header refers to it and it says 0, which means that there are none.
    let refers = original.get(if original[4] == 2 { 62..64 } else { 50..52 }) == Some(&[0xff, 0xff][..]);
    if let (Some(before), true) = (names(&original), original.len() > 64 && !refers) {
        let after = names(&signed).expect("still readable");
        assert_eq!(after.last().map(Vec::as_slice), Some(&b".touchmark"[..]));
        assert!(after.len() > before.len());
        assert_eq!(after[..before.len()], before);
    }

    let mut changed = signed;
    let at = input.1 as usize % changed.len();
    changed[at] ^= input.2;
    assert_eq!(verifies(&changed), input.2 == 0);
});

fn verifies(file: &[u8]) -> bool {
    let Ok(Some(found)) = Embedded::find(file, file.len() as u64) else { return false };
    let Ok(der) = found.read_der(file) else { return false };
    let covered = &file[..usize::try_from(found.covered).expect("small")];
    verify(&der, &Statement::new(Kind::ElfContent, Digest::of(covered)), &IDENTITY.trust).is_ok()
}

/// The sections' names, if all can be read.
fn names(file: &[u8]) -> Option<Vec<Vec<u8>>> {
    let parsed = object::File::parse(file).ok()?;
    parsed.sections().map(|section| section.name_bytes().ok().map(<[u8]>::to_vec)).collect()
}
