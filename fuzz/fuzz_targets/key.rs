// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Private keys: what is read can be written and read again, and what it signs verifies.
//!
//! The first byte says how the rest is put into PEM, so that the fuzzer changes DER and not base64.
#![no_main]

use der::pem::{LineEnding, encode_string};
use libfuzzer_sys::fuzz_target;
use pkcs8::pkcs5::EncryptionScheme;
use pkcs8::pkcs5::pbes2::{Kdf, Parameters};
use pkcs8::pkcs5::scrypt;
use pkcs8::{EncryptedPrivateKeyInfoRef, PrivateKeyInfoRef, SecretDocument};
use touchmark_fuzz::seeds;
use touchmark_sign::certificate::{Certificate, Trust};
use touchmark_sign::cms;
use touchmark_sign::digest::Digest;
use touchmark_sign::key::{KeyAlgorithm, PrivateKey, Signer};
use touchmark_sign::statement::{Kind, Statement};

const LABELS: [&str; 4] = ["PRIVATE KEY", "ENCRYPTED PRIVATE KEY", "RSA PRIVATE KEY", "EC PRIVATE KEY"];
const PASSPHRASE: &[u8] = b"fuzz";
/// The dearest passphrase hashing that is tried, in rounds or scrypt's N * r * p: more only takes longer.
const MAX_COST: u64 = 1 << 10;

fuzz_target!(init: seeds::plant(seeds), |data: &[u8]| {
    let Some((mode, rest)) = data.split_first() else { return };
    let pem = match LABELS.get(usize::from(*mode)) {
        Some(label) => encode_string(label, LineEnding::LF, rest).expect("anything can be PEM").into_bytes(),
        None => rest.to_vec(),
    };
    if let Ok(key) = PrivateKey::from_pem(&pem, None) {
        check(&key);
    }
    if is_cheap(&pem) {
        if let Ok(key) = PrivateKey::from_pem(&pem, Some(PASSPHRASE)) {
            check(&key);
        }
    }
});

fn check(key: &PrivateKey) {
    let again = key.to_pem(None).expect("it can be written");
    let again = PrivateKey::from_pem(again.as_bytes(), None).expect("what was written can be read");
    assert_eq!((again.algorithm(), again.public_key()), (key.algorithm(), key.public_key()));
    // A key with numbers that do not fit together may refuse to sign, but what it signs is right.
    let Ok(certificate) = Certificate::self_signed(key, "fuzz") else { return };
    assert!(certificate.matches(&again));
    let statement = Statement::new(Kind::File, Digest::of(b"fuzz"));
    let der = cms::sign(&statement, &again, &certificate).expect("it signed before");
    assert!(der.len() <= cms::max_len(&certificate).expect("a length"));
    cms::verify(&der, &statement, &Trust::new(vec![certificate])).expect("its own signature verifies");
}

/// Whether the passphrase is hashed in no time, or not at all.
fn is_cheap(pem: &[u8]) -> bool {
    let text = String::from_utf8_lossy(pem);
    let Some(at) = text.find("-----BEGIN ENCRYPTED PRIVATE KEY") else { return true };
    let end = "-----END ENCRYPTED PRIVATE KEY-----";
    let Some(len) = text[at..].find(end) else { return true };
    let Ok((_, document)) = SecretDocument::from_pem(&text[at..at + len + end.len()]) else { return false };
    let Ok(info) = EncryptedPrivateKeyInfoRef::try_from(document.as_bytes()) else { return true };
    match &info.encryption_algorithm {
        EncryptionScheme::Pbes2(Parameters { kdf: Kdf::Pbkdf2(kdf), .. }) => u64::from(kdf.iteration_count) <= MAX_COST,
        EncryptionScheme::Pbes2(Parameters { kdf: Kdf::Scrypt(kdf), .. }) => {
            let blocks = u64::from(kdf.block_size) * u64::from(kdf.parallelization);
            kdf.cost_parameter.saturating_mul(blocks) <= MAX_COST && blocks <= MAX_COST
        }
        _ => true,
    }
}

fn seeds() -> Vec<Vec<u8>> {
    let mut seeds = Vec::new();
    let mut add = |mode: u8, bytes: &[u8]| seeds.push([&[mode], bytes].concat());
    for algorithm in [KeyAlgorithm::Rsa2048, KeyAlgorithm::EcdsaP256, KeyAlgorithm::EcdsaP384] {
        let pem = PrivateKey::generate(algorithm).and_then(|key| key.to_pem(None)).expect("a key");
        let (_, der) = SecretDocument::from_pem(&pem).expect("PEM");
        let info = PrivateKeyInfoRef::try_from(der.as_bytes()).expect("PKCS#8");
        add(0, der.as_bytes());
        add(if algorithm == KeyAlgorithm::Rsa2048 { 2 } else { 3 }, info.private_key.as_bytes());
        add(0xff, pem.as_bytes());
        let cheap = scrypt::Params::new(2, 1, 1).expect("cheap");
        let scrypt = Parameters::generate_scrypt_aes256cbc(cheap, b"salt", [1; 16]);
        let pbkdf2 = Parameters::generate_pbkdf2_sha256_aes256cbc(2, b"salt", [1; 16]);
        for parameters in [scrypt, pbkdf2] {
            let encrypted = info.encrypt_with_params(parameters.expect("valid"), PASSPHRASE).expect("encrypts");
            add(1, encrypted.as_bytes());
            let pem = encrypted.to_pem(LABELS[1], LineEnding::LF).expect("PEM");
            add(0xff, pem.as_bytes());
        }
    }
    seeds
}
