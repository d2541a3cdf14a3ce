// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Nobody's list verifies, and a list that parses has one text: signed anew it begins with the same bytes.
#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use touchmark_sign::certificate::{Certificate, Trust};
use touchmark_sign::digest::Digest;
use touchmark_sign::key::{KeyAlgorithm, PrivateKey};
use touchmark_sign::revocation::{Reason, RevocationList, SignedList, Target};

struct Owner {
    key: PrivateKey,
    trust: Trust,
    /// What they signed.
    list: RevocationList,
    /// Behind the entries of a list of theirs.
    signature: String,
}

static OWNER: LazyLock<Owner> = LazyLock::new(|| {
    let key = PrivateKey::generate(KeyAlgorithm::EcdsaP256).expect("generate");
    let certificate = Certificate::self_signed(&key, "fuzz").expect("certificate");
    let reason = Reason::new("fuzz").expect("a reason");
    let entries = [(Target::File(Digest::of(b"fuzz")), reason)].into();
    let list = RevocationList { version: 1, issued: 0, entries };
    let text = list.sign(&key, &certificate).expect("sign");
    let at = text.find("-----BEGIN").expect("a signature");
    Owner { key, trust: Trust::new(vec![certificate]), list, signature: text[at..].to_owned() }
});

fuzz_target!(|bytes: &[u8]| {
    let owner = &*OWNER;
    look(bytes, owner);
    look(&[bytes, owner.signature.as_bytes()].concat(), owner);
    let head = b"touchmark revocation list 1\nversion 1\nissued 2026-01-31T12:00:00Z\n";
    look(&[head, bytes, owner.signature.as_bytes()].concat(), owner);
});

fn look(text: &[u8], owner: &Owner) {
    let Ok(signed) = SignedList::parse(text) else { return };
    assert!(signed.verify(&owner.trust).is_err() || signed.list == owner.list);
    let again = signed.list.sign(&owner.key, &owner.trust.certificates()[0]).expect("it can be signed");
    let body = again.find("-----BEGIN").expect("a signature");
    assert_eq!(again.as_bytes()[..body], text[..body]);
    assert_eq!(RevocationList::verify(again.as_bytes(), &owner.trust), Ok(signed.list));
}
