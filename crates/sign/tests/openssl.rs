// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Keys, certificates and signatures against the system's `openssl`.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use tempfile::TempDir;
use touchmark_sign::certificate::{Certificate, Trust};
use touchmark_sign::cms::{self, SignatureInfo, VerifyError};
use touchmark_sign::digest::Digest;
use touchmark_sign::key::{KeyAlgorithm, KeyError, PrivateKey, Signer};
use touchmark_sign::statement::{Kind, Statement};

fn openssl(folder: &Path, arguments: &str) -> Output {
    Command::new("openssl")
        .args(arguments.split_whitespace())
        .current_dir(folder)
        .output()
        .expect("openssl is installed")
}

fn openssl_ok(folder: &Path, arguments: &str) {
    let output = openssl(folder, arguments);
    assert!(output.status.success(), "openssl {arguments}: {}", String::from_utf8_lossy(&output.stderr));
}

fn statement() -> Statement {
    Statement::new(Kind::File, Digest::of(b"content"))
}

fn identity(algorithm: KeyAlgorithm) -> (PrivateKey, Certificate) {
    let key = PrivateKey::generate(algorithm).expect("generate");
    let certificate = Certificate::self_signed(&key, "Schlüssel of a test").expect("certificate");
    (key, certificate)
}

/// How openssl makes the same key and how it must sign.
fn openssl_names(algorithm: KeyAlgorithm) -> (&'static str, &'static str) {
    match algorithm {
        KeyAlgorithm::Rsa2048 => ("rsa:2048", "sha256"),
        KeyAlgorithm::Rsa3072 => ("rsa:3072", "sha256"),
        KeyAlgorithm::Rsa4096 => ("rsa:4096", "sha256"),
        KeyAlgorithm::EcdsaP256 => ("ec -pkeyopt ec_paramgen_curve:P-256", "sha256"),
        KeyAlgorithm::EcdsaP384 => ("ec -pkeyopt ec_paramgen_curve:P-384", "sha384"),
    }
}

#[test]
fn openssl_verifies_ours() {
    for algorithm in KeyAlgorithm::ALL {
        let folder = TempDir::new().expect("folder");
        let (key, certificate) = identity(algorithm);
        let der = cms::sign(&statement(), &key, &certificate).expect("sign");
        assert!(der.len() <= cms::max_len(&certificate).expect("length"), "{algorithm}");
        fs::write(folder.path().join("cert.pem"), certificate.to_pem()).expect("write");
        fs::write(folder.path().join("signature.der"), der).expect("write");
        let verify = "cms -verify -binary -inform DER -in signature.der -content statement -certfile cert.pem \
                      -nointern -noverify -out /dev/null";
        fs::write(folder.path().join("statement"), statement().encode()).expect("write");
        openssl_ok(folder.path(), verify);
        fs::write(folder.path().join("statement"), b"something else").expect("write");
        assert!(!openssl(folder.path(), verify).status.success(), "{algorithm}");
        openssl_ok(folder.path(), "verify -CAfile cert.pem -check_ss_sig cert.pem");
    }
}

#[test]
fn ours_verifies_openssls() {
    for algorithm in KeyAlgorithm::ALL {
        let folder = TempDir::new().expect("folder");
        let (key, digest) = openssl_names(algorithm);
        openssl_ok(
            folder.path(),
            &format!("req -x509 -newkey {key} -nodes -keyout key.pem -out cert.pem -subj /O=Example/CN=tester"),
        );
        fs::write(folder.path().join("statement"), statement().encode()).expect("write");
        openssl_ok(
            folder.path(),
            &format!(
                "cms -sign -binary -noattr -nocerts -nosmimecap -md {digest} -signer cert.pem -inkey key.pem -in statement -outform DER -out signature.der"
            ),
        );
        let certificate =
            Certificate::from_pem(&fs::read(folder.path().join("cert.pem")).expect("read")).expect("parse");
        let der = fs::read(folder.path().join("signature.der")).expect("read");
        let trust = Trust::new(vec![certificate.clone()]);
        assert_eq!(cms::verify(&der, &statement(), &trust), Ok(&certificate), "{algorithm}");
        let key = PrivateKey::from_pem(&fs::read(folder.path().join("key.pem")).expect("read"), None).expect("parse");
        assert_eq!(key.algorithm(), algorithm);
        assert!(certificate.matches(&key));
    }
}

#[test]
fn signatures_with_attributes_or_certificates_are_refused() {
    let folder = TempDir::new().expect("folder");
    openssl_ok(folder.path(), "req -x509 -newkey rsa:2048 -nodes -keyout key.pem -out cert.pem -subj /CN=tester");
    fs::write(folder.path().join("statement"), statement().encode()).expect("write");
    for options in
        ["-nocerts", "-noattr", "-noattr -nocerts -nodetach", "-noattr -nocerts -keyid", "-noattr -nocerts -md sha1"]
    {
        openssl_ok(
            folder.path(),
            &format!(
                "cms -sign -binary {options} -signer cert.pem -inkey key.pem -in statement -outform DER -out signature.der"
            ),
        );
        let der = fs::read(folder.path().join("signature.der")).expect("read");
        assert!(SignatureInfo::parse(&der).is_err(), "{options}");
    }
}

#[test]
fn every_flipped_byte_of_a_signature_is_noticed() {
    for algorithm in [KeyAlgorithm::Rsa2048, KeyAlgorithm::EcdsaP256, KeyAlgorithm::EcdsaP384] {
        let (key, certificate) = identity(algorithm);
        let trust = Trust::new(vec![certificate.clone()]);
        let der = cms::sign(&statement(), &key, &certificate).expect("sign");
        assert!(cms::verify(&der, &statement(), &trust).is_ok());
        for at in 0..der.len() {
            for bit in 0..8 {
                let mut changed = der.clone();
                changed[at] ^= 1 << bit;
                assert!(cms::verify(&changed, &statement(), &trust).is_err(), "{algorithm}: bit {bit} of byte {at}");
            }
        }
        for len in 0..der.len() {
            assert!(cms::verify(&der[..len], &statement(), &trust).is_err());
        }
        assert!(cms::verify(&[&der[..], b"\0"].concat(), &statement(), &trust).is_err());
    }
}

#[test]
fn errors_tell_unknown_signers_from_changed_content() {
    let (key, certificate) = identity(KeyAlgorithm::EcdsaP256);
    let (_, stranger) = identity(KeyAlgorithm::EcdsaP256);
    let der = cms::sign(&statement(), &key, &certificate).expect("sign");
    let unknown = cms::verify(&der, &statement(), &Trust::new(vec![stranger.clone()])).expect_err("not trusted");
    assert!(matches!(&unknown, VerifyError::UnknownSigner(who) if who.contains("Schlüssel")), "{unknown}");
    let other = Statement::new(Kind::Manifest, statement().digest);
    let trust = Trust::new(vec![stranger.clone(), certificate]);
    assert!(matches!(cms::verify(&der, &other, &trust), Err(VerifyError::WrongContent(_))));
    assert!(cms::sign(&statement(), &key, &stranger).is_err());
}

#[test]
fn keys_travel_both_ways() {
    for algorithm in KeyAlgorithm::ALL {
        let folder = TempDir::new().expect("folder");
        let key = PrivateKey::generate(algorithm).expect("generate");
        fs::write(folder.path().join("ours.pem"), key.to_pem(Some(b"pass word")).expect("encode")).expect("write");
        fs::write(folder.path().join("pass"), "pass word\n").expect("write");
        openssl_ok(folder.path(), "pkey -in ours.pem -passin file:pass -out plain.pem");
        openssl_ok(folder.path(), "pkcs8 -topk8 -in plain.pem -v2 aes-256-cbc -passout file:pass -out theirs.pem");
        openssl_ok(folder.path(), "pkey -in plain.pem -traditional -out traditional.pem");
        let read = |name: &str, passphrase: Option<&[u8]>| {
            PrivateKey::from_pem(&fs::read(folder.path().join(name)).expect("read"), passphrase)
        };
        for (name, passphrase) in [
            ("plain.pem", None),
            ("theirs.pem", Some(&b"pass word"[..])),
            ("traditional.pem", None),
            ("ours.pem", Some(b"pass word")),
        ] {
            assert_eq!(read(name, passphrase).expect(name).public_key(), key.public_key(), "{algorithm} {name}");
        }
        assert_eq!(read("ours.pem", None).expect_err("encrypted"), KeyError::PassphraseNeeded);
        assert_eq!(read("theirs.pem", Some(b"wrong")).expect_err("encrypted"), KeyError::WrongPassphrase);
    }
}

#[test]
fn weak_and_foreign_keys_are_refused_by_name() {
    let folder = TempDir::new().expect("folder");
    for (make, expected) in [
        ("genpkey -algorithm RSA -pkeyopt rsa_keygen_bits:1024 -out key.pem", "RSA"),
        ("genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-521 -out key.pem", "another curve"),
        ("genpkey -algorithm ED25519 -out key.pem", "type"),
    ] {
        openssl_ok(folder.path(), make);
        let error =
            PrivateKey::from_pem(&fs::read(folder.path().join("key.pem")).expect("read"), None).expect_err(make);
        assert!(error.to_string().contains(expected), "{make}: {error}");
    }
    assert!(PrivateKey::from_pem(b"hello", None).is_err());
    assert!(PrivateKey::from_pem(b"-----BEGIN PRIVATE KEY-----\n", None).is_err());
    assert!(Certificate::from_pem(b"").is_err());
}
