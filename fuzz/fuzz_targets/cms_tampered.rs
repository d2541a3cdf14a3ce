// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A true signature with some bytes changed, put in or taken out: it verifies only if it is still the same.
#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::arbitrary::{self, Arbitrary};
use libfuzzer_sys::fuzz_target;
use touchmark_fuzz::identity::Identity;
use touchmark_sign::cms::verify;
use touchmark_sign::digest::Digest;
use touchmark_sign::key::KeyAlgorithm;
use touchmark_sign::statement::{Kind, Statement};

#[derive(Arbitrary, Debug)]
enum Edit {
    Set(u16, u8),
    Add(u16, u8),
    Insert(u16, u8),
    Remove(u16),
}

static SIGNED: LazyLock<[(Identity, Vec<u8>); 3]> = LazyLock::new(|| {
    [KeyAlgorithm::EcdsaP256, KeyAlgorithm::Rsa2048, KeyAlgorithm::EcdsaP384].map(|algorithm| {
        let identity = Identity::new(algorithm);
        let der = identity.sign(&statement());
        (identity, der)
    })
});

fn statement() -> Statement {
    Statement::new(Kind::File, Digest::of(b"fuzz"))
}

fuzz_target!(|input: (u8, Vec<Edit>)| {
    let (identity, der) = &SIGNED[usize::from(input.0) % SIGNED.len()];
    let mut changed = der.clone();
    for edit in input.1 {
        let (Edit::Set(at, _) | Edit::Add(at, _) | Edit::Insert(at, _) | Edit::Remove(at)) = edit;
        let at = usize::from(at) % changed.len().max(1);
        match (edit, changed.get_mut(at)) {
            (Edit::Set(_, value), Some(byte)) => *byte = value,
            (Edit::Add(_, value), Some(byte)) => *byte = byte.wrapping_add(value),
            (Edit::Insert(_, value), _) => changed.insert(at, value),
            (Edit::Remove(_), Some(_)) => drop(changed.remove(at)),
            (_, None) => {}
        }
    }
    assert_eq!(verify(&changed, &statement(), &identity.trust).is_ok(), changed == *der);
});
