// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A command that is stopped while it has a key and the first part of its passphrase in memory.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use super::{Workshop, expect_code, text, touchmark};

/// Nothing else contains it.
pub(crate) const PASSPHRASE: &str = "canary-passphrase-that-is-nowhere-else";
/// So much of it is given at first.
const FIRST: usize = 30;

/// An encrypted key in a workshop.
pub(crate) struct Locked {
    pub(crate) folder: PathBuf,
    /// A line of the key's PEM.
    pub(crate) line: String,
}

impl Locked {
    pub(crate) fn new(workshop: &Workshop) -> Self {
        let (given, folder) = (workshop.path("given"), workshop.path("locked"));
        fs::write(&given, PASSPHRASE).unwrap();
        let generate = ["key", "generate", "--algorithm", "ecdsa-p256", "--out", text(&folder)];
        let made = touchmark(generate.into_iter().chain(["--passphrase-file", text(&given)]));
        expect_code(&made, 0);
        let pem = fs::read_to_string(folder.join("key.pem")).unwrap();
        Self { line: pem.lines().nth(2).unwrap().to_owned(), folder }
    }

    pub(crate) fn key(&self) -> PathBuf {
        self.folder.join("key.pem")
    }

    pub(crate) fn certificate(&self) -> PathBuf {
        self.folder.join("cert.pem")
    }
}

/// The command, waiting for the rest of the passphrase.
pub(crate) struct Halfway {
    pub(crate) child: Child,
    writer: File,
}

impl Halfway {
    /// `touchmark sign` with that key, on a copy of a program.
    pub(crate) fn sign(workshop: &Workshop, key: &Locked, memory: &str, set_up: impl FnOnce(&mut Command)) -> Self {
        let pipe = workshop.path(format!("pipe-{memory}"));
        assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        let program = workshop.copy("/bin/true", "true");
        let mut command = Command::new(env!("CARGO_BIN_EXE_touchmark"));
        command
            .args(["sign", "--secret-memory", memory, "--key", text(&key.key()), "--cert", text(&key.certificate())])
            .args(["--passphrase-file", text(&pipe), text(&program)])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        set_up(&mut command);
        let child = command.spawn().unwrap();
        // Opening waits for the reader; a read after it waits until the pipe is empty again.
        let mut writer = File::options().write(true).open(&pipe).unwrap();
        writer.write_all(&PASSPHRASE.as_bytes()[..FIRST]).unwrap();
        while state(child.id()).is_some_and(|state| state != 'S') || unread(&pipe) {
            std::thread::yield_now();
        }
        Self { child, writer }
    }

    /// What of the passphrase it has.
    pub(crate) fn first() -> &'static str {
        &PASSPHRASE[..FIRST]
    }

    /// Gives it the rest and waits for its end.
    pub(crate) fn finish(mut self) -> Output {
        self.writer.write_all(&PASSPHRASE.as_bytes()[FIRST..]).unwrap();
        drop(self.writer);
        self.child.wait_with_output().unwrap()
    }
}

/// The state letter of a process, if it lives.
fn state(pid: u32) -> Option<char> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(") ")?.1.chars().next()
}

/// Whether the command has yet to read what is in the pipe.
fn unread(pipe: &Path) -> bool {
    // FIONREAD wants a descriptor: that of a reader of our own.
    let nonblocking = i32::try_from(rustix::fs::OFlags::NONBLOCK.bits()).unwrap();
    let reader = File::options().read(true).custom_flags(nonblocking).open(pipe);
    rustix::io::ioctl_fionread(reader.unwrap()).unwrap() > 0
}
