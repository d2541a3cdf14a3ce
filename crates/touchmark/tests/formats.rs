// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The commands in docs/formats.md do what it says: they check a signature of ours without us.

use std::fs;
use std::path::Path;
use std::process::Command;

use tempfile::TempDir;

/// The blocks of shell commands in the document, in order.
fn blocks() -> Vec<String> {
    let document =
        fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/formats.md")).expect("read");
    let block =
        |part: &str| part.split("```").next().unwrap_or_default().replace("FILE", "program").replace("LIST", "list");
    document.split("```sh\n").skip(1).map(block).collect()
}

/// Runs a script with what the document assumes: `cert.pem`, and a signed file.
fn succeeds(folder: &Path, script: &str) -> bool {
    let output = Command::new("bash").args(["-e", "-c", script]).current_dir(folder).output().expect("bash runs");
    if !output.status.success() {
        eprintln!("{script}\n{}", String::from_utf8_lossy(&output.stderr));
    }
    output.status.success()
}

fn touchmark(folder: &Path, words: &[&str]) {
    let output = Command::new(env!("CARGO_BIN_EXE_touchmark")).args(words).current_dir(folder).output().expect("runs");
    assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn the_documents_commands_check_a_signature() {
    let [xattr, embedded, _] = &blocks()[..] else { panic!("expected three blocks of commands") };
    let verify: String = xattr.lines().skip(2).map(|line| format!("{line}\n")).collect();
    assert!(verify.starts_with("openssl cms -verify"), "{verify}");

    let folder = TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder where cargo builds");
    touchmark(folder.path(), &["key", "generate", "--out", "."]);
    for (container, script) in [("xattr", xattr.clone()), ("embedded", format!("{embedded}{verify}"))] {
        fs::copy("/bin/true", folder.path().join("program")).expect("copy");
        touchmark(
            folder.path(),
            &["sign", "--key", "key.pem", "--cert", "cert.pem", "--container", container, "program"],
        );
        assert!(succeeds(folder.path(), &script), "{container}");
        let mut bytes = fs::read(folder.path().join("program")).expect("read");
        bytes[1000] ^= 1;
        fs::write(folder.path().join("program"), bytes).expect("write");
        assert!(!succeeds(folder.path(), &script), "{container}: a changed file passed");
    }
}

#[test]
fn the_documents_commands_check_a_revocation_list() {
    let [.., script] = &blocks()[..] else { panic!("expected blocks of commands") };
    for algorithm in ["rsa2048", "ecdsa-p384"] {
        let folder = TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder where cargo builds");
        touchmark(folder.path(), &["key", "generate", "--algorithm", algorithm, "--out", "."]);
        let digest = "0123456789abcdef".repeat(4);
        touchmark(
            folder.path(),
            &[&["revoke", "--digest", &digest, "--reason", "grün\nand \\", "--out", "list"][..], &SIGNED].concat(),
        );
        // P-384 signs with SHA-384, which the same command takes.
        assert!(succeeds(folder.path(), script), "{algorithm}");
        let list = folder.path().join("list");
        let text = fs::read_to_string(&list).expect("read");
        fs::write(&list, text.replace("version 1", "version 2")).expect("write");
        assert!(!succeeds(folder.path(), script), "{algorithm}: a changed list passed");
        let entries = fs::read_to_string(folder.path().join("entries")).expect("read");
        assert!(entries.lines().nth(3).is_some_and(|line| line.ends_with(" reason grün\\u{a}and \\\\")), "{entries}");
    }
}

const SIGNED: [&str; 4] = ["--key", "key.pem", "--cert", "cert.pem"];
