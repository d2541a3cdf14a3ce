// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The list on disk, and beside it which one was the newest: an older list put in its place is refused, also after the
//! machine restarted.

use std::fs::{self, DirBuilder, File, Permissions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};

use touchmark_sign::certificate::Trust;
use touchmark_sign::digest::Digest;
use touchmark_sign::revocation::{MAX_SIZE, RevocationError, RevocationList, SignedList};

/// Where the list is.
const DIRECTORY: &str = "/var/lib/touchmark";
const LIST: &str = "revocations";
/// Beside the list: version and SHA-256 of the newest one that was put in force.
const SEEN: &str = "revocations.seen";
/// The longest content of the latter, in bytes.
const SEEN_MAX: u64 = 128;

/// Why the list cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StoreError {
    /// The disk refuses.
    #[error("cannot {action} {path}: {source}", path = path.display())]
    Io {
        /// What was attempted.
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// It is no list, or its signature does not hold.
    #[error("{path}: {source}; {REPAIR}", path = path.display())]
    Broken {
        /// Where.
        path: PathBuf,
        /// What is wrong.
        source: RevocationError,
    },
    /// Signed by someone who is not trusted here.
    #[error(
        "expected the revocation list {path} to be signed by a certificate in force, found one {source}; sign it anew \
         while its signer is in force (touchmark revoke --renew --key KEY --cert CERT), then change the certificates",
        path = path.display()
    )]
    Foreign {
        /// Where.
        path: PathBuf,
        /// By whom.
        source: RevocationError,
    },
    /// A newer one was in force before.
    #[error("expected revocation list version {expected} or newer at {path}, found {found}; {REPAIR}", path = path.display())]
    Older {
        /// Where.
        path: PathBuf,
        /// The version that was in force.
        expected: u64,
        /// What is there.
        found: String,
    },
    /// Another one of the same version was in force before.
    #[error("expected the revocation list version {version} with SHA-256 {expected} at {path}, found another; {REPAIR}", path = path.display())]
    Other {
        /// Where.
        path: PathBuf,
        /// Its version.
        version: u64,
        /// The digest of the one that was in force.
        expected: Digest,
    },
    /// What stands beside the list cannot be read.
    #[error("expected a version and a SHA-256 in {path}, found `{found}`; {REPAIR}", path = path.display())]
    Seen {
        /// Where.
        path: PathBuf,
        /// What is there.
        found: String,
    },
}

const REPAIR: &str = "put the newest list there: touchmark revoke --list FILE";

/// The newest list that was ever in force here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) version: u64,
    pub(crate) digest: Digest,
}

/// A folder with a list.
#[derive(Debug)]
pub(crate) struct Store {
    directory: PathBuf,
}

impl Store {
    /// This machine's.
    pub(crate) fn system() -> Self {
        Self { directory: DIRECTORY.into() }
    }

    /// Where the list is.
    pub(crate) fn path(&self) -> PathBuf {
        self.directory.join(LIST)
    }

    /// The list, if there is one: signed by a trusted certificate, and not older than the newest that was seen here, nor
    /// than version `floor`.
    pub(crate) fn load(&self, trust: &Trust, floor: u64) -> Result<Option<RevocationList>, StoreError> {
        let Some(signed) = self.current(floor)? else { return Ok(None) };
        let path = self.path();
        match signed.verify(trust) {
            Ok(_) => Ok(Some(signed.list)),
            Err(source @ RevocationError::Verify(touchmark_sign::cms::VerifyError::UnknownSigner(_))) => {
                Err(StoreError::Foreign { path, source })
            }
            Err(source) => Err(StoreError::Broken { path, source }),
        }
    }

    /// The list, if there is one and it is the newest; its signature is still to be checked.
    pub(crate) fn current(&self, floor: u64) -> Result<Option<SignedList>, StoreError> {
        let path = self.path();
        let seen = self.seen()?;
        let expected = seen.map_or(0, |seen| seen.version).max(floor);
        let Some(bytes) = self.read(LIST, MAX_SIZE as u64 + 1)? else {
            if expected == 0 {
                return Ok(None);
            }
            return Err(StoreError::Older { path, expected, found: "none".to_owned() });
        };
        let signed = SignedList::parse(&bytes).map_err(|source| StoreError::Broken { path: path.clone(), source })?;
        let version = signed.list.version;
        if version < expected {
            return Err(StoreError::Older { path, expected, found: format!("version {version}") });
        }
        if let Some(seen) = seen.filter(|seen| seen.version == version && seen.digest != Digest::of(&bytes)) {
            return Err(StoreError::Other { path, version, expected: seen.digest });
        }
        Ok(Some(signed))
    }

    /// The newest list that was in force, by what stands beside it.
    pub(crate) fn seen(&self) -> Result<Option<Seen>, StoreError> {
        let Some(bytes) = self.read(SEEN, SEEN_MAX)? else { return Ok(None) };
        let text = String::from_utf8_lossy(&bytes);
        let parse = |line: &str| {
            let (version, digest) = line.split_once(' ')?;
            Some(Seen { version: version.parse().ok()?, digest: digest.parse().ok()? })
        };
        let seen = text.strip_suffix('\n').and_then(parse);
        seen.map(Some)
            .ok_or_else(|| StoreError::Seen { path: self.directory.join(SEEN), found: text.escape_debug().to_string() })
    }

    /// Puts a list in place. Killed at any moment this leaves the old list or the new one, and what was seen is never
    /// newer than the list.
    pub(crate) fn put(&self, version: u64, bytes: &[u8]) -> Result<(), StoreError> {
        match DirBuilder::new().mode(0o755).create(&self.directory) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                return Err(self.failed("create", &self.directory)(error));
            }
            _ => {}
        }
        self.write(LIST, bytes)?;
        self.write(SEEN, format!("{version} {}\n", Digest::of(bytes)).as_bytes())
    }

    fn write(&self, name: &str, bytes: &[u8]) -> Result<(), StoreError> {
        let path = self.directory.join(name);
        replace(&path, bytes).map_err(self.failed("write", &path))
    }

    fn read(&self, name: &str, limit: u64) -> Result<Option<Vec<u8>>, StoreError> {
        let path = self.directory.join(name);
        let mut bytes = Vec::new();
        match File::open(&path).and_then(|file| file.take(limit).read_to_end(&mut bytes)) {
            Ok(_) => Ok(Some(bytes)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(self.failed("read", &path)(error)),
        }
    }

    fn failed(&self, action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> StoreError {
        let path = path.to_owned();
        move |source| StoreError::Io { action, path, source }
    }
}

/// Writes a file that everyone may read, by a new one that takes the old one's place; both are on the disk on return.
pub(crate) fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut fresh = path.as_os_str().to_owned();
    fresh.push(".new");
    let mut file = File::create(&fresh)?;
    file.set_permissions(Permissions::from_mode(0o644))?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(&fresh, path)?;
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(folder)?.sync_all()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use touchmark_sign::certificate::Certificate;
    use touchmark_sign::key::{KeyAlgorithm, PrivateKey};
    use touchmark_sign::revocation::{Reason, Target};

    use super::*;

    struct Owner {
        key: PrivateKey,
        trust: Trust,
    }

    impl Owner {
        fn new() -> Self {
            let key = PrivateKey::generate(KeyAlgorithm::EcdsaP256).unwrap();
            let certificate = Certificate::self_signed(&key, "owner").unwrap();
            Self { key, trust: Trust::new(vec![certificate]) }
        }

        fn list(&self, version: u64, reason: &str) -> Vec<u8> {
            let entries = BTreeMap::from([(Target::File(Digest::of(b"x")), Reason::new(reason).unwrap())]);
            let list = RevocationList { version, issued: 0, entries };
            list.sign(&self.key, &self.trust.certificates()[0]).unwrap().into_bytes()
        }
    }

    fn store() -> (tempfile::TempDir, Store) {
        let folder = tempfile::tempdir().unwrap();
        let directory = folder.path().join("lib");
        (folder, Store { directory })
    }

    fn version(store: &Store, owner: &Owner, floor: u64) -> Result<Option<u64>, String> {
        store.load(&owner.trust, floor).map(|list| list.map(|list| list.version)).map_err(|error| error.to_string())
    }

    #[test]
    fn a_list_is_kept_and_readable_by_all() {
        let ((_folder, store), owner) = (store(), Owner::new());
        assert_eq!(version(&store, &owner, 0), Ok(None));
        store.put(3, &owner.list(3, "a")).unwrap();
        assert_eq!(version(&store, &owner, 3), Ok(Some(3)));
        for (name, mode) in [("", 0o755), (LIST, 0o644), (SEEN, 0o644)] {
            let found = fs::metadata(store.directory.join(name)).unwrap().permissions().mode() & 0o777;
            assert_eq!(found, mode, "{name}");
        }
        store.put(4, &owner.list(4, "a")).unwrap();
        assert_eq!(version(&store, &owner, 0), Ok(Some(4)));
    }

    #[test]
    fn an_older_list_and_none_are_refused() {
        let ((_folder, store), owner) = (store(), Owner::new());
        store.put(3, &owner.list(3, "a")).unwrap();
        fs::write(store.path(), owner.list(2, "a")).unwrap();
        let error = version(&store, &owner, 0).unwrap_err();
        assert!(error.contains("expected revocation list version 3 or newer") && error.contains("found version 2"));
        assert!(error.contains("touchmark revoke --list"), "{error}");
        fs::write(store.path(), owner.list(3, "another")).unwrap();
        assert!(version(&store, &owner, 0).unwrap_err().contains("found another"));
        fs::remove_file(store.path()).unwrap();
        assert!(version(&store, &owner, 0).unwrap_err().contains("found none"));
        // A newer one whose arrival was not noted, because the machine stopped there.
        fs::write(store.path(), owner.list(5, "a")).unwrap();
        assert_eq!(version(&store, &owner, 0), Ok(Some(5)));
        // The kernel knows better than the disk.
        fs::remove_file(store.directory.join(SEEN)).unwrap();
        assert!(version(&store, &owner, 6).unwrap_err().contains("version 6 or newer"));
        fs::remove_file(store.path()).unwrap();
        assert!(version(&store, &owner, 6).unwrap_err().contains("found none"));
    }

    #[test]
    fn foreign_and_broken_lists_are_refused() {
        let ((_folder, store), owner, other) = (store(), Owner::new(), Owner::new());
        store.put(1, &other.list(1, "a")).unwrap();
        assert!(matches!(store.load(&owner.trust, 0), Err(StoreError::Foreign { .. })));
        let mut list = owner.list(1, "a");
        list.truncate(200);
        store.put(1, &list).unwrap();
        assert!(matches!(store.load(&owner.trust, 0), Err(StoreError::Broken { .. })));
        store.put(1, &owner.list(1, "a")).unwrap();
        for seen in ["", "1", "1 x\n", "x\n", "1 00\n"] {
            fs::write(store.directory.join(SEEN), seen).unwrap();
            assert!(matches!(store.load(&owner.trust, 0), Err(StoreError::Seen { .. })), "{seen:?}");
        }
    }
}
