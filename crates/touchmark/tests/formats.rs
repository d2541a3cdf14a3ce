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
    let block = |part: &str| part.split("```").next().unwrap_or_default().replace("FILE", "program");
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
    let [xattr, embedded] = &blocks()[..] else { panic!("expected two blocks of commands") };
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
