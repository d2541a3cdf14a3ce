// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Revocation lists: one encoding, no byte of which can be changed; and whose signature counts.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use proptest::prelude::*;
use touchmark_sign::certificate::{Certificate, Trust};
use touchmark_sign::cms::{self, SignatureInfo};
use touchmark_sign::digest::Digest;
use touchmark_sign::key::{KeyAlgorithm, PrivateKey, Signer};
use touchmark_sign::revocation::{MAX_ENTRIES, MAX_SIZE, Reason, RevocationError, RevocationList, SignedList, Target};
use touchmark_sign::statement::{Kind, Statement};

struct Identity {
    key: PrivateKey,
    certificate: Certificate,
}

impl Identity {
    fn new(algorithm: KeyAlgorithm) -> Self {
        let key = PrivateKey::generate(algorithm).expect("generate");
        let certificate = Certificate::self_signed(&key, "revocation test").expect("certificate");
        Self { key, certificate }
    }

    fn trust(&self) -> Trust {
        Trust::new(vec![self.certificate.clone()])
    }

    fn sign(&self, list: &RevocationList) -> String {
        list.sign(&self.key, &self.certificate).expect("sign")
    }
}

static OWNER: LazyLock<Identity> = LazyLock::new(|| Identity::new(KeyAlgorithm::EcdsaP256));

fn reason(text: &str) -> Reason {
    Reason::new(text).expect("a reason")
}

fn example() -> RevocationList {
    let digest = |text: &str| Digest::of(text.as_bytes());
    let entries = BTreeMap::from([
        (Target::Signature(*digest("s").as_bytes()), reason("signed by mistake")),
        (Target::File(digest("f")), reason("CVE-2026-1\nand \\ more")),
        (Target::FsVerity(digest("v")), reason("grün")),
        (Target::Certificate(digest("c")), reason("key lost")),
    ]);
    RevocationList { version: 7, issued: 1_795_247_999, entries }
}

/// Signs any text as if it were a list.
fn sign_text(body: &str) -> String {
    let statement = Statement::new(Kind::Revocation, Digest::of(body.as_bytes()));
    let der = cms::sign(&statement, &OWNER.key, &OWNER.certificate).expect("sign");
    body.to_owned() + &der::pem::encode_string("CMS", der::pem::LineEnding::LF, &der).expect("PEM")
}

#[test]
fn the_text_is_as_documented() {
    let text = OWNER.sign(&example());
    let (body, _) = text.split_once("-----BEGIN CMS-----\n").expect("a signature");
    let expected = format!(
        "touchmark revocation list 1\nversion 7\nissued 2026-11-21T07:59:59Z\n\
         certificate {} reason key lost\nfile {} reason CVE-2026-1\\u{{a}}and \\\\ more\n\
         fs-verity {} reason grün\nsignature {} reason signed by mistake\n",
        Digest::of(b"c"),
        Digest::of(b"f"),
        Digest::of(b"v"),
        Digest::of(b"s"),
    );
    assert_eq!(body, expected);
    assert_eq!(RevocationList::verify(text.as_bytes(), &OWNER.trust()), Ok(example()));
}

#[test]
fn no_byte_of_a_list_can_be_changed() {
    let text = OWNER.sign(&example()).into_bytes();
    for at in 0..text.len() {
        for value in [text[at] ^ 1, text[at] ^ 0x20, b' ', b'\n'] {
            let mut changed = text.clone();
            changed[at] = value;
            assert_eq!(RevocationList::verify(&changed, &OWNER.trust()).is_ok(), value == text[at], "byte {at}");
        }
        assert!(RevocationList::verify(&text[..at], &OWNER.trust()).is_err(), "cut to {at}");
    }
    for longer in [[&text[..], b"\n"].concat(), [b"\n", &text[..]].concat(), [&text[..], &text[..]].concat()] {
        assert!(SignedList::parse(&longer).is_err());
    }
}

#[test]
fn other_spellings_are_refused_though_signed() {
    let digest = Digest::of(b"x").to_string();
    let head = "touchmark revocation list 1\nversion 7\nissued 2026-11-21T07:59:59Z\n";
    let entry = format!("file {digest} reason r\n");
    assert!(RevocationList::verify(sign_text(&format!("{head}{entry}")).as_bytes(), &OWNER.trust()).is_ok());
    for (body, expected) in [
        (String::new(), "line 1"),
        (head.replace("list 1", "list 2"), "line 1"),
        (head.replace("list 1", "list 1 "), "line 1"),
        (head.replace("version 7", "version 07"), "one spelling"),
        (head.replace("version 7", "version +7"), "one spelling"),
        (head.replace("version 7", "version 0"), "a version from 1"),
        (head.replace("version 7", "version 18446744073709551616"), "line 2"),
        (head.replace("59Z", "59+00:00"), "line 3"),
        (head.replace("59Z", "59.5Z"), "line 3"),
        (head.replace("2026-11", "2026-13"), "line 3"),
        (head.replace('\n', "\r\n"), "one spelling"),
        (head.trim_end().to_owned(), "one spelling"),
        (format!("{head}\n"), "line 4"),
        (format!("{head}{}", entry.to_uppercase()), "line 4"),
        (format!("{head}file {} reason r\n", digest.to_uppercase()), "one spelling"),
        (format!("{head}file  {digest} reason r\n"), "line 4"),
        (format!("{head}inode {digest} reason r\n"), "line 4"),
        (format!("{head}file {digest} reason \n"), "line 4"),
        (format!("{head}file {digest} because r\n"), "line 4"),
        (format!("{head}{entry}{entry}"), "line 5"),
        (format!("{head}{entry}certificate {digest} reason r\n"), "line 5"),
        (format!("{head}{entry}file {digest} reason another\n"), "line 5"),
    ] {
        let error = RevocationList::verify(sign_text(&body).as_bytes(), &OWNER.trust()).expect_err(&body).to_string();
        assert!(error.contains(expected), "{body}: {error}");
    }
    for (from, to) in [("CMS", "PKCS7"), ("-----END CMS-----\n", "-----END CMS-----"), ("CMS-----\n", "CMS-----\r\n")] {
        assert!(SignedList::parse(OWNER.sign(&example()).replace(from, to).as_bytes()).is_err(), "{to:?}");
    }
    assert!(SignedList::parse(b"\xff").expect_err("no text").to_string().contains("UTF-8"));
}

#[test]
fn only_a_trusted_signer_that_is_not_on_the_list_counts() {
    let other = Identity::new(KeyAlgorithm::Rsa2048);
    let text = other.sign(&example());
    let error = RevocationList::verify(text.as_bytes(), &OWNER.trust()).expect_err("foreign");
    assert!(error.to_string().contains("unknown key"), "{error}");

    let both = Trust::new(vec![OWNER.certificate.clone(), other.certificate.clone()]);
    let mut list = example();
    list.entries.insert(Target::Certificate(other.certificate.fingerprint()), reason("stolen"));
    assert!(matches!(list.sign(&other.key, &other.certificate), Err(RevocationError::RevokesItself(_))));
    let text = OWNER.sign(&list);
    let signed = SignedList::parse(text.as_bytes()).expect("a list");
    assert_eq!(signed.verify(&both), Ok(&OWNER.certificate));
    assert_eq!(list.remaining(&both).certificates(), OWNER.trust().certificates());

    // Another certificate for the key, which the list revokes: it does not vouch for the list, the first one does.
    let twin = Certificate::self_signed(&OWNER.key, "revocation test").expect("certificate");
    let mut list = example();
    list.entries.insert(Target::Certificate(OWNER.certificate.fingerprint()), reason("lost"));
    let text = list.sign(&OWNER.key, &twin).expect("sign");
    assert!(RevocationList::verify(text.as_bytes(), &Trust::new(vec![twin, OWNER.certificate.clone()])).is_ok());
    assert!(RevocationList::verify(text.as_bytes(), &OWNER.trust()).is_err());
}

#[test]
fn a_list_that_revokes_its_signer_is_refused_though_the_signature_holds() {
    let body = format!(
        "touchmark revocation list 1\nversion 1\nissued 2026-11-21T07:59:59Z\ncertificate {} reason r\n",
        OWNER.certificate.fingerprint()
    );
    let error = RevocationList::verify(sign_text(&body).as_bytes(), &OWNER.trust()).expect_err("revokes itself");
    assert!(matches!(error, RevocationError::RevokesItself(_)), "{error}");
}

#[test]
fn a_signature_of_another_kind_is_refused() {
    let text = OWNER.sign(&example());
    let (body, _) = text.split_once("-----BEGIN").expect("a signature");
    for kind in [Kind::File, Kind::Manifest, Kind::Policy] {
        let statement = Statement::new(kind, Digest::of(body.as_bytes()));
        let der = cms::sign(&statement, &OWNER.key, &OWNER.certificate).expect("sign");
        let pem = der::pem::encode_string("CMS", der::pem::LineEnding::LF, &der).expect("PEM");
        assert!(RevocationList::verify(format!("{body}{pem}").as_bytes(), &OWNER.trust()).is_err(), "{kind:?}");
    }
}

#[test]
fn lists_are_bounded() {
    let many = |count: usize, text: &str| {
        let entry = |number: usize| (Target::File(Digest::of(&number.to_le_bytes())), reason(text));
        RevocationList { version: 1, issued: 0, entries: (0..count).map(entry).collect() }
    };
    let full = OWNER.sign(&many(MAX_ENTRIES, "r"));
    assert_eq!(RevocationList::verify(full.as_bytes(), &OWNER.trust()).map(|list| list.entries.len()), Ok(MAX_ENTRIES));
    let sign = |list: RevocationList| list.sign(&OWNER.key, &OWNER.certificate).expect_err("too large");
    assert!(matches!(sign(many(MAX_ENTRIES + 1, "r")), RevocationError::TooLarge { unit: "entries", .. }));
    assert!(matches!(sign(many(MAX_ENTRIES, &"r".repeat(250))), RevocationError::TooLarge { unit: "bytes", .. }));
    assert!(matches!(SignedList::parse(&vec![b'x'; MAX_SIZE + 1]), Err(RevocationError::TooLarge { .. })));
    let lines = full.replace("-----BEGIN", &format!("signature {} reason r\n-----BEGIN", Digest::of(b"")));
    assert!(
        matches!(SignedList::parse(lines.as_bytes()), Err(RevocationError::TooLarge { found, .. }) if found == MAX_ENTRIES + 1)
    );
    let late = RevocationList { issued: u64::MAX, ..example() };
    assert!(sign(late).to_string().contains("10000"));
}

#[test]
fn an_id_names_a_signature_and_its_ecdsa_twin() {
    let statement = Statement::new(Kind::File, Digest::of(b"content"));
    for algorithm in [KeyAlgorithm::Rsa2048, KeyAlgorithm::EcdsaP256, KeyAlgorithm::EcdsaP384] {
        let signer = Identity::new(algorithm);
        let der = cms::sign(&statement, &signer.key, &signer.certificate).expect("sign");
        let id = cms::signature_id(&der).expect("an id");
        assert!(SignatureInfo::parse(&der).is_ok());
        assert_eq!(cms::signature_id(&der), Ok(id));
        let again = cms::sign(&statement, &signer.key, &signer.certificate).expect("sign");
        // RSA signs the same in the same way, ECDSA at random.
        assert_eq!(cms::signature_id(&again) == Ok(id), algorithm == KeyAlgorithm::Rsa2048);
        if algorithm == KeyAlgorithm::Rsa2048 {
            assert!(der.ends_with(&id));
        } else {
            // r comes first: SEQUENCE, its length, INTEGER, its length, a zero if the number begins with a set bit.
            let r_at = der.windows(32).position(|window| window == id).expect("r is in the signature");
            let mut twin = der.clone();
            *twin.last_mut().expect("bytes") ^= 1;
            assert!(r_at < der.len() - 32 - 2);
            assert_eq!(cms::signature_id(&twin), Ok(id), "s is not looked at");
            twin[r_at + 31] ^= 1;
            assert_ne!(cms::signature_id(&twin), Ok(id));
        }
    }
    assert!(cms::signature_id(b"").is_err());
    assert_eq!(signer_of_short_r(), [[0; 31].as_slice(), &[5]].concat());
}

/// The id of a signature whose r is 5.
fn signer_of_short_r() -> Vec<u8> {
    let der = cms::sign(&Statement::new(Kind::File, Digest::of(b"")), &FixedValue, &OWNER.certificate).expect("sign");
    cms::signature_id(&der).expect("an id").to_vec()
}

/// The owner's key, but it always says r = 5, s = 6.
struct FixedValue;

impl Signer for FixedValue {
    fn algorithm(&self) -> KeyAlgorithm {
        OWNER.key.algorithm()
    }

    fn public_key(&self) -> &[u8] {
        OWNER.key.public_key()
    }

    fn sign(&self, _: &[u8]) -> Result<Vec<u8>, touchmark_sign::key::KeyError> {
        Ok(vec![0x30, 6, 2, 1, 5, 2, 1, 6])
    }
}

fn any_target() -> impl Strategy<Value = Target> {
    (0..4_u8, any::<[u8; 32]>()).prop_map(|(kind, id)| match kind {
        0 => Target::Certificate(id.into()),
        1 => Target::File(id.into()),
        2 => Target::FsVerity(id.into()),
        _ => Target::Signature(id),
    })
}

fn any_list() -> impl Strategy<Value = RevocationList> {
    let reason = any::<String>().prop_filter_map("too long, or none", |text| Reason::new(&text).ok());
    let entries = prop::collection::btree_map(any_target(), reason, 0..20);
    (1_u64.., 0..253_402_300_799_u64, entries).prop_map(|(version, issued, entries)| RevocationList {
        version,
        issued,
        entries,
    })
}

proptest! {
    #[test]
    fn every_list_comes_back(list in any_list()) {
        let text = OWNER.sign(&list);
        prop_assert_eq!(text.lines().count(), 3 + list.entries.len() + text.split("-----BEGIN CMS").last().map_or(0, |pem| pem.lines().count()));
        prop_assert_eq!(RevocationList::verify(text.as_bytes(), &OWNER.trust()), Ok(list));
    }

    #[test]
    fn damage_never_panics_and_never_verifies(
        list in any_list(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
        cut in any::<prop::sample::Index>(),
    ) {
        let text = OWNER.sign(&list).into_bytes();
        let mut changed = text.clone();
        for (at, value) in changes {
            let at = at.index(changed.len());
            changed[at] = value;
        }
        prop_assert_eq!(RevocationList::verify(&changed, &OWNER.trust()).is_ok(), changed == text);
        changed.truncate(cut.index(changed.len()));
        prop_assert!(RevocationList::verify(&changed, &OWNER.trust()).is_err());
    }

    #[test]
    fn what_parses_is_written_the_same(body in "(touchmark revocation list 1\n)?(version [0-9]{1,3}\n)?(issued 20[0-9]{2}-[01][0-9]-[0-3][0-9]T12:00:00Z\n)?((file|signature) [0-9a-f]{64} reason [a-z\\\\]{0,4}\n){0,3}") {
        let text = sign_text(&body);
        if let Ok(list) = RevocationList::verify(text.as_bytes(), &OWNER.trust()) {
            let again = OWNER.sign(&list);
            prop_assert!(again.starts_with(&body));
        }
    }
}
