// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A certificate is the same however it is read, and its DER stays as it was.
#![no_main]

use std::sync::LazyLock;

use der::pem::{LineEnding, encode_string};
use libfuzzer_sys::fuzz_target;
use touchmark_fuzz::identity::Identity;
use touchmark_fuzz::seeds;
use touchmark_sign::certificate::Certificate;
use touchmark_sign::cms::max_len;
use touchmark_sign::digest::Digest;
use touchmark_sign::key::KeyAlgorithm;

static STRANGER: LazyLock<Identity> = LazyLock::new(|| Identity::new(KeyAlgorithm::EcdsaP256));

fn check(certificate: &Certificate) {
    assert_eq!(Certificate::from_der(certificate.der()).as_ref(), Ok(certificate));
    assert_eq!(Certificate::from_pem(certificate.to_pem().as_bytes()).as_ref(), Ok(certificate));
    assert_eq!(certificate.fingerprint(), Digest::of(certificate.der()));
    assert!(max_len(certificate).expect("a length") > certificate.algorithm().max_signature_len());
    assert!(!certificate.matches(&STRANGER.key));
    let _ = certificate.subject();
}

fuzz_target!(
    init: seeds::plant(|| {
        let all = KeyAlgorithm::ALL.map(|algorithm| Identity::new(algorithm).certificate().clone());
        let mut seeds: Vec<Vec<u8>> = all.iter().map(|certificate| certificate.der().to_vec()).collect();
        seeds.push(format!("{}{}", all[3].to_pem(), all[4].to_pem()).into_bytes());
        seeds
    }),
    |data: &[u8]| {
        let as_der = Certificate::from_der(data);
        if let Ok(certificate) = &as_der {
            assert_eq!(certificate.der(), data);
            check(certificate);
        }
        let pem = encode_string("CERTIFICATE", LineEnding::LF, data).expect("anything can be PEM");
        assert_eq!(Certificate::from_pem(pem.as_bytes()).ok(), as_der.ok());
        if let Ok(certificates) = Certificate::from_pem_many(data) {
            assert!(!certificates.is_empty());
            certificates.iter().for_each(check);
        }
    }
);
