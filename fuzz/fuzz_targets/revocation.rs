// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Nobody's list verifies, and a list that parses has one text: signed anew it begins with the same bytes.
#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use touchmark_fuzz::identity::Identity;
use touchmark_fuzz::seeds;
use touchmark_sign::digest::Digest;
use touchmark_sign::key::KeyAlgorithm;
use touchmark_sign::revocation::{Reason, RevocationList, SignedList, Target};

struct Owner {
    identity: Identity,
    /// What they signed.
    list: RevocationList,
    /// Behind the entries of that list.
    signature: String,
}

static OWNER: LazyLock<Owner> = LazyLock::new(|| {
    let identity = Identity::new(KeyAlgorithm::EcdsaP256);
    let list = example();
    let text = list.sign(&identity.key, identity.certificate()).expect("sign");
    let at = text.find("-----BEGIN").expect("a signature");
    Owner { identity, list, signature: text[at..].to_owned() }
});

fn example() -> RevocationList {
    let reason = Reason::new("grün\nand \\").expect("a reason");
    let digest = Digest::of(b"fuzz");
    let targets = [Target::Certificate(digest), Target::File(digest), Target::Signature(*digest.as_bytes())];
    RevocationList { version: 1, issued: 0, entries: targets.map(|target| (target, reason.clone())).into() }
}

fuzz_target!(
    init: seeds::plant(|| {
        let text = &OWNER.list.sign(&OWNER.identity.key, OWNER.identity.certificate()).expect("sign");
        let body = &text[..text.find("-----BEGIN").expect("a signature")];
        let entries = body.split_inclusive('\n').skip(3).collect::<String>();
        [text, body, &entries].map(|seed| seed.as_bytes().to_vec()).to_vec()
    }),
    |bytes: &[u8]| {
        let owner = &*OWNER;
        look(bytes, owner);
        look(&[bytes, owner.signature.as_bytes()].concat(), owner);
        let head = b"touchmark revocation list 1\nversion 1\nissued 2026-01-31T12:00:00Z\n";
        look(&[head, bytes, owner.signature.as_bytes()].concat(), owner);
    }
);

fn look(text: &[u8], owner: &Owner) {
    let Ok(signed) = SignedList::parse(text) else { return };
    assert!(signed.verify(&owner.identity.trust).is_err() || signed.list == owner.list);
    let again = signed.list.sign(&owner.identity.key, owner.identity.certificate()).expect("it can be signed");
    let body = again.find("-----BEGIN").expect("a signature");
    assert_eq!(again.as_bytes()[..body], text[..body]);
    assert_eq!(RevocationList::verify(again.as_bytes(), &owner.identity.trust), Ok(signed.list));
}
