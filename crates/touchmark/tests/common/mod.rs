// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the tests of the command line share: a key, a folder, and the program itself.
#![allow(dead_code, unreachable_pub, reason = "each test binary uses its part")]

pub(crate) mod halfway;

use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use tempfile::TempDir;

/// A folder with a key, removed at the end.
pub(crate) struct Workshop {
    folder: TempDir,
}

impl Workshop {
    /// A fresh folder on a disk (attributes and all), with an ECDSA key, which is made at once.
    pub(crate) fn new() -> Self {
        Self::with_key("ecdsa-p256")
    }

    pub(crate) fn with_key(algorithm: &str) -> Self {
        let workshop = Self { folder: tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap() };
        let keys = workshop.path("keys");
        let made = touchmark(["key", "generate", "--algorithm", algorithm, "--out", text(&keys)]);
        assert!(made.status.success(), "{made:?}");
        fs::create_dir(workshop.path("tree")).unwrap();
        workshop
    }

    pub(crate) fn path(&self, name: impl AsRef<Path>) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A path in the folder for the files to be signed.
    pub(crate) fn tree(&self, name: impl AsRef<Path>) -> PathBuf {
        self.path("tree").join(name)
    }

    /// Copies a program of the system into the tree.
    pub(crate) fn copy(&self, source: &str, name: &str) -> PathBuf {
        let target = self.tree(name);
        fs::create_dir_all(target.parent().unwrap()).unwrap();
        fs::copy(source, &target).unwrap();
        target
    }

    pub(crate) fn write(&self, name: impl AsRef<Path>, bytes: impl AsRef<[u8]>) -> PathBuf {
        let target = self.tree(name);
        fs::write(&target, bytes).unwrap();
        target
    }

    /// `touchmark sign` with this workshop's key.
    pub(crate) fn sign<S: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = S>) -> Output {
        touchmark(self.sign_arguments(arguments))
    }

    pub(crate) fn sign_arguments<S: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = S>) -> Vec<OsString> {
        let (key, cert) = (self.path("keys/key.pem"), self.path("keys/cert.pem"));
        let mut all: Vec<OsString> = vec!["sign".into(), "--key".into(), key.into(), "--cert".into(), cert.into()];
        all.extend(arguments.into_iter().map(|argument| argument.as_ref().to_owned()));
        all
    }

    /// `touchmark verify --json` with this workshop's certificate: the exit code and the objects.
    pub(crate) fn verify<S: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = S>) -> (i32, Vec<Value>) {
        let mut all: Vec<OsString> = vec!["verify".into(), "--json".into(), "--cert".into()];
        all.push(self.path("keys/cert.pem").into());
        all.extend(arguments.into_iter().map(|argument| argument.as_ref().to_owned()));
        let output = touchmark(all);
        (code(&output), objects(&output))
    }

    /// The status that `verify` gives one file.
    pub(crate) fn status(&self, path: &Path) -> String {
        let (_, objects) = self.verify([path]);
        assert_eq!(objects.len(), 1, "{objects:?}");
        word(&objects[0], "status")
    }

    /// All names in the tree.
    pub(crate) fn names(&self) -> Vec<String> {
        let mut names: Vec<_> = fs::read_dir(self.path("tree"))
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }
}

/// Runs the program.
pub(crate) fn touchmark<S: AsRef<OsStr>>(arguments: impl IntoIterator<Item = S>) -> Output {
    command(arguments).output().unwrap()
}

pub(crate) fn command<S: AsRef<OsStr>>(arguments: impl IntoIterator<Item = S>) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_touchmark"));
    command.args(arguments).stdin(Stdio::null());
    command
}

pub(crate) fn code(output: &Output) -> i32 {
    output.status.code().unwrap_or_else(|| panic!("ended by a signal: {output:?}"))
}

/// The JSON objects, one a line.
pub(crate) fn objects(output: &Output) -> Vec<Value> {
    let lines = std::str::from_utf8(&output.stdout).unwrap().lines();
    lines.map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{line}: {error}"))).collect()
}

pub(crate) fn word(object: &Value, field: &str) -> String {
    object[field].as_str().unwrap_or_default().to_owned()
}

pub(crate) fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

pub(crate) fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// Succeeds, or panics with everything the command said.
#[track_caller]
pub(crate) fn expect_code(output: &Output, expected: i32) {
    assert_eq!(code(output), expected, "{}\n{}", String::from_utf8_lossy(&output.stdout), stderr(output));
}

/// Runs another program; `None` if it is not installed.
pub(crate) fn run(program: &str, arguments: &[&str]) -> Option<Output> {
    match Command::new(program).args(arguments).stdin(Stdio::null()).output() {
        Ok(output) => Some(output),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
        Err(error) => panic!("{program}: {error}"),
    }
}

/// Says in the test's output that something was not tested, and why.
pub(crate) fn skip(what: &str) {
    eprintln!("NOT TESTED: {what}");
}

/// The smallest ELF program that runs: 64 bit, no section headers; it exits with 0.
pub(crate) fn smallest_elf() -> Vec<u8> {
    // mov eax, 60; xor edi, edi; syscall
    let code: &[u8] = match std::env::consts::ARCH {
        "x86_64" => &[0xb8, 60, 0, 0, 0, 0x31, 0xff, 0x0f, 0x05],
        _ => &[0; 9],
    };
    let base = 0x40_0000_u64;
    let size = 64 + 56 + code.len() as u64;
    let mut elf = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0".to_vec();
    for half in [2_u16, 62] {
        elf.extend(half.to_le_bytes());
    }
    elf.extend(1_u32.to_le_bytes());
    for word in [base + 120, 64, 0] {
        elf.extend(word.to_le_bytes());
    }
    elf.extend(0_u32.to_le_bytes());
    for half in [64_u16, 56, 1, 64, 0, 0] {
        elf.extend(half.to_le_bytes());
    }
    for word in [1_u32, 5] {
        elf.extend(word.to_le_bytes());
    }
    for word in [0, base, base, size, size, 0x1000] {
        elf.extend(word.to_le_bytes());
    }
    elf.extend(code);
    elf
}
