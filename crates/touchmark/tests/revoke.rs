// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `touchmark revoke --out`, `inspect` and `verify --revocations`: what needs no root. The rest is tried in the virtual
//! machines (`tests/vm/src/guest/revoke.rs`).

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod common;

use std::fs;
use std::path::{Path, PathBuf};

use common::{Workshop, expect_code, objects, stderr, text, touchmark, word};

/// Revokes with this workshop's key; the list.
fn revoke(workshop: &Workshop, what: &[&str], expected: i32) -> (PathBuf, String) {
    let list = workshop.path("list");
    let (key, cert) = (workshop.path("keys/key.pem"), workshop.path("keys/cert.pem"));
    let place = ["revoke", "--key", text(&key), "--cert", text(&cert), "--out", text(&list)];
    let output = touchmark(place.iter().chain(what));
    expect_code(&output, expected);
    (list, stderr(&output))
}

/// Status and reason that `verify` gives one file under the list.
fn judged(workshop: &Workshop, file: &Path) -> (String, String) {
    let list = workshop.path("list");
    let (_, found) = workshop.verify(["--revocations", text(&list), text(file)]);
    (word(&found[0], "status"), word(&found[0], "reason"))
}

fn ids(file: &Path) -> Vec<String> {
    let inspected = touchmark(["inspect", "--json", text(file)]);
    objects(&inspected)[0]["signatures"].as_array().unwrap().iter().map(|line| word(line, "id")).collect()
}

#[test]
fn a_revoked_file_is_named_and_its_reason_too() {
    let workshop = Workshop::new();
    let (bad, good) = (workshop.copy("/bin/true", "bad"), workshop.copy("/bin/ls", "good"));
    let unsigned = workshop.write("unsigned", "text");
    expect_code(&workshop.sign([&bad, &good]), 0);
    revoke(&workshop, &["--file", text(&bad), "--file", text(&unsigned), "--reason", "a back door\nand more"], 0);
    let (status, reason) = judged(&workshop, &bad);
    assert_eq!(status, "revoked");
    assert!(reason.starts_with("revoked: file ") && reason.ends_with(": a back door\\u{a}and more"), "{reason}");
    assert_eq!(judged(&workshop, &unsigned).0, "revoked");
    assert_eq!(judged(&workshop, &good).0, "valid");
    // Nothing is revoked where no list says so.
    assert_eq!(workshop.status(&bad), "valid");
    let (cert, list) = (workshop.path("keys/cert.pem"), workshop.path("list"));
    let words = ["verify", "--cert", text(&cert), "--revocations", text(&list), text(&bad), text(&good)];
    let plain = touchmark(words);
    expect_code(&plain, 1);
    let said = String::from_utf8_lossy(&plain.stdout).into_owned();
    assert!(said.starts_with(&format!("{}: revoked: file ", text(&bad))) && said.lines().count() == 1, "{said}");
    assert!(stderr(&plain).contains("2 files: 1 valid, 1 revoked"), "{}", stderr(&plain));
}

#[test]
fn a_revoked_signature_falls_and_the_same_content_signed_anew_counts() {
    for algorithm in ["rsa2048", "ecdsa-p256", "ecdsa-p384"] {
        let workshop = Workshop::with_key(algorithm);
        let file = workshop.write("f", algorithm);
        expect_code(&workshop.sign([&file]), 0);
        let id = ids(&file).swap_remove(0);
        let der = workshop.path("der");
        expect_code(&touchmark(["extract", "--container=xattr", "--out", text(&der), text(&file)]), 0);
        for name in [text(&der), &id] {
            let (list, _) = revoke(&workshop, &["--signature", name, "--reason", "signed by mistake"], 0);
            let written = fs::read_to_string(list).unwrap();
            assert!(written.contains(&format!("\nsignature {id} reason signed by mistake\n")), "{written}");
        }
        let (status, reason) = judged(&workshop, &file);
        assert_eq!(status, "revoked");
        assert!(reason.starts_with("xattr: revoked: signature "), "{reason}");
        expect_code(&workshop.sign([&file]), 0);
        // RSA signatures of the same content are all the same.
        assert_eq!(judged(&workshop, &file).0, if algorithm == "rsa2048" { "revoked" } else { "valid" });
    }
}

#[test]
fn a_revoked_certificate_takes_with_it_what_is_not_signed_anew() {
    let (old, new) = (Workshop::new(), Workshop::new());
    let (lost, kept) = (old.copy("/bin/true", "lost"), old.copy("/bin/ls", "kept"));
    expect_code(&old.sign([&lost, &kept]), 0);
    expect_code(&new.sign([&kept]), 0);
    let certificates = [old.path("keys/cert.pem"), new.path("keys/cert.pem")];
    let (list, _) = revoke(&new, &["--certificate", text(&certificates[0]), "--reason", "stolen"], 0);
    let verified = touchmark([
        "verify",
        "--json",
        "--revocations",
        text(&list),
        "--cert",
        text(&certificates[0]),
        "--cert",
        text(&certificates[1]),
        text(&lost),
        text(&kept),
    ]);
    let found = objects(&verified);
    let of = |name: &str| found.iter().find(|object| word(object, "path").ends_with(name)).unwrap().clone();
    assert_eq!(word(&of("lost"), "status"), "revoked");
    let reason = word(&of("lost"), "reason");
    assert!(reason.contains("xattr: revoked: certificate ") && reason.contains("embedded: revoked: "), "{reason}");
    assert_eq!(word(&of("kept"), "status"), "valid");
    // A certificate does not vouch for the list that it is on.
    let (_, error) = revoke(&old, &["--certificate", text(&certificates[0]), "--reason", "stolen"], 3);
    assert!(error.contains("that it does not revoke"), "{error}");
}

#[test]
fn the_version_rises_and_entries_are_kept() {
    let workshop = Workshop::new();
    let digests = ["ab".repeat(32), "01".repeat(32)];
    revoke(&workshop, &["--digest", &digests[0], "--reason", "one"], 0);
    revoke(
        &workshop,
        &["--digest", &format!("fs-verity:{}", digests[1]), "--digest", &digests[1], "--reason", "two"],
        0,
    );
    revoke(&workshop, &["--digest", &digests[1], "--reason", "three"], 0);
    let (list, _) = revoke(&workshop, &["--renew"], 0);
    let written = fs::read_to_string(list).unwrap();
    let lines: Vec<_> = written.lines().take_while(|line| !line.starts_with('-')).collect();
    assert_eq!(lines[..2], ["touchmark revocation list 1", "version 4"]);
    let entries = [
        format!("file {} reason three", digests[1]),
        format!("file {} reason one", digests[0]),
        format!("fs-verity {} reason two", digests[1]),
    ];
    assert_eq!(lines[3..], entries);
}

#[test]
fn foreign_and_broken_lists_are_refused_and_left_alone() {
    let (workshop, other) = (Workshop::new(), Workshop::new());
    let digest = "ab".repeat(32);
    let (list, _) = revoke(&workshop, &["--digest", &digest, "--reason", "one"], 0);
    let file = workshop.write("f", "text");
    expect_code(&workshop.sign([&file]), 0);
    let cert = other.path("keys/cert.pem");
    let verified = touchmark(["verify", "--cert", text(&cert), "--revocations", text(&list), text(&file)]);
    expect_code(&verified, 3);
    assert!(stderr(&verified).contains("unknown key"), "{}", stderr(&verified));

    fs::copy(&list, other.path("list")).unwrap();
    let before = fs::read(&list).unwrap();
    let (_, error) = revoke(&other, &["--digest", &digest, "--reason", "x"], 3);
    assert!(error.contains("--trust FILE"), "{error}");
    assert_eq!(fs::read(other.path("list")).unwrap(), before);
    let first = workshop.path("keys/cert.pem");
    revoke(&other, &["--digest", &digest, "--reason", "x", "--trust", text(&first)], 0);

    fs::write(&list, String::from_utf8(before).unwrap().replace("one", "two")).unwrap();
    let (_, error) = revoke(&workshop, &["--renew"], 3);
    assert!(error.contains("not what was signed"), "{error}");
    fs::write(&list, "touchmark revocation list 1\n").unwrap();
    revoke(&workshop, &["--renew"], 3);
}

#[test]
fn wrong_usage_is_named() {
    let workshop = Workshop::new();
    let digest = "ab".repeat(32);
    for what in [
        &["--digest", &digest][..],
        &["--reason", "x"],
        &["--renew", "--reason", "x"],
        &[],
        &["--digest", "xyz", "--reason", "x"],
        &["--digest", &digest, "--reason", ""],
        &["--digest", &digest, "--reason", "x", "--list", "l"],
        &["--digest", &digest, "--reason", "x", "--stop"],
    ] {
        revoke(&workshop, what, 2);
    }
    expect_code(&touchmark(["revoke", "--digest", &digest, "--reason", "x"]), 2);
    let missing = workshop.path("missing");
    let (_, error) = revoke(&workshop, &["--file", text(&missing), "--reason", "x"], 3);
    assert!(error.contains("missing"), "{error}");
    let file = workshop.write("f", "text");
    let (_, error) = revoke(&workshop, &["--signature", text(&file), "--reason", "x"], 3);
    assert!(error.contains("expected a detached CMS signature"), "{error}");
    assert!(!workshop.path("list").exists());
}

/// It fails for what is asked of it, not for want of a key.
#[test]
fn putting_a_list_in_force_takes_no_key() {
    let missing = "/nonexistent/list";
    let output = touchmark(["revoke", "--trust", "/nonexistent/cert.pem", "--list", missing]);
    expect_code(&output, 3);
    assert!(!stderr(&output).contains("--key"), "{}", stderr(&output));
}
