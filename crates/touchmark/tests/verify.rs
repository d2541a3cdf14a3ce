// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `touchmark verify`: what is valid, and that nothing else is.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod common;

use std::fs;
use std::os::unix::ffi::OsStrExt;

use common::{Workshop, code, expect_code, run, skip, smallest_elf, stderr, text, touchmark, word};
use rustix::fs::XattrFlags;

const ATTRIBUTE: &str = "user.touchmark";

fn attribute(path: &std::path::Path) -> Vec<u8> {
    let mut value = vec![0; 4096];
    let length = rustix::fs::getxattr(path, ATTRIBUTE, &mut value[..]).unwrap();
    value.truncate(length);
    value
}

/// The statuses in the tree, and how often each occurs.
fn statuses(workshop: &Workshop) -> Vec<(String, usize)> {
    let tree = workshop.path("tree");
    let (_, found) = workshop.verify(["-r", text(&tree)]);
    let mut counts = std::collections::BTreeMap::new();
    for object in found {
        *counts.entry(word(&object, "status")).or_default() += 1;
    }
    counts.into_iter().collect()
}

#[test]
fn every_changed_byte_of_a_program_is_caught() {
    let workshop = Workshop::with_key("rsa2048");
    let program = workshop.write("small", smallest_elf());
    expect_code(&workshop.sign(["--container=embedded", text(&program)]), 0);
    let signed = fs::read(&program).unwrap();
    let mut changed = 0;
    for at in 0..signed.len() {
        for mask in [1, 0x80, 0xff] {
            let mut bytes = signed.clone();
            bytes[at] ^= mask;
            workshop.write(format!("{at:05}-{mask:02x}"), bytes);
            changed += 1;
        }
    }
    let found = statuses(&workshop);
    let valid = found.iter().find(|(status, _)| status == "valid").unwrap().1;
    assert_eq!(valid, 1, "only the one that was not changed: {found:?}");
    assert_eq!(found.iter().map(|(_, number)| number).sum::<usize>(), changed + 1);
    assert!(found.iter().all(|(status, _)| status != "error"), "{found:?}");
}

#[test]
fn every_changed_byte_of_the_attribute_or_the_file_it_covers_is_caught() {
    let workshop = Workshop::with_key("rsa2048");
    let script = workshop.write("script", "#!/bin/sh\necho hello\n");
    expect_code(&workshop.sign([&script]), 0);
    let (content, signature) = (fs::read(&script).unwrap(), attribute(&script));
    let put = |name: &str, content: &[u8], signature: &[u8]| {
        let path = workshop.write(name, content);
        rustix::fs::setxattr(&path, ATTRIBUTE, signature, XattrFlags::empty()).unwrap();
    };
    for at in 0..content.len() {
        let mut bytes = content.clone();
        bytes[at] ^= 1;
        put(&format!("content-{at}"), &bytes, &signature);
    }
    for at in 0..signature.len() {
        for mask in [1, 0xff] {
            let mut bytes = signature.clone();
            bytes[at] ^= mask;
            put(&format!("signature-{at}-{mask}"), &content, &bytes);
        }
    }
    put("longer", &[&content[..], b"\n"].concat(), &signature);
    put("shorter", &content[1..], &signature);
    put("signature-longer", &content, &[&signature[..], &[0]].concat());
    put("signature-empty", &content, b"");
    let all = content.len() + 2 * signature.len() + 4;
    assert_eq!(statuses(&workshop), [("invalid".to_owned(), all), ("valid".to_owned(), 1)]);
}

#[test]
fn every_truncation_and_extension_of_a_program_is_caught() {
    let workshop = Workshop::new();
    let program = workshop.write("small", smallest_elf());
    expect_code(&workshop.sign(["--container=embedded", text(&program)]), 0);
    let signed = fs::read(&program).unwrap();
    for length in 0..signed.len() {
        workshop.write(format!("{length:05}"), &signed[..length]);
    }
    workshop.write("longer", [&signed[..], &[0]].concat());
    workshop.write("twice", [&signed[..], &signed].concat());
    let found = statuses(&workshop);
    assert_eq!(found.iter().find(|(status, _)| status == "valid").unwrap().1, 1, "{found:?}");
}

#[test]
fn one_container_that_does_not_hold_makes_the_file_invalid() {
    let workshop = Workshop::new();
    let program = workshop.copy("/bin/true", "true");
    let sign = || expect_code(&workshop.sign(["--container=embedded,xattr,detached", text(&program)]), 0);
    sign();
    rustix::fs::setxattr(&program, ATTRIBUTE, b"noise", XattrFlags::empty()).unwrap();
    let (exit, found) = workshop.verify([&program]);
    assert_eq!((exit, word(&found[0], "status")), (1, "invalid".to_owned()));
    assert!(word(&found[0], "reason").starts_with("xattr: "), "{found:?}");
    let each: Vec<_> =
        found[0]["containers"].as_array().unwrap().iter().map(|container| word(container, "status")).collect();
    assert_eq!(each, ["valid", "invalid", "valid"]);

    sign();
    fs::write(workshop.tree("true.touchmark"), vec![b'x'; 100_000]).unwrap();
    let (_, found) = workshop.verify([&program]);
    assert!(word(&found[0], "reason").contains("detached: cannot read the signature: expected a signature of at most"));

    sign();
    fs::write(workshop.tree("true.touchmark"), attribute(&program)).unwrap();
    assert_eq!(workshop.status(&program), "valid");
    // A signature of the other kind: of the content, where one of the file belongs.
    let der = workshop.path("der");
    expect_code(&touchmark(["extract", "--container=embedded", "--out", text(&der), text(&program)]), 0);
    fs::copy(&der, workshop.tree("true.touchmark")).unwrap();
    assert_eq!(workshop.status(&program), "invalid");
}

#[test]
fn only_trusted_signers_count() {
    let (one, other) = (Workshop::new(), Workshop::new());
    let file = one.write("f", "text");
    expect_code(&other.sign([&file]), 0);
    let (exit, found) = one.verify([&file]);
    assert_eq!(exit, 1);
    assert!(word(&found[0], "reason").contains("unknown key (issuer CN=Touchmark signing key of "), "{found:?}");
    let both = [one.path("keys/cert.pem"), other.path("keys/cert.pem")];
    let verified = touchmark(["verify", "-v", "--cert", text(&both[0]), "--cert", text(&both[1]), text(&file)]);
    expect_code(&verified, 0);
    let bundle = one.path("bundle.pem");
    fs::write(&bundle, [fs::read(&both[0]).unwrap(), fs::read(&both[1]).unwrap()].concat()).unwrap();
    expect_code(&touchmark(["verify", "--cert", text(&bundle), text(&file)]), 0);
    expect_code(&touchmark(["verify", "--cert", text(&file), text(&file)]), 3);
}

#[test]
fn lines_for_people_name_what_is_wrong() {
    let workshop = Workshop::new();
    let (good, bad, new) = (workshop.write("a", "text"), workshop.write("b", "text"), workshop.write("c", "text"));
    expect_code(&workshop.sign([&good, &bad]), 0);
    fs::write(&bad, "texT").unwrap();
    let cert = workshop.path("keys/cert.pem");
    let verified = touchmark(["verify", "--cert", text(&cert), text(&good), text(&bad), text(&new)]);
    expect_code(&verified, 1);
    let expected =
        format!("{}: invalid: xattr: the content is not what was signed (by CN=Touchmark signing key of ", text(&bad));
    let said = String::from_utf8_lossy(&verified.stdout).into_owned();
    let lines: Vec<_> = said.lines().collect();
    assert_eq!(lines.len(), 2, "{said}");
    assert!(lines[0].starts_with(&expected), "{said}");
    assert_eq!(lines[1], format!("{}: unsigned", text(&new)));
    assert!(stderr(&verified).contains("3 files: 1 valid, 1 unsigned, 1 invalid"), "{}", stderr(&verified));
}

#[test]
fn names_of_any_bytes_are_reported_and_forge_nothing() {
    let workshop = Workshop::new();
    for name in [&b"line\nvalid: x"[..], b"escape\x1b[2J", b"no utf8 \xff\xfe", "grün".as_bytes(), b"-r", b" "] {
        workshop.write(std::ffi::OsStr::from_bytes(name), "text");
    }
    let tree = workshop.path("tree");
    let (exit, found) = workshop.verify(["-r", text(&tree)]);
    assert_eq!((exit, found.len()), (1, 6));
    let exact: Vec<_> = found.iter().filter_map(|object| object["path_bytes"].as_str()).collect();
    assert!(matches!(exact[..], [hex] if hex.ends_with("fffe")), "{exact:?}");
    let cert = workshop.path("keys/cert.pem");
    let plain = touchmark(["verify", "-r", "--cert", text(&cert), text(&tree)]);
    let said = String::from_utf8(plain.stdout).unwrap();
    assert_eq!(said.lines().count(), 6, "{said}");
    assert!(!said.contains('\x1b') && said.contains("no utf8 \\xff\\xfe: unsigned"), "{said}");
}

#[test]
fn a_symbolic_link_stands_for_its_file_when_named() {
    let workshop = Workshop::new();
    let program = workshop.copy("/bin/true", "true");
    let link = workshop.path("link");
    std::os::unix::fs::symlink(&program, &link).unwrap();
    expect_code(&workshop.sign([&link]), 0);
    assert!(link.symlink_metadata().unwrap().is_symlink());
    assert_eq!((workshop.status(&link), workshop.status(&program)), ("valid".into(), "valid".into()));
    // Signed by its link and by its name in one run: once.
    let both = workshop.sign(["--json", text(&link), text(&program)]);
    assert_eq!((code(&both), common::objects(&both).len()), (0, 1));
}

#[test]
fn a_large_file_takes_little_memory() {
    let workshop = Workshop::new();
    let large = workshop.write("large", "");
    let file = fs::File::options().write(true).open(&large).unwrap();
    file.set_len(512 << 20).unwrap();
    expect_code(&workshop.sign([&large]), 0);
    // An address space smaller than the file, with room for the program itself.
    let cert = workshop.path("keys/cert.pem");
    let line = format!(
        "ulimit -v 400000; exec '{}' verify --jobs 1 --cert '{}' '{}'",
        env!("CARGO_BIN_EXE_touchmark"),
        text(&cert),
        text(&large)
    );
    let Some(verified) = run("sh", &["-c", &line]) else { return skip("memory: there is no shell") };
    expect_code(&verified, 0);
}
