// SPDX-License-Identifier: Apache-2.0 OR MIT
//! New files on their way to their place: hidden, locked while their maker lives, removed if they do not get there.
//!
//! The name is `.NAME.touchmark-` and 16 hex digits: 8 random ones and 8 that are computed from all before them. So no
//! file of someone else's passes for a leftover of ours. A killed run leaves its file unlocked, and the next run of
//! `sign` or `unsign` in that directory removes it.

use std::collections::hash_map::RandomState;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::hash::{BuildHasher, Hasher as _};
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;
use std::sync::Arc;

use rustix::fs::{AtFlags, Dir, FlockOperation, Mode, OFlags};
use rustix::io::Errno;
use touchmark_sign::digest::Hasher;

use super::place::{Directory, Place};

const MARK: &[u8] = b".touchmark-";
/// Hex digits after the mark: random ones, then as many computed ones.
const DIGITS: usize = 16;
/// How long a name may be on all file systems of Linux.
const NAME_MAX: usize = 255;
/// Names that are taken, or removed under our feet by a run that tidies up, before we give up.
const ATTEMPTS: usize = 16;

/// A new file that nobody sees yet. Dropped, it is removed.
#[derive(Debug)]
pub(crate) struct Temporary {
    file: File,
    place: Place,
    placed: bool,
}

impl Temporary {
    /// Makes an empty file, mode 0600, in the directory of `target`.
    pub(crate) fn beside(target: &Place) -> io::Result<Self> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        for _ in 0..ATTEMPTS {
            let place = target.beside(fresh_name(target.name()));
            let file = match rustix::fs::openat(place.directory(), place.name(), flags, Mode::RUSR | Mode::WUSR) {
                Ok(fd) => File::from(fd),
                Err(Errno::EXIST) => continue,
                Err(errno) => return Err(errno.into()),
            };
            let temporary = Self { file, place, placed: false };
            // Between its creation and the lock another run may have taken it for a leftover.
            match rustix::fs::flock(&temporary.file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) if rustix::fs::fstat(&temporary.file)?.st_nlink == 1 => return Ok(temporary),
                Ok(()) | Err(Errno::WOULDBLOCK) => {}
                // A file system without locks: no other run can tell that it is in use, and none removes it.
                Err(_) => return Ok(temporary),
            }
        }
        Err(io::Error::other("expected to make a temporary file, found every name taken"))
    }

    /// A second name of this file beside `target`.
    pub(crate) fn link_for(&self, target: &Place) -> io::Result<Self> {
        let source = &self.place;
        for _ in 0..ATTEMPTS {
            let place = target.beside(fresh_name(target.name()));
            match rustix::fs::linkat(
                source.directory(),
                source.name(),
                place.directory(),
                place.name(),
                AtFlags::empty(),
            ) {
                Ok(()) => return Ok(Self { file: place.open()?, place, placed: false }),
                Err(Errno::EXIST) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
        Err(io::Error::other("expected to make a temporary link, found every name taken"))
    }

    /// The file, open for reading and writing.
    pub(crate) fn file(&self) -> &File {
        &self.file
    }

    /// Gives the file the name of `target` in the same directory, in place of what has it now.
    pub(crate) fn put(mut self, target: &Place) -> io::Result<()> {
        rustix::fs::renameat(self.place.directory(), self.place.name(), target.directory(), target.name())?;
        self.placed = true;
        Ok(())
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        if !self.placed {
            // It cannot be removed: the next run tries again.
            let _ = rustix::fs::unlinkat(self.place.directory(), self.place.name(), AtFlags::empty());
        }
    }
}

/// Whether a name is one that only this program gives.
pub(crate) fn is_ours(name: &OsStr) -> bool {
    let bytes = name.as_bytes();
    let Some((stem, digits)) = bytes.len().checked_sub(DIGITS).and_then(|at| bytes.split_at_checked(at)) else {
        return false;
    };
    let Some((random, computed)) = digits.split_at_checked(DIGITS / 2) else { return false };
    stem.starts_with(b".") && stem.ends_with(MARK) && check_digits(stem, random).as_bytes() == computed
}

/// Removes a leftover that no living process holds; says whether the name is to be left alone (gone, or in use).
pub(crate) fn remove_stale(directory: &Arc<Directory>, name: &OsStr) -> bool {
    let Ok(file) = Place::new(Arc::clone(directory), name.to_owned()).open() else { return false };
    match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
        // Under the lock: its maker, if it just began, sees that the file is gone and takes another name.
        Ok(()) => rustix::fs::unlinkat(directory, name, AtFlags::empty()).is_ok(),
        Err(errno) => errno == Errno::WOULDBLOCK,
    }
}

/// Removes what killed runs left in a directory; what cannot be removed stays for the next run.
pub(crate) fn tidy(path: &Path) {
    let Ok(directory) = Directory::open(path).map(Arc::new) else { return };
    let Ok(entries) = Dir::read_from(&directory) else { return };
    for entry in entries.map_while(Result::ok) {
        let name = OsStr::from_bytes(entry.file_name().to_bytes());
        if is_ours(name) {
            remove_stale(&directory, name);
        }
    }
}

fn fresh_name(target: &OsStr) -> OsString {
    let room = NAME_MAX - 1 - MARK.len() - DIGITS;
    let kept = target.as_bytes().get(..room).unwrap_or(target.as_bytes());
    let mut name = [b".", kept, MARK].concat();
    // Names need not be secret, only unlike each other: O_EXCL decides.
    let random = format!("{:08x}", RandomState::new().build_hasher().finish() & 0xffff_ffff);
    let computed = check_digits(&name, random.as_bytes());
    name.extend_from_slice(random.as_bytes());
    name.extend_from_slice(computed.as_bytes());
    OsString::from_vec(name)
}

fn check_digits(stem: &[u8], random: &[u8]) -> String {
    let mut hasher = Hasher::new();
    hasher.update(stem);
    hasher.update(random);
    let mut digits = hasher.finish().to_string();
    digits.truncate(DIGITS / 2);
    digits
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn names_are_recognised() {
        for target in ["true", "a b", &"x".repeat(255)] {
            let name = fresh_name(OsStr::new(target));
            assert!(name.len() <= NAME_MAX && is_ours(&name), "{name:?}");
            assert_ne!(name, fresh_name(OsStr::new(target)));
        }
        for other in [".true.touchmark-0123456789abcdef", ".touchmark-", "", "0123456789abcdef", "true"] {
            assert!(!is_ours(OsStr::new(other)), "{other:?}");
        }
    }

    #[test]
    fn a_leftover_is_removed_and_a_file_in_use_is_not() {
        let base = tempfile::tempdir().unwrap();
        let directory = Arc::new(Directory::open(base.path()).unwrap());
        let target = Place::new(Arc::clone(&directory), "f".into());
        let used = Temporary::beside(&target).unwrap();
        let name = used.place.name().to_owned();
        assert!(remove_stale(&directory, &name), "in use: not to be looked at");
        assert!(base.path().join(&name).exists());
        let left = fresh_name(OsStr::new("f"));
        fs::write(base.path().join(&left), "half").unwrap();
        assert!(remove_stale(&directory, &left));
        assert!(!base.path().join(&left).exists());
        used.put(&target).unwrap();
        drop(Temporary::beside(&target).unwrap());
        let names: Vec<_> = fs::read_dir(base.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(names, ["f"]);
    }
}
