// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Random damage to everything that is parsed: nothing panics, and nothing damaged counts.

use std::sync::LazyLock;

use ::cms::content_info::ContentInfo;
use ::cms::signed_data::{SignedData, SignerInfo, SignerInfos};
use const_oid::db::{rfc5911, rfc5912};
use der::asn1::{Any, OctetString, Uint};
use der::{Decode, Encode};
use proptest::prelude::*;
use spki::AlgorithmIdentifierOwned;
use touchmark_sign::certificate::{Certificate, Trust};
use touchmark_sign::cms::{self, SignatureInfo};
use touchmark_sign::digest::Digest;
use touchmark_sign::key::{KeyAlgorithm, PrivateKey, Signer};
use touchmark_sign::statement::{Kind, Statement};

struct Whole {
    key: PrivateKey,
    trust: Trust,
    der: Vec<u8>,
}

/// One of each family: RSA signatures take a quicker way through the verifier than ECDSA ones.
static WHOLE: LazyLock<Vec<Whole>> = LazyLock::new(|| {
    [KeyAlgorithm::Rsa2048, KeyAlgorithm::EcdsaP256, KeyAlgorithm::EcdsaP384]
        .map(|algorithm| {
            let key = PrivateKey::generate(algorithm).expect("generate");
            let certificate = Certificate::self_signed(&key, "damaged").expect("certificate");
            let der = cms::sign(&statement(), &key, &certificate).expect("sign");
            Whole { key, trust: Trust::new(vec![certificate]), der }
        })
        .into()
});

fn statement() -> Statement {
    Statement::new(Kind::File, Digest::of(b"content"))
}

#[test]
fn no_changed_byte_of_a_certificate_makes_its_key_another_spelling() {
    for whole in &*WHOLE {
        let der = whole.trust.certificates()[0].der();
        let spki = whole.key.public_key();
        let at = der.windows(spki.len()).position(|window| window == spki).expect("it is in there");
        for at in at..at + spki.len() {
            for bit in 0..8 {
                let mut changed = der.to_vec();
                changed[at] ^= 1 << bit;
                let Ok(parsed) = Certificate::from_der(&changed) else { continue };
                let verified = cms::verify(&whole.der, &statement(), &Trust::new(vec![parsed])).is_ok();
                assert!(!verified, "bit {bit} of byte {at} of {}", der.len());
            }
        }
    }
}

/// `ECDSA-Sig-Value` (RFC 3279, 2.2.3).
#[derive(der::Sequence)]
struct EcdsaValue {
    r: Uint,
    s: Uint,
}

/// The order of P-256 (SEC 2, 2.4.2).
const ORDER: [u8; 32] = *b"\xff\xff\xff\xff\0\0\0\0\xff\xff\xff\xff\xff\xff\xff\xff\
    \xbc\xe6\xfa\xad\xa7\x17\x9e\x84\xf3\xb9\xca\xc2\xfc\x63\x25\x51";

/// `ORDER - s`.
fn negated(s: &Uint) -> Uint {
    let mut wide = [0; 32];
    wide[32 - s.as_bytes().len()..].copy_from_slice(s.as_bytes());
    let mut borrow = false;
    for (byte, order) in wide.iter_mut().zip(ORDER).rev() {
        let (difference, first) = order.overflowing_sub(*byte);
        let (difference, second) = difference.overflowing_sub(u8::from(borrow));
        (*byte, borrow) = (difference, first || second);
    }
    Uint::new(&wide).expect("a number")
}

/// What docs/formats.md says of ECDSA. If this fails because verifiers have become stricter, change the document.
#[test]
fn an_ecdsa_value_has_a_twin_that_counts_too() {
    let p256 = &WHOLE[1];
    let twin = rewritten(&p256.der, |signer| {
        let value = EcdsaValue::from_der(signer.signature.as_bytes()).expect("two numbers");
        let twin = EcdsaValue { s: negated(&value.s), r: value.r };
        signer.signature = OctetString::new(twin.to_der().expect("encode")).expect("short");
    });
    assert_ne!(twin, p256.der);
    assert!(cms::verify(&twin, &statement(), &p256.trust).is_ok());
    assert!(cms::verify(&twin, &Statement::new(Kind::File, Digest::of(b"else")), &p256.trust).is_err());
}

/// What is done to bytes: some are overwritten, some inserted, some taken out.
#[derive(Clone, Debug)]
enum Damage {
    Set(prop::sample::Index, u8),
    Insert(prop::sample::Index, Vec<u8>),
    Remove(prop::sample::Index, usize),
}

fn damage() -> impl Strategy<Value = Vec<Damage>> {
    let one = prop_oneof![
        4 => (any::<prop::sample::Index>(), any::<u8>()).prop_map(|(at, byte)| Damage::Set(at, byte)),
        1 => (any::<prop::sample::Index>(), prop::collection::vec(any::<u8>(), 1..9))
            .prop_map(|(at, bytes)| Damage::Insert(at, bytes)),
        1 => (any::<prop::sample::Index>(), 1_usize..40).prop_map(|(at, count)| Damage::Remove(at, count)),
    ];
    prop::collection::vec(one, 1..6)
}

fn apply(bytes: &[u8], damages: Vec<Damage>) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    for damage in damages {
        match damage {
            Damage::Set(at, byte) if !bytes.is_empty() => {
                let at = at.index(bytes.len());
                bytes[at] = byte;
            }
            Damage::Insert(at, new) => {
                let at = at.index(bytes.len() + 1);
                bytes.splice(at..at, new);
            }
            Damage::Remove(at, count) => {
                let at = at.index(bytes.len() + 1);
                bytes.drain(at..bytes.len().min(at + count));
            }
            Damage::Set(..) => {}
        }
    }
    bytes
}

/// A signature as `::cms` reads it, changed and written again.
fn rewritten(der: &[u8], change: impl FnOnce(&mut SignerInfo)) -> Vec<u8> {
    let content = ContentInfo::from_der(der).expect("CMS");
    let mut data: SignedData = content.content.decode_as().expect("SignedData");
    let mut signers = data.signer_infos.0.into_vec();
    change(&mut signers[0]);
    data.signer_infos = SignerInfos(signers.try_into().expect("one"));
    let content = Any::encode_from(&data).expect("encode");
    ContentInfo { content_type: rfc5911::ID_SIGNED_DATA, content }.to_der().expect("encode")
}

#[test]
fn a_right_value_under_another_algorithms_name_does_not_count() {
    let [rsa, p256, _] = &WHOLE[..] else { panic!("expected three") };
    assert_eq!(rewritten(&rsa.der, |_| ()), rsa.der);
    let name_ecdsa = AlgorithmIdentifierOwned { oid: rfc5912::ECDSA_WITH_SHA_256, parameters: None };
    let name_rsa = AlgorithmIdentifierOwned { oid: rfc5912::RSA_ENCRYPTION, parameters: Some(Any::null()) };
    for (whole, name) in [(rsa, name_ecdsa), (p256, name_rsa)] {
        let renamed = rewritten(&whole.der, |signer| signer.signature_algorithm = name);
        assert!(SignatureInfo::parse(&renamed).is_ok(), "it is well-formed");
        assert!(cms::verify(&renamed, &statement(), &whole.trust).is_err());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn damaged_signatures_never_verify(which in 0_usize..3, damages in damage()) {
        let whole = &WHOLE[which];
        let changed = apply(&whole.der, damages);
        let _ = SignatureInfo::parse(&changed);
        prop_assert_eq!(cms::verify(&changed, &statement(), &whole.trust).is_ok(), changed == whole.der);
    }

    #[test]
    fn signatures_that_parse_have_one_encoding(which in 0_usize..3, damages in damage(), other in damage()) {
        let changed = apply(&WHOLE[which].der, damages);
        let again = apply(&changed, other);
        if let (Ok(one), Ok(two)) = (SignatureInfo::parse(&changed), SignatureInfo::parse(&again)) {
            prop_assert_eq!(one == two, changed == again);
        }
    }

    #[test]
    fn damaged_certificates_never_panic(which in 0_usize..3, damages in damage(), pem in any::<bool>()) {
        let certificate = &WHOLE[which].trust.certificates()[0];
        let original = if pem { certificate.to_pem().into_bytes() } else { certificate.der().to_vec() };
        let changed = apply(&original, damages);
        if pem {
            let _ = Certificate::from_pem_many(&changed);
        } else if let Ok(parsed) = Certificate::from_der(&changed) {
            prop_assert_eq!(parsed.der(), &changed[..]);
            // One that was not made by us still cannot speak for another key.
            let verified = cms::verify(&WHOLE[which].der, &statement(), &Trust::new(vec![parsed.clone()])).is_ok();
            prop_assert!(!verified || parsed.matches(&WHOLE[which].key));
        }
    }

    #[test]
    fn damaged_statements_decode_to_themselves(damages in damage()) {
        let changed = apply(&statement().encode(), damages);
        if let Ok(decoded) = Statement::decode(&changed) {
            prop_assert_eq!(&decoded.encode()[..], &changed[..]);
        }
    }
}

proptest! {
    // RSA keys are checked when they are read, which takes a while.
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn damaged_keys_never_panic(which in 0_usize..3, damages in damage(), encrypted in any::<bool>()) {
        static PEMS: LazyLock<Vec<[String; 2]>> = LazyLock::new(|| {
            WHOLE
                .iter()
                .map(|whole| [None, Some(&b"word"[..])].map(|word| whole.key.to_pem(word).expect("encode").to_string()))
                .collect()
        });
        let changed = apply(PEMS[which][usize::from(encrypted)].as_bytes(), damages);
        if let Ok(key) = PrivateKey::from_pem(&changed, Some(b"word")) {
            prop_assert!(key.sign(b"message").is_ok());
        }
    }
}
