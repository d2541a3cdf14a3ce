// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Where enforcement is tried: a file system of its own, a key, and programs under them.

use std::cell::RefCell;
use std::ffi::OsStr;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use rustix::io::Errno;
use serde_json::Value;

use crate::sh::{self, Folder, Mount};
use crate::system;

/// How long something that must happen soon may take.
const SOON: Duration = Duration::from_secs(20);

/// A file system whose executions are checked, and nothing else's. Enforcement ends when this is dropped.
pub(crate) struct Site {
    mount: Mount,
    keys: Folder,
    signed: RefCell<Vec<PathBuf>>,
}

impl Site {
    /// A fresh ext4 and a fresh key; nothing is enforced yet.
    pub(crate) fn new() -> Result<Self> {
        let site = Self { mount: Mount::ext4()?, keys: Folder::new()?, signed: RefCell::default() };
        generate_key(&site.keys.path().join("own"))?;
        Ok(site)
    }

    /// A site that enforces, and a signed program on it that just ran.
    pub(crate) fn with_running_program() -> Result<(Self, PathBuf)> {
        let site = Self::new()?;
        let program = site.program("/usr/bin/true", "program")?;
        site.sign(&program)?;
        site.enforce(&[])?;
        runs(&program)?;
        Ok((site, program))
    }

    /// A path on the file system.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.mount.path().join(name)
    }

    /// A copy of a program of the tree, unsigned.
    pub(crate) fn program(&self, source: &str, name: &str) -> Result<PathBuf> {
        let path = self.path(name);
        fs::copy(source, &path).with_context(|| format!("{source} cannot be copied"))?;
        Ok(path)
    }

    /// A script, unsigned.
    pub(crate) fn script(&self, name: &str, text: &str) -> Result<PathBuf> {
        let path = self.path(name);
        sh::write(&path, text.as_bytes())?;
        sh::succeed(["chmod".as_ref(), "755".as_ref(), path.as_os_str()])?;
        Ok(path)
    }

    /// The certificate's file.
    pub(crate) fn certificate(&self) -> PathBuf {
        self.keys.path().join("own/cert.pem")
    }

    /// The private key's file.
    pub(crate) fn key(&self) -> PathBuf {
        self.keys.path().join("own/key.pem")
    }

    /// Signs a file in the given containers.
    pub(crate) fn sign_in(&self, containers: &str, path: &Path) -> Result<()> {
        self.sign_with(&["--container", containers, text(path)])
    }

    /// Signs files in their attributes.
    pub(crate) fn sign_all(&self, paths: &[PathBuf]) -> Result<()> {
        let words: Vec<_> = ["--container", "xattr"].into_iter().chain(paths.iter().map(|path| text(path))).collect();
        if paths.is_empty() { Ok(()) } else { self.sign_with(&words) }
    }

    fn sign_with(&self, words: &[&str]) -> Result<()> {
        let (key, certificate) = (self.key(), self.certificate());
        touchmark_ok(["sign", "--key", text(&key), "--cert", text(&certificate)].iter().chain(words)).map(drop)
    }

    /// Signs a file so that it may run on every kernel: in its xattr, and where that is not enough it is admitted as
    /// soon as there is enforcement.
    pub(crate) fn sign(&self, path: &Path) -> Result<()> {
        self.sign_in("xattr", path)?;
        self.signed.borrow_mut().push(path.to_owned());
        Ok(())
    }

    /// What `--scope` takes for this file system.
    pub(crate) fn scope(&self) -> String {
        format!("mount:{}", self.mount.path().display())
    }

    /// Turns enforcement on for this file system.
    pub(crate) fn enforce(&self, options: &[&str]) -> Result<()> {
        let (certificate, scope) = (self.certificate(), self.scope());
        touchmark_ok(["enforce", "--cert", text(&certificate), "--scope", &scope].iter().chain(options))?;
        if !kernel_verifies() {
            for path in self.signed.borrow().iter() {
                admit(path)?;
            }
        }
        Ok(())
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        let _ = touchmark(["enforce", "--mode", "off"]);
    }
}

/// Whether this kernel checks signatures in xattrs.
pub(crate) fn kernel_verifies() -> bool {
    system::kernel_version() >= (6, 8)
}

/// What the reason is when a signed file was changed: an old kernel sees no signature at all.
pub(crate) fn reason_for_changed() -> &'static str {
    if kernel_verifies() { "bad-signature" } else { "unsigned" }
}

/// Approves a file by `touchmark admit`.
pub(crate) fn admit(path: &Path) -> Result<()> {
    touchmark_ok(["admit", text(path)]).map(drop)
}

/// Makes a key in a new folder.
pub(crate) fn generate_key(folder: &Path) -> Result<()> {
    generate_key_of("ecdsa-p256", folder)
}

/// Makes a key for an algorithm, in a new folder.
pub(crate) fn generate_key_of(algorithm: &str, folder: &Path) -> Result<()> {
    touchmark_ok(["key", "generate", "--algorithm", algorithm, "--out", text(folder)]).map(drop)
}

/// Runs `touchmark`.
pub(crate) fn touchmark<S: AsRef<OsStr>>(words: impl IntoIterator<Item = S>) -> Result<Output> {
    Command::new("/usr/bin/touchmark").args(words).stdin(Stdio::null()).output().context("touchmark cannot be started")
}

/// Runs `touchmark`, which must succeed, and returns what it printed.
pub(crate) fn touchmark_ok<S: AsRef<OsStr>>(words: impl IntoIterator<Item = S>) -> Result<String> {
    let words: Vec<_> = words.into_iter().map(|word| word.as_ref().to_owned()).collect();
    let output = touchmark(&words)?;
    let (said, error) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    ensure!(output.status.success(), "touchmark {words:?} ended with {}: {said}{error}", output.status);
    Ok(said.into_owned())
}

/// Starts a program without arguments and waits for it.
pub(crate) fn start(path: &Path) -> io::Result<Output> {
    Command::new(path).stdin(Stdio::null()).output()
}

/// The program must run and succeed.
pub(crate) fn runs(path: &Path) -> Result<()> {
    let output = start(path).with_context(|| format!("{} should run", path.display()))?;
    ensure!(output.status.success(), "{} ended with {}: {:?}", path.display(), output.status, output.stderr);
    Ok(())
}

/// The program must be refused.
pub(crate) fn refused(path: &Path) -> Result<()> {
    sh::expect_errno(start(path), Errno::PERM, &format!("starting {}", path.display()))
}

/// Changes one bit in the middle of a file.
pub(crate) fn flip(path: &Path) -> Result<()> {
    let mut bytes = fs::read(path)?;
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    overwrite(path, &bytes)
}

/// Writes to the file that is there: the same inode, the same xattrs.
pub(crate) fn overwrite(path: &Path, bytes: &[u8]) -> Result<()> {
    let mut file = writable(path, fs::File::options().write(true).truncate(true))?;
    file.write_all(bytes).with_context(|| format!("{} cannot be written", path.display()))
}

/// Opens a file for writing. One that ran a moment ago is busy for some more milliseconds.
pub(crate) fn writable(path: &Path, options: &fs::OpenOptions) -> Result<fs::File> {
    soon(&format!("{} to be writable", path.display()), || match options.open(path) {
        Err(error) if error.raw_os_error() == Some(Errno::TXTBSY.raw_os_error()) => Ok(None),
        other => other.map(Some).with_context(|| format!("{} cannot be opened", path.display())),
    })
}

/// `touchmark status`.
pub(crate) fn status() -> Result<Value> {
    serde_json::from_str(&touchmark_ok(["status", "--json"])?).context("status is no JSON")
}

/// Waits for an event about a file; the daemon writes them as they come.
pub(crate) fn event(path: &Path, reason: &str) -> Result<Value> {
    event_by(|event| event["path"] == text(path) && event["reason"] == reason)
        .with_context(|| format!("an event `{reason}` for {}", path.display()))
}

/// Waits for an event; the newest counts.
pub(crate) fn event_by(wanted: impl Fn(&Value) -> bool) -> Result<Value> {
    soon("an event", || {
        let log = touchmark_ok(["events", "--json"])?;
        let events = log.lines().map(serde_json::from_str::<Value>).collect::<Result<Vec<_>, _>>()?;
        Ok(events.into_iter().rev().find(|event| wanted(event)))
    })
}

/// Tries until there is an answer; fails when it does not come soon.
pub(crate) fn soon<T>(what: &str, mut look: impl FnMut() -> Result<Option<T>>) -> Result<T> {
    let begin = Instant::now();
    while begin.elapsed() < SOON {
        if let Some(found) = look()? {
            return Ok(found);
        }
        std::thread::yield_now();
    }
    anyhow::bail!("expected {what} within {} s", SOON.as_secs())
}

/// Paths here are made by the trials, in ASCII.
pub(crate) fn text(path: &Path) -> &str {
    path.to_str().unwrap_or_default()
}
