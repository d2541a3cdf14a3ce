// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `touchmark key`, and keys that openssl made.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod common;

use std::fs;
use std::os::unix::fs::PermissionsExt;

use common::{Workshop, code, expect_code, run, skip, stderr, text, touchmark};

fn mode(path: &std::path::Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn a_key_is_for_its_owner_alone_and_is_never_overwritten() {
    let workshop = Workshop::new();
    assert_eq!(mode(&workshop.path("keys")), 0o700);
    assert_eq!(mode(&workshop.path("keys/key.pem")), 0o600);
    let before = fs::read(workshop.path("keys/key.pem")).unwrap();
    for missing in [None, Some("keys/cert.pem")] {
        if let Some(name) = missing {
            fs::remove_file(workshop.path(name)).unwrap();
        }
        let again = touchmark(["key", "generate", "--out", text(&workshop.path("keys"))]);
        expect_code(&again, 3);
        assert!(stderr(&again).contains("is there already; nothing was changed"), "{}", stderr(&again));
    }
    assert_eq!(fs::read(workshop.path("keys/key.pem")).unwrap(), before);
    assert!(!workshop.path("keys/cert.pem").exists());
}

#[test]
fn every_algorithm_signs_and_verifies() {
    for algorithm in ["rsa2048", "rsa3072", "rsa4096", "ecdsa-p256", "ecdsa-p384"] {
        let workshop = Workshop::with_key(algorithm);
        let program = workshop.copy("/bin/true", "true");
        expect_code(&workshop.sign([&program]), 0);
        assert_eq!(workshop.status(&program), "valid", "{algorithm}");
    }
    let unknown = touchmark(["key", "generate", "--out", "/nowhere", "--algorithm", "dsa"]);
    expect_code(&unknown, 2);
    assert!(stderr(&unknown).contains("expected one of rsa2048"), "{}", stderr(&unknown));
}

#[test]
fn an_encrypted_key_needs_its_passphrase() {
    let workshop = Workshop::new();
    let (good, bad, empty) = (workshop.path("good"), workshop.path("bad"), workshop.path("empty"));
    fs::write(&good, "correct horse\nsecond line").unwrap();
    fs::write(&bad, "wrong").unwrap();
    fs::write(&empty, "\n").unwrap();
    let folder = workshop.path("secret");
    let made = touchmark([
        "key",
        "generate",
        "--algorithm",
        "ecdsa-p384",
        "--name",
        "Änne",
        "--passphrase-file",
        text(&good),
        "--out",
        text(&folder),
    ]);
    expect_code(&made, 0);
    assert!(fs::read_to_string(folder.join("key.pem")).unwrap().starts_with("-----BEGIN ENCRYPTED PRIVATE KEY"));
    let file = workshop.write("f", "text");
    let (key, cert) = (folder.join("key.pem"), folder.join("cert.pem"));
    let sign = |more: &[&str]| {
        touchmark([&["sign", "--key", text(&key), "--cert", text(&cert)], more, &[text(&file)]].concat())
    };
    for (more, message) in [
        (&[][..], "is encrypted: expected --passphrase-file FILE"),
        (&["--passphrase-file", text(&bad)], "the passphrase does not open the private key"),
        (&["--passphrase-file", text(&empty)], "expected a passphrase in the first line"),
    ] {
        let output = sign(more);
        expect_code(&output, 3);
        assert!(stderr(&output).contains(message), "{}", stderr(&output));
    }
    expect_code(&sign(&["--passphrase-file", text(&good)]), 0);
}

#[test]
fn keys_of_openssl_work() {
    let workshop = Workshop::new();
    let file = workshop.write("f", "text");
    let (key, cert) = (workshop.path("k.pem"), workshop.path("c.pem"));
    for kind in [&["-newkey", "rsa:3072"][..], &["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"]] {
        let request =
            ["req", "-x509", "-nodes", "-subj", "/O=Firm/CN=openssl key", "-keyout", text(&key), "-out", text(&cert)];
        let Some(made) = run("openssl", &[&request[..], kind].concat()) else {
            return skip("keys of openssl: it is not installed");
        };
        assert!(made.status.success(), "{made:?}");
        let sign = touchmark(["sign", "--key", text(&key), "--cert", text(&cert), text(&file)]);
        expect_code(&sign, 0);
        let verify = touchmark(["verify", "-v", "--cert", text(&cert), text(&file)]);
        expect_code(&verify, 0);
        assert!(String::from_utf8_lossy(&verify.stdout).contains("CN=openssl key"), "{verify:?}");
    }
}

#[test]
fn key_and_certificate_must_fit() {
    let (one, other) = (Workshop::new(), Workshop::new());
    let file = one.write("f", "text");
    let sign = touchmark([
        "sign",
        "--key",
        text(&one.path("keys/key.pem")),
        "--cert",
        text(&other.path("keys/cert.pem")),
        text(&file),
    ]);
    expect_code(&sign, 3);
    assert!(stderr(&sign).contains("found one for another key"), "{}", stderr(&sign));
    assert_eq!(one.status(&file), "unsigned");
}

#[test]
fn a_key_that_others_can_read_is_pointed_out() {
    let workshop = Workshop::new();
    let file = workshop.write("f", "text");
    assert!(!stderr(&workshop.sign([&file])).contains("warning"));
    fs::set_permissions(workshop.path("keys/key.pem"), PermissionsExt::from_mode(0o644)).unwrap();
    let sign = workshop.sign([&file]);
    assert!(code(&sign) == 0 && stderr(&sign).contains("warning: others can read the key"), "{}", stderr(&sign));
}

#[test]
fn what_is_no_key_is_refused() {
    let workshop = Workshop::new();
    let file = workshop.write("f", "text");
    let cert = workshop.path("keys/cert.pem");
    for (key, message) in [(cert.clone(), "expected a private key in PEM"), (workshop.path("none"), "cannot read")] {
        let sign = touchmark(["sign", "--key", text(&key), "--cert", text(&cert), text(&file)]);
        expect_code(&sign, 3);
        assert!(stderr(&sign).contains(message), "{}", stderr(&sign));
    }
}
