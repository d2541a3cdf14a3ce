// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Keys and passphrases of the commands, seen from outside.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod common;

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::process::Command;

use common::halfway::{Halfway, Locked};
use common::{Workshop, expect_code, skip, stderr};

/// How often each text occurs in what can be read of a process's memory; `None` if it may not be read.
fn in_memory_of(pid: u32, needles: &[&[u8]]) -> Option<Vec<usize>> {
    let memory = File::open(format!("/proc/{pid}/mem")).ok()?;
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).ok()?;
    let mut counts = vec![0; needles.len()];
    for line in maps.lines() {
        let (start, end) = line.split(' ').next()?.split_once('-')?;
        let (start, end) = (u64::from_str_radix(start, 16).ok()?, u64::from_str_radix(end, 16).ok()?);
        for page in (start..end.min(start + (4 << 20))).step_by(4096) {
            let mut bytes = [0; 4096];
            if memory.read_exact_at(&mut bytes, page).is_ok() {
                for (count, needle) in counts.iter_mut().zip(needles) {
                    *count += bytes.windows(needle.len()).filter(|window| window == needle).count();
                }
            }
        }
    }
    Some(counts)
}

/// The passphrase comes from a pipe that stops half-way: then the key's PEM and half a passphrase are in memory.
#[test]
fn a_key_and_its_passphrase_are_not_found_in_the_memory_of_the_command() {
    let workshop = Workshop::new();
    let key = Locked::new(&workshop);
    let halfway = Halfway::sign(&workshop, &key, "hidden", |_| ());
    let needles = [key.line.as_bytes(), Halfway::first().as_bytes(), b"GLIBC_"];
    let found = in_memory_of(halfway.child.id(), &needles);
    let output = halfway.finish();
    if stderr(&output).contains("memfd_secret, which this kernel does not offer") {
        return skip("no memfd_secret");
    }
    expect_code(&output, 0);
    let Some(found) = found else { return skip("may not read another process's memory") };
    assert!(found[2] > 0, "the search finds what is there");
    assert_eq!(found[..2], [0, 0]);
}

#[test]
fn a_limit_that_is_too_low_ends_the_command() {
    let workshop = Workshop::new();
    let generate = |memory: &str, out: &str| {
        // Root, but without the right to exceed the limit.
        Command::new("setpriv")
            .args(["--bounding-set", "-ipc_lock", "--inh-caps", "-ipc_lock", "prlimit", "--memlock=0"])
            .args([env!("CARGO_BIN_EXE_touchmark"), "key", "generate", "--algorithm", "ecdsa-p256"])
            .args(["--passphrase-file", "/proc/version", "--secret-memory", memory, "--out"])
            .arg(workshop.path(out))
            .output()
            .unwrap()
    };
    let unlocked = generate("unlocked", "unlocked");
    if stderr(&unlocked).contains("setpriv") || stderr(&unlocked).contains("prlimit") {
        return skip("needs root");
    }
    expect_code(&unlocked, 0);
    for memory in ["locked", "hidden", "auto"] {
        let refused = generate(memory, memory);
        expect_code(&refused, 3);
        let said = stderr(&refused);
        assert!(said.contains("RLIMIT_MEMLOCK") || said.contains("memfd_secret"), "{memory}: {said}");
        assert!(!workshop.path(memory).exists(), "{memory}: nothing was made");
    }
}
