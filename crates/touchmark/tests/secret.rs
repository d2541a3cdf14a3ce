// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Keys and passphrases of the commands, seen from outside.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod common;

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::process::{Command, Stdio};

use common::{Workshop, expect_code, skip, stderr, text, touchmark};

const PASSPHRASE: &str = "canary-passphrase-that-is-nowhere-else";

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
    let (given, keys) = (workshop.path("given"), workshop.path("locked"));
    fs::write(&given, PASSPHRASE).unwrap();
    let made = touchmark([
        "key",
        "generate",
        "--algorithm",
        "ecdsa-p256",
        "--out",
        text(&keys),
        "--passphrase-file",
        text(&given),
    ]);
    expect_code(&made, 0);
    let pem = fs::read_to_string(keys.join("key.pem")).unwrap();
    let line = pem.lines().nth(2).unwrap().as_bytes().to_vec();
    let pipe = workshop.path("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let program = workshop.copy("/bin/true", "true");
    let child = Command::new(env!("CARGO_BIN_EXE_touchmark"))
        .args(["sign", "--secret-memory", "hidden", "--key", text(&keys.join("key.pem"))])
        .args(["--cert", text(&keys.join("cert.pem")), "--passphrase-file", text(&pipe), text(&program)])
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // Opening waits for the reader; a read after it waits until the pipe is empty again.
    let mut writer = File::options().write(true).open(&pipe).unwrap();
    let (first, rest) = PASSPHRASE.split_at(30);
    writer.write_all(first.as_bytes()).unwrap();
    let pid = child.id();
    while waiting_for(pid).is_some_and(|state| state != 'S') || unread(&pipe) {
        std::thread::yield_now();
    }
    let found = in_memory_of(pid, &[&line, first.as_bytes(), b"GLIBC_"]);
    writer.write_all(rest.as_bytes()).unwrap();
    drop(writer);
    let output = child.wait_with_output().unwrap();
    if stderr(&output).contains("memfd_secret, which this kernel does not offer") {
        return skip("no memfd_secret");
    }
    expect_code(&output, 0);
    let Some(found) = found else { return skip("may not read another process's memory") };
    assert!(found[2] > 0, "the search finds what is there");
    assert_eq!(found[..2], [0, 0]);
}

/// The state letter of a process, if it lives.
fn waiting_for(pid: u32) -> Option<char> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(") ")?.1.chars().next()
}

/// Whether the command has yet to read what is in the pipe.
fn unread(pipe: &std::path::Path) -> bool {
    use std::os::unix::fs::OpenOptionsExt;
    // FIONREAD wants a descriptor; poll on a reader of our own says the same.
    let nonblocking = i32::try_from(rustix::fs::OFlags::NONBLOCK.bits()).unwrap();
    let reader = File::options().read(true).custom_flags(nonblocking).open(pipe);
    rustix::io::ioctl_fionread(reader.unwrap()).unwrap() > 0
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
