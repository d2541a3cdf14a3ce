// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What `touchmark enforce` tells the daemon: the certificates that count, in one file that is replaced as a whole.
//!
//! Mode and scope are not here: the kernel's policy map is the one place for them.

use std::fs::{self, DirBuilder, File, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use anyhow::Context;
use rustix::fs::FlockOperation;
use serde::{Deserialize, Serialize};
use touchmark_enforce::Enforcement;
use touchmark_sign::certificate::Certificate;
use touchmark_sign::digest::{Digest, Hasher};

/// Gone with a reboot, like the pins in the kernel.
const DIRECTORY: &str = "/run/touchmark";
const STATE: &str = "state.toml";
/// A state that is about to be put in force.
const FRESH: &str = "state.toml.new";
/// Held by the daemon while it lives.
const DAEMON_LOCK: &str = "touchmarkd.pid";
const LOCK_MODE: u32 = 0o600;

/// What the daemon needs to know.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct State {
    /// The trusted certificates, PEM.
    certificates: Vec<String>,
    /// Random: no two states are the same, and so no two challenges for an order.
    #[serde(default)]
    nonce: String,
}

impl State {
    pub(crate) fn new(certificates: &[Certificate]) -> anyhow::Result<Self> {
        let nonce = fs::read_to_string("/proc/sys/kernel/random/uuid").context("cannot read a random number")?;
        let certificates = certificates.iter().map(Certificate::to_pem).collect();
        Ok(Self { certificates, nonce: nonce.trim().to_owned() })
    }

    /// What tells this state from all others.
    pub(crate) fn nonce(&self) -> &str {
        &self.nonce
    }

    /// The state in force; `None` if `touchmark enforce` was never run since boot.
    ///
    /// The kernel's side keeps the file's digest: whoever replaces the file cannot make another certificate count.
    pub(crate) fn load(enforcement: &Enforcement) -> anyhow::Result<Option<Self>> {
        let found = find(Path::new(DIRECTORY), |digest| Ok(enforcement.vouches_for_state(digest)?))?;
        found.map(|found| toml::from_str(&found.text).context("cannot read the certificates in force")).transpose()
    }

    /// The state in force, which must be there.
    pub(crate) fn in_force(enforcement: &Enforcement) -> anyhow::Result<Self> {
        Self::load(enforcement)?.context("no certificates are in force; run `touchmark enforce --cert CERT`")
    }

    /// Writes the state beside the one in force; returns what its SHA-256 is, for the kernel's side. The caller holds
    /// [`Lock::change`].
    pub(crate) fn prepare(&self, enforcement: &Enforcement) -> anyhow::Result<Prepared> {
        let fresh = path(FRESH);
        settle(Path::new(DIRECTORY), |digest| Ok(enforcement.vouches_for_state(digest)?))?;
        let write = || -> io::Result<Prepared> {
            create_directory()?;
            let text = toml::to_string(self).map_err(io::Error::other)?;
            let mut file = File::options().write(true).create(true).truncate(true).mode(0o600).open(&fresh)?;
            file.write_all(text.as_bytes())?;
            Ok(Prepared { digest: digest(&text) })
        };
        write().with_context(|| format!("cannot write {}", fresh.display()))
    }

    pub(crate) fn certificates(&self) -> anyhow::Result<Vec<Certificate>> {
        let parse = |pem: &String| Certificate::from_pem(pem.as_bytes());
        self.certificates.iter().map(parse).collect::<Result<_, _>>().context("cannot read the certificates in force")
    }
}

/// A state that is written, but not in force yet.
#[must_use]
pub(crate) struct Prepared {
    /// SHA-256 of the file.
    pub(crate) digest: Digest,
}

impl Prepared {
    /// Puts the file in its place. After a crash between the kernel's new policy and this, [`find`] finds it all the same.
    pub(crate) fn commit(self) -> anyhow::Result<()> {
        put_in_place(Path::new(DIRECTORY))
    }
}

/// The file that belongs to the policy in force.
struct Found {
    text: String,
    /// It is the prepared one: a run was killed after the kernel's new policy counted.
    prepared: bool,
}

/// Looks for the state that the kernel's side vouches for; `None` if there never was one.
fn find(directory: &Path, vouches: impl Fn(&Digest) -> anyhow::Result<bool>) -> anyhow::Result<Option<Found>> {
    let mut other = None;
    for (name, prepared) in [(STATE, false), (FRESH, true)] {
        let path = directory.join(name);
        match fs::read_to_string(&path) {
            Ok(text) if vouches(&digest(&text))? => return Ok(Some(Found { text, prepared })),
            // A prepared one that never counted says nothing.
            Ok(_) if prepared => {}
            Ok(_) => other = Some(path),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error).with_context(|| format!("cannot read {}", path.display())),
        }
    }
    match other {
        None => Ok(None),
        Some(path) => anyhow::bail!(
            "expected {} as `touchmark enforce` left it, found another content; \
             run `touchmark enforce --cert CERT` with the certificates to trust",
            path.display()
        ),
    }
}

/// Before another state is prepared: one that is in force already must not be written over. If none is found, none can
/// be lost.
fn settle(directory: &Path, vouches: impl Fn(&Digest) -> anyhow::Result<bool>) -> anyhow::Result<()> {
    match find(directory, vouches) {
        Ok(Some(Found { prepared: true, .. })) => put_in_place(directory),
        _ => Ok(()),
    }
}

fn put_in_place(directory: &Path) -> anyhow::Result<()> {
    let path = directory.join(STATE);
    fs::rename(directory.join(FRESH), &path).with_context(|| format!("cannot write {}", path.display()))
}

fn digest(text: &str) -> Digest {
    let mut hasher = Hasher::new();
    hasher.update(text.as_bytes());
    hasher.finish()
}

/// A lock that one process holds until it ends.
pub(crate) struct Lock {
    _file: File,
}

impl Lock {
    /// Waits for the lock under which enforcement is changed.
    pub(crate) fn change() -> anyhow::Result<Self> {
        Ok(Self { _file: lock("lock", FlockOperation::LockExclusive)?.context("expected to wait for the lock")? })
    }

    /// The lock that the daemon holds while it lives, with its process id in the file; `None` if another holds it.
    pub(crate) fn daemon() -> anyhow::Result<Option<Self>> {
        let Some(mut file) = lock(DAEMON_LOCK, FlockOperation::NonBlockingLockExclusive)? else { return Ok(None) };
        file.set_len(0)
            .and_then(|()| writeln!(file, "{}", std::process::id()))
            .with_context(|| format!("cannot write {}", path(DAEMON_LOCK).display()))?;
        Ok(Some(Self { _file: file }))
    }
}

/// The daemon's process id, if one holds the daemon's lock.
pub(crate) fn daemon_pid() -> anyhow::Result<Option<i32>> {
    let path = path(DAEMON_LOCK);
    if !path.exists() || lock(DAEMON_LOCK, FlockOperation::NonBlockingLockShared)?.is_some() {
        return Ok(None);
    }
    let text = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    Ok(text.trim().parse().ok())
}

/// Waits until no daemon holds its lock.
pub(crate) fn wait_for_daemon_end() -> anyhow::Result<()> {
    lock(DAEMON_LOCK, FlockOperation::LockExclusive).map(drop)
}

/// `None`: another process holds it, and the operation was not to wait.
fn lock(name: &str, operation: FlockOperation) -> anyhow::Result<Option<File>> {
    let path = path(name);
    let open = || {
        create_directory()?;
        open_lock(&path)
    };
    let file = open().with_context(|| format!("cannot open {}", path.display()))?;
    match rustix::fs::flock(&file, operation) {
        Ok(()) => Ok(Some(file)),
        Err(rustix::io::Errno::WOULDBLOCK) => Ok(None),
        Err(errno) => Err(errno).with_context(|| format!("cannot lock {}", path.display())),
    }
}

/// Root's alone: whoever can read a file can lock it, and so keep every change waiting.
fn open_lock(path: &Path) -> io::Result<File> {
    // Not truncated: whoever holds the lock has written here.
    let file = File::options().read(true).write(true).create(true).truncate(false).mode(LOCK_MODE).open(path)?;
    // Older versions left it readable to all.
    if file.metadata()?.permissions().mode() & 0o777 != LOCK_MODE {
        file.set_permissions(Permissions::from_mode(LOCK_MODE))?;
    }
    Ok(file)
}

fn create_directory() -> io::Result<()> {
    match DirBuilder::new().mode(0o755).create(DIRECTORY) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        other => other,
    }
}

fn path(name: &str) -> PathBuf {
    Path::new(DIRECTORY).join(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_in_force_is_found_before_it_is_in_its_place() {
        let folder = tempfile::tempdir().unwrap();
        let (old, new) = (folder.path().join(STATE), folder.path().join(FRESH));
        let in_force = |text: &'static str| move |found: &Digest| Ok(*found == digest(text));
        let text = |in_force_text| find(folder.path(), in_force(in_force_text)).map(|found| found.map(|f| f.text));
        assert_eq!(text("new").unwrap(), None);
        // Killed before the first state was in its place.
        fs::write(&new, "new").unwrap();
        assert_eq!(text("new").unwrap().as_deref(), Some("new"));
        assert_eq!(text("other").unwrap(), None);

        fs::write(&old, "old").unwrap();
        assert_eq!(text("old").unwrap().as_deref(), Some("old"));
        assert_eq!(text("new").unwrap().as_deref(), Some("new"));
        assert!(text("other").unwrap_err().to_string().contains("found another content"));

        for (in_force_text, left) in [("old", "old"), ("other", "old"), ("new", "new")] {
            settle(folder.path(), in_force(in_force_text)).unwrap();
            assert_eq!(fs::read_to_string(&old).unwrap(), left);
        }
        assert!(!new.exists());
    }

    #[test]
    fn only_the_owner_can_open_a_lock() {
        let folder = tempfile::tempdir().unwrap();
        let (old, fresh) = (folder.path().join("old"), folder.path().join("fresh"));
        fs::write(&old, "1\n").unwrap();
        fs::set_permissions(&old, Permissions::from_mode(0o644)).unwrap();
        for path in [&old, &fresh] {
            open_lock(path).unwrap();
            assert_eq!(fs::metadata(path).unwrap().permissions().mode() & 0o777, 0o600, "{}", path.display());
        }
        assert_eq!(fs::read_to_string(&old).unwrap(), "1\n");
    }
}
