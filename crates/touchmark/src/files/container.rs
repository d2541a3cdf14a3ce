// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Where a file's signature can be: inside it, in an extended attribute, in a file beside it.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use clap::ValueEnum;
use rustix::fs::XattrFlags;
use rustix::io::Errno;
use serde::Serialize;

use super::identity::Opened;
use super::place::Place;

/// The attribute that holds a signature; the kernel's BPF programs can read `user.*`.
pub(crate) const ATTRIBUTE: &str = "user.touchmark";
/// What is added to a file's name for its detached signature.
const SUFFIX: &[u8] = b".touchmark";
/// The largest signature that is looked at, in bytes; real ones have some 700 at most.
const SIGNATURE_MAX: usize = 64 * 1024;

/// A place for a signature.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Container {
    /// In the ELF file itself: travels with it
    Embedded,
    /// In the extended attribute user.touchmark: the kernel checks it by itself
    Xattr,
    /// In FILE.touchmark beside the file
    Detached,
}

impl fmt::Display for Container {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.pad(match self {
            Self::Embedded => "embedded",
            Self::Xattr => "xattr",
            Self::Detached => "detached",
        })
    }
}

/// The signature in the attribute, if there is one.
pub(crate) fn read_attribute(file: impl AsFd) -> io::Result<Option<Vec<u8>>> {
    let mut small = [0; 1024];
    match rustix::fs::fgetxattr(&file, ATTRIBUTE, &mut small) {
        Ok(length) => Ok(small.get(..length).map(<[u8]>::to_vec)),
        Err(Errno::NODATA | Errno::NOTSUP) => Ok(None),
        Err(Errno::RANGE) => {
            let mut large = vec![0; SIGNATURE_MAX];
            let length = rustix::fs::fgetxattr(&file, ATTRIBUTE, &mut large[..])?;
            large.truncate(length);
            Ok(Some(large))
        }
        Err(errno) => Err(errno.into()),
    }
}

/// Puts a signature into the attribute, in place of what is there.
pub(crate) fn write_attribute(file: impl AsFd, signature: &[u8]) -> io::Result<()> {
    rustix::fs::fsetxattr(file, ATTRIBUTE, signature, XattrFlags::empty()).map_err(|errno| match errno {
        Errno::NOTSUP => io::Error::other(
            "the file system stores no user.* attributes (--container embedded or detached does without)",
        ),
        Errno::NOSPC | Errno::DQUOT | Errno::TOOBIG => {
            io::Error::other(format!("the file system has no room for the attribute {ATTRIBUTE}: {errno}"))
        }
        errno => errno.into(),
    })
}

/// Removes the attribute; says whether there was one.
pub(crate) fn remove_attribute(file: impl AsFd) -> io::Result<bool> {
    match rustix::fs::fremovexattr(file, ATTRIBUTE) {
        Ok(()) => Ok(true),
        Err(Errno::NODATA | Errno::NOTSUP) => Ok(false),
        Err(errno) => Err(errno.into()),
    }
}

/// Where the detached signature of a file is.
pub(crate) fn detached_place(place: &Place) -> Place {
    place.beside(OsString::from_vec([place.name().as_bytes(), SUFFIX].concat()))
}

/// The name of the file that a detached signature's name belongs to.
pub(crate) fn is_detached_name(name: &OsStr) -> Option<&OsStr> {
    name.as_bytes().strip_suffix(SUFFIX).filter(|signed| !signed.is_empty()).map(OsStr::from_bytes)
}

/// The detached signature, if there is one.
pub(crate) fn read_detached(place: &Place) -> io::Result<Option<Vec<u8>>> {
    match detached_place(place).open() {
        Ok(file) => read_signature(file).map(Some),
        Err(error) if error.kind() == io::ErrorKind::NotFound || error.raw_os_error() == Some(NAME_TOO_LONG) => {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

const NAME_TOO_LONG: i32 = Errno::NAMETOOLONG.raw_os_error();

fn read_signature(file: File) -> io::Result<Vec<u8>> {
    let opened = Opened::new(file)?;
    let mut signature = Vec::new();
    let limit = SIGNATURE_MAX as u64 + 1;
    opened.file.take(limit).read_to_end(&mut signature)?;
    if signature.len() > SIGNATURE_MAX {
        return Err(io::Error::other(format!(
            "expected a signature of at most {SIGNATURE_MAX} bytes, found a longer file"
        )));
    }
    Ok(signature)
}
