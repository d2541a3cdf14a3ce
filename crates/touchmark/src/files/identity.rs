// SPDX-License-Identifier: Apache-2.0 OR MIT
//! An open regular file, and what tells it from others.

use std::fs::File;
use std::io;

use rustix::fs::{AtFlags, FileType, Stat, Statx, StatxAttributes, StatxFlags};

use super::place::{Place, expected_regular};

/// Which file it is, and which state of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    device: u64,
    inode: u64,
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Identity {
    /// Device and inode number, to find the names of one file.
    pub(crate) fn key(&self) -> (u64, u64) {
        (self.device, self.inode)
    }
}

#[expect(clippy::allow_attributes, reason = "the fields' types differ between architectures")]
#[allow(clippy::unnecessary_cast, clippy::cast_lossless, clippy::cast_sign_loss)]
impl From<&Stat> for Identity {
    fn from(stat: &Stat) -> Self {
        Self {
            device: stat.st_dev as u64,
            inode: stat.st_ino as u64,
            size: stat.st_size as u64,
            modified: (stat.st_mtime as i64, stat.st_mtime_nsec as i64),
            changed: (stat.st_ctime as i64, stat.st_ctime_nsec as i64),
        }
    }
}

/// A regular file, open for reading.
#[derive(Debug)]
pub(crate) struct Opened {
    /// The file.
    pub(crate) file: File,
    /// What the kernel said of it after it was opened.
    pub(crate) stat: Statx,
}

impl Opened {
    /// Opens the file and makes sure that it is a regular one.
    pub(crate) fn open(place: &Place) -> io::Result<Self> {
        Self::new(place.open()?)
    }

    /// Takes a file that is open already.
    pub(crate) fn new(file: File) -> io::Result<Self> {
        let stat = rustix::fs::statx(&file, "", AtFlags::EMPTY_PATH, StatxFlags::BASIC_STATS)?;
        let kind = FileType::from_raw_mode(u32::from(stat.stx_mode));
        if kind != FileType::RegularFile {
            return Err(expected_regular(kind));
        }
        Ok(Self { file, stat })
    }

    /// Size in bytes.
    pub(crate) fn size(&self) -> u64 {
        self.stat.stx_size
    }

    /// How many names it has.
    pub(crate) fn links(&self) -> u64 {
        self.stat.stx_nlink.into()
    }

    /// Why its content cannot be replaced, if the kernel says so.
    pub(crate) fn pinned(&self) -> Option<&'static str> {
        let attributes = self.stat.stx_attributes;
        if attributes.contains(StatxAttributes::IMMUTABLE) {
            Some("the file is immutable (chattr -i makes it changeable)")
        } else if attributes.contains(StatxAttributes::APPEND) {
            Some("the file is append-only (chattr -a makes it changeable)")
        } else if attributes.contains(StatxAttributes::VERITY) {
            Some("the file is sealed with fs-verity, and a new file would not be (--container xattr keeps the seal)")
        } else {
            None
        }
    }

    /// What tells it from other files and other states.
    pub(crate) fn identity(&self) -> Identity {
        let stat = &self.stat;
        Identity {
            device: rustix::fs::makedev(stat.stx_dev_major, stat.stx_dev_minor),
            inode: stat.stx_ino,
            size: stat.stx_size,
            modified: (stat.stx_mtime.tv_sec, stat.stx_mtime.tv_nsec.into()),
            changed: (stat.stx_ctime.tv_sec, stat.stx_ctime.tv_nsec.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn both_ways_to_ask_give_the_same_identity() {
        let place = Place::resolve(Path::new("/proc/self/exe")).unwrap();
        let opened = Opened::open(&place).unwrap();
        assert_eq!(opened.identity(), Identity::from(&place.stat().unwrap()));
    }

    #[test]
    fn a_directory_is_no_file() {
        let error = Opened::open(&Place::resolve(Path::new("/usr")).unwrap()).unwrap_err();
        assert_eq!(error.to_string(), "expected a regular file, found a directory");
    }
}
