// SPDX-License-Identifier: Apache-2.0 OR MIT
//! PEM files as they lie around: text beside the blocks, several blocks, and every encryption that openssl offers.

use std::fs;
use std::path::Path;
use std::process::Command;

use tempfile::TempDir;
use touchmark_sign::certificate::Certificate;
use touchmark_sign::key::{KeyAlgorithm, KeyError, PrivateKey, Signer};

fn openssl(folder: &Path, arguments: &str) -> String {
    let output = Command::new("openssl")
        .args(arguments.split_whitespace())
        .current_dir(folder)
        .output()
        .expect("openssl is installed");
    assert!(output.status.success(), "openssl {arguments}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}

/// A folder with `key.pem`, and the key.
fn folder_with_key() -> (TempDir, PrivateKey) {
    let folder = TempDir::new().expect("folder");
    let key = PrivateKey::generate(KeyAlgorithm::EcdsaP256).expect("generate");
    fs::write(folder.path().join("key.pem"), key.to_pem(None).expect("encode")).expect("write");
    (folder, key)
}

#[test]
fn usual_encryptions_open_and_others_are_named() {
    let (folder, key) = folder_with_key();
    let encrypt = |options: &str| {
        openssl(folder.path(), &format!("pkcs8 -topk8 -in key.pem {options} -passout pass:word -out other.pem"));
        fs::read(folder.path().join("other.pem")).expect("read")
    };
    for options in ["", "-v2 aes-128-cbc", "-v2 aes-192-cbc -v2prf hmacWithSHA512", "-iter 600000", "-scrypt"] {
        let pem = encrypt(options);
        let opened = PrivateKey::from_pem(&pem, Some(b"word")).expect(options);
        assert_eq!(opened.public_key(), key.public_key(), "{options}");
        assert_eq!(PrivateKey::from_pem(&pem, None).expect_err(options), KeyError::PassphraseNeeded);
        assert_eq!(PrivateKey::from_pem(&pem, Some(b"Word")).expect_err(options), KeyError::WrongPassphrase);
    }
    for options in ["-v2 des3", "-v1 PBE-SHA1-3DES", "-v2 aes-256-cbc -v2prf hmacWithSHA1", "-iter 10000001"] {
        let error = PrivateKey::from_pem(&encrypt(options), Some(b"word")).expect_err(options);
        assert!(matches!(error, KeyError::Encryption(_)), "{options}: {error}");
        assert!(error.to_string().contains("openssl pkcs8 -topk8"), "{options}: {error}");
    }
}

#[test]
fn openssls_old_encryption_is_named() {
    let (folder, _) = folder_with_key();
    openssl(folder.path(), "ec -in key.pem -aes128 -passout pass:word -out other.pem");
    let pem = fs::read(folder.path().join("other.pem")).expect("read");
    assert_eq!(PrivateKey::from_pem(&pem, Some(b"word")).expect_err("old"), KeyError::LegacyEncryption);
}

#[test]
fn text_and_other_blocks_around_are_passed_over() {
    let (folder, key) = folder_with_key();
    openssl(folder.path(), "req -x509 -new -key key.pem -subj /CN=tester -out cert.pem");
    openssl(folder.path(), "ecparam -name prime256v1 -out parameters.pem");
    let read = |name| fs::read_to_string(folder.path().join(name)).expect("read");
    let (cert, plain) = (read("cert.pem"), read("key.pem"));
    let with_text = openssl(folder.path(), "x509 -in cert.pem -text");
    let one = Certificate::from_pem(cert.as_bytes()).expect("plain");
    for (text, count) in [
        (with_text, 1),
        (cert.replace('\n', "\r\n"), 1),
        (format!("{cert}written by hand\n"), 1),
        (format!("{cert} \n\t\n"), 1),
        (format!("{plain}{cert}"), 1),
        (format!("{cert}{plain}"), 1),
        (format!("# one\n{cert}\n# two\n{cert}"), 2),
    ] {
        assert_eq!(Certificate::from_pem_many(text.as_bytes()).expect(&text), vec![one.clone(); count], "{text}");
    }
    let latin1 = [&b"Schl\xfcssel\n"[..], cert.as_bytes()].concat();
    assert!(Certificate::from_pem(&latin1).is_ok());
    for text in [
        format!("{}{plain}", read("parameters.pem")),
        format!("{cert}{plain}"),
        format!("{plain}{cert}"),
        plain.replace('\n', "\r\n"),
    ] {
        let opened = PrivateKey::from_pem(text.as_bytes(), None).expect(&text);
        assert_eq!(opened.public_key(), key.public_key());
    }
    // A bundle that was cut off must not pass for a shorter one.
    let cut = format!("{cert}{}", &cert[..cert.len() / 2]);
    assert!(Certificate::from_pem_many(cut.as_bytes()).expect_err("cut").to_string().contains("END CERTIFICATE"));
}

#[test]
fn certificates_that_the_kernel_would_not_take_are_named() {
    let (folder, _) = folder_with_key();
    for (form, expected) in [
        ("-conv_form compressed", "not uncompressed"),
        ("-conv_form hybrid", "not uncompressed"),
        ("-param_enc explicit", "another curve"),
    ] {
        openssl(folder.path(), &format!("ec -in key.pem {form} -out other.pem"));
        openssl(folder.path(), "req -x509 -new -key other.pem -subj /CN=tester -out cert.pem");
        let error = Certificate::from_pem(&fs::read(folder.path().join("cert.pem")).expect("read")).expect_err(form);
        assert!(error.to_string().contains(expected), "{form}: {error}");
    }
}

#[test]
fn fingerprints_are_openssls() {
    let (folder, _) = folder_with_key();
    openssl(folder.path(), "req -x509 -new -key key.pem -subj /CN=tester -out cert.pem");
    let ours = Certificate::from_pem(&fs::read(folder.path().join("cert.pem")).expect("read")).expect("parse");
    let theirs = openssl(folder.path(), "x509 -in cert.pem -noout -fingerprint -sha256");
    let theirs = theirs.trim().rsplit('=').next().expect("hex").replace(':', "").to_lowercase();
    assert_eq!(ours.fingerprint().to_string(), theirs);
}
