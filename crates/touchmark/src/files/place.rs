// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Names in open directories.
//!
//! Files of a tree are opened, replaced and removed relative to their open directory. So a directory that someone swaps
//! for a symbolic link during the run leads nowhere else, and no path is too long.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat};

/// What every file is opened with: no waiting for a FIFO's writer, no controlling terminal, no symbolic link.
const OPEN: OFlags =
    OFlags::RDONLY.union(OFlags::CLOEXEC).union(OFlags::NONBLOCK).union(OFlags::NOCTTY).union(OFlags::NOFOLLOW);

/// An open directory and the path that led there.
#[derive(Debug)]
pub(crate) struct Directory {
    fd: OwnedFd,
    path: PathBuf,
}

impl Directory {
    /// Opens a directory named by the user; symbolic links are followed.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let path_or_here = if path.as_os_str().is_empty() { Path::new(".") } else { path };
        Ok(Self { fd: rustix::fs::open(path_or_here, flags, Mode::empty())?, path: path.to_owned() })
    }

    /// Opens a directory only to reach what is in it, which takes no permission to read it.
    pub(crate) fn reach(path: &Path) -> io::Result<Self> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(Self { fd: rustix::fs::open(path, flags, Mode::empty())?, path: path.to_owned() })
    }

    /// Opens a directory in this one; a symbolic link is refused.
    pub(crate) fn enter(&self, name: &OsStr) -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        Ok(Self { fd: rustix::fs::openat(&self.fd, name, flags, Mode::empty())?, path: self.path.join(name) })
    }

    /// Where it is, for messages.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl AsFd for Directory {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// A name in an open directory.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    directory: Arc<Directory>,
    name: OsString,
    /// How the user named it, if not by directory and name.
    shown: Option<PathBuf>,
}

impl Place {
    /// A name found in a directory.
    pub(crate) fn new(directory: Arc<Directory>, name: OsString) -> Self {
        Self { directory, name, shown: None }
    }

    /// A name in a directory that the user named differently.
    pub(crate) fn named(directory: Arc<Directory>, name: OsString, shown: PathBuf) -> Self {
        Self { directory, name, shown: Some(shown) }
    }

    /// A path that the user named. A symbolic link stands for what it points to.
    pub(crate) fn resolve(path: &Path) -> io::Result<Self> {
        let resolved = path.canonicalize()?;
        let (Some(parent), Some(name)) = (resolved.parent(), resolved.file_name()) else {
            return Err(io::Error::other("expected the path of a file"));
        };
        Ok(Self::named(Arc::new(Directory::reach(parent)?), name.to_owned(), path.to_owned()))
    }

    /// The path, for messages and reports.
    pub(crate) fn path(&self) -> PathBuf {
        self.shown.clone().unwrap_or_else(|| self.directory.path.join(&self.name))
    }

    /// The directory that holds the name.
    pub(crate) fn directory(&self) -> &Arc<Directory> {
        &self.directory
    }

    /// The name in the directory.
    pub(crate) fn name(&self) -> &OsStr {
        &self.name
    }

    /// The same directory, another name.
    pub(crate) fn beside(&self, name: OsString) -> Self {
        Self::new(Arc::clone(&self.directory), name)
    }

    /// Opens for reading, whatever it is; it never waits.
    pub(crate) fn open(&self) -> io::Result<File> {
        match rustix::fs::openat(&self.directory, &self.name, OPEN, Mode::empty()) {
            Ok(fd) => Ok(fd.into()),
            // The error for a socket or a device without driver says nothing to people.
            Err(rustix::io::Errno::NXIO) => Err(self.not_regular()),
            Err(rustix::io::Errno::LOOP) => Err(io::Error::other("expected a regular file, found a symbolic link")),
            Err(errno) => Err(errno.into()),
        }
    }

    /// What the name stands for now; symbolic links are not followed.
    pub(crate) fn stat(&self) -> io::Result<Stat> {
        Ok(rustix::fs::statat(&self.directory, &self.name, AtFlags::SYMLINK_NOFOLLOW)?)
    }

    fn not_regular(&self) -> io::Error {
        match self.stat() {
            Ok(stat) => expected_regular(FileType::from_raw_mode(stat.st_mode)),
            Err(error) => error,
        }
    }
}

/// The error for anything that is no regular file.
pub(crate) fn expected_regular(found: FileType) -> io::Error {
    io::Error::other(format!("expected a regular file, found a {}", type_name(found)))
}

/// The type of a file in words.
pub(crate) fn type_name(kind: FileType) -> &'static str {
    match kind {
        FileType::RegularFile => "regular file",
        FileType::Directory => "directory",
        FileType::Symlink => "symbolic link",
        FileType::Fifo => "FIFO",
        FileType::Socket => "socket",
        FileType::CharacterDevice => "character device",
        FileType::BlockDevice => "block device",
        FileType::Unknown => "file of unknown type",
    }
}
