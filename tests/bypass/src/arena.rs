// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Where techniques are tried: a folder on a file system of its own, with what attacks and what is attacked.

use std::cell::RefCell;
use std::ffi::OsStr;
use std::fs;
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};

static ATTACKER: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/attacker"));
static LIBRARY: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/library.so"));

/// The place.
#[derive(Debug)]
pub struct Arena {
    folder: PathBuf,
    approved: RefCell<Vec<PathBuf>>,
}

impl Arena {
    /// An arena in this folder, which is the root of a file system.
    #[must_use]
    pub fn new(folder: &Path) -> Self {
        Self { folder: folder.to_owned(), approved: RefCell::default() }
    }

    /// What the owner of the machine approves of.
    #[must_use]
    pub fn approved(&self) -> Vec<PathBuf> {
        self.approved.borrow().clone()
    }

    /// A path in the arena.
    #[must_use]
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// The program that attacks: it is approved, as a program is that was taken over while it ran.
    pub(crate) fn attacker(&self) -> PathBuf {
        self.path("attacker")
    }

    /// A program that nobody approved.
    pub(crate) fn stranger(&self) -> PathBuf {
        self.path("stranger")
    }

    /// Approves a file.
    pub(crate) fn approve(&self, path: PathBuf) {
        self.approved.borrow_mut().push(path);
    }

    /// Writes an approved file.
    pub(crate) fn approved_file(&self, name: &str, content: &[u8]) -> io::Result<()> {
        self.approve(self.file(name, content)?);
        Ok(())
    }

    /// Writes a file that can be executed.
    pub(crate) fn file(&self, name: &str, content: &[u8]) -> io::Result<PathBuf> {
        let path = self.path(name);
        let mut file = fs::File::options().write(true).create(true).truncate(true).mode(0o755).open(&path)?;
        file.write_all(content)?;
        file.set_permissions(fs::Permissions::from_mode(0o755))?;
        Ok(path)
    }

    /// Puts the attacker in place.
    pub(crate) fn with_attacker(&self) -> io::Result<()> {
        self.approved_file("attacker", ATTACKER)
    }

    /// Puts both programs in place.
    pub(crate) fn with_both(&self) -> io::Result<()> {
        self.with_attacker()?;
        self.file("stranger", &stranger_bytes()).map(drop)
    }

    /// Puts the attacker in place, and a file `code` to execute that is not approved.
    pub(crate) fn with_strange_code(&self) -> io::Result<()> {
        self.with_attacker()?;
        self.file("code", &code_bytes(42)).map(drop)
    }

    /// Puts the attacker in place, and a file `code` to execute that is approved.
    pub(crate) fn with_approved_code(&self) -> io::Result<()> {
        self.with_attacker()?;
        self.approved_file("code", &code_bytes(42))
    }

    /// Puts the library in place, which nobody approved, and an approved program that uses libraries.
    pub(crate) fn with_library(&self) -> io::Result<()> {
        self.file("library.so", LIBRARY)?;
        self.approved_file("program", &fs::read("/usr/bin/true")?)
    }

    /// Puts a script in place that leaves a mark beside itself, and that nobody approved.
    pub(crate) fn with_kernel_helper(&self) -> io::Result<()> {
        self.file("helper", b"#!/bin/sh\necho here > ${0%/*}/mark\n").map(drop)
    }

    /// Its path as the kernel finds it, which starts helpers in the first process' mount namespace.
    pub(crate) fn kernel_helper(&self) -> String {
        format!("/proc/{}/root{}", std::process::id(), self.path("helper").display())
    }

    /// Has the attacker do this.
    pub(crate) fn attack<S: AsRef<OsStr>>(&self, name: &str, arguments: impl IntoIterator<Item = S>) -> io::Result<()> {
        run(Command::new(self.attacker()).arg(name).args(arguments))
    }
}

/// The stranger does the same as the attacker, and is another file.
pub(crate) fn stranger_bytes() -> Vec<u8> {
    [ATTACKER, b"\n"].concat()
}

/// `mov eax, RESULT; ret`: programs/attack.h expects 42 at the begin of a file to execute.
pub(crate) fn code_bytes(result: u8) -> Vec<u8> {
    let mut bytes = vec![0xb8, result, 0, 0, 0, 0xc3];
    bytes.resize(8192, 0);
    bytes
}

/// Runs a program that must end with 0; its exit code is an error number otherwise.
pub(crate) fn run(command: &mut Command) -> io::Result<()> {
    outcome(command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status()?)
}

pub(crate) fn outcome(status: ExitStatus) -> io::Result<()> {
    match status.code() {
        Some(0) => Ok(()),
        Some(number) => Err(io::Error::from_raw_os_error(number)),
        None => Err(io::Error::other(format!("ended with {status}"))),
    }
}

/// What was smuggled in leaves a mark. A dynamic linker that is refused says so on its own, in words.
pub(crate) fn marked(mark: &Path) -> io::Result<()> {
    match fs::remove_file(mark) {
        Err(error) if error.kind() == ErrorKind::NotFound => Err(rustix::io::Errno::PERM.into()),
        other => other,
    }
}
