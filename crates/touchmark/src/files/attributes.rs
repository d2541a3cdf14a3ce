// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a new file takes over from the one it replaces: owner, mode, extended attributes, access control lists, times.
//!
//! Not taken over, because they speak of the old bytes: `user.touchmark`, `security.ima`, `security.evm`.

use std::ffi::CStr;
use std::fs::File;
use std::io;

use rustix::fs::{Gid, Mode, Timespec, Timestamps, Uid, XattrFlags};
use rustix::io::Errno;

use super::container::{ATTRIBUTE, write_attribute};
use super::identity::Opened;

const ACCESS_LIST: &CStr = c"system.posix_acl_access";
const ABOUT_OLD_BYTES: &[&[u8]] = &[ATTRIBUTE.as_bytes(), b"security.ima", b"security.evm"];
/// The kernel's limit for a value, and for the list of names, in bytes.
const XATTR_MAX: usize = 64 * 1024;

/// Something that the new file could not take over.
#[derive(Debug, thiserror::Error)]
#[error("cannot keep the {what}: {source}")]
pub(crate) struct AttributeError {
    what: String,
    source: io::Error,
}

/// Makes `new` look like `old`, and puts the signature into its attribute; the inner error is that of the signature.
pub(super) fn take_over(old: &Opened, new: &File, signature: Option<&[u8]>) -> Result<io::Result<()>, AttributeError> {
    let names = names(old)?;
    let (users, others): (Vec<&CStr>, Vec<&CStr>) = split(&names)
        .filter(|name| !ABOUT_OLD_BYTES.contains(&name.to_bytes()))
        .partition(|name| name.to_bytes().starts_with(b"user."));
    let stat = &old.stat;
    let failed = |what: &str| {
        let what = what.to_owned();
        move |errno: Errno| AttributeError { what, source: errno.into() }
    };
    // While the file is still ours and writable: its own mode may allow nobody to write.
    users.iter().try_for_each(|name| copy(old, new, name))?;
    let signed = signature.map_or(Ok(()), |signature| write_attribute(new, signature));
    // The owner before the rest: a change of owner clears set-user-ID bits and capabilities.
    rustix::fs::fchown(new, Some(Uid::from_raw(stat.stx_uid)), Some(Gid::from_raw(stat.stx_gid)))
        .map_err(failed("owner and group"))?;
    rustix::fs::fchmod(new, Mode::from_raw_mode(u32::from(stat.stx_mode) & 0o7777)).map_err(failed("mode"))?;
    others.iter().try_for_each(|name| copy(old, new, name))?;
    if !others.contains(&ACCESS_LIST) {
        drop_inherited_list(new).map_err(failed("mode (the directory's default list was inherited)"))?;
    }
    let time = |time: rustix::fs::StatxTimestamp| Timespec { tv_sec: time.tv_sec, tv_nsec: time.tv_nsec.into() };
    let times = Timestamps { last_access: time(stat.stx_atime), last_modification: time(stat.stx_mtime) };
    rustix::fs::futimens(new, &times).map_err(failed("times"))?;
    Ok(signed)
}

/// The names of the file's extended attributes, each ended by a zero byte.
fn names(file: &Opened) -> Result<Vec<u8>, AttributeError> {
    let mut small = [0; 512];
    let failed = |errno: Errno| AttributeError { what: "extended attributes".to_owned(), source: errno.into() };
    match rustix::fs::flistxattr(&file.file, &mut small[..]) {
        Ok(length) => Ok(small.get(..length).unwrap_or_default().to_vec()),
        Err(Errno::NOTSUP) => Ok(Vec::new()),
        Err(Errno::RANGE) => {
            let mut large = vec![0; XATTR_MAX];
            let length = rustix::fs::flistxattr(&file.file, &mut large[..]).map_err(failed)?;
            large.truncate(length);
            Ok(large)
        }
        Err(errno) => Err(failed(errno)),
    }
}

fn split(names: &[u8]) -> impl Iterator<Item = &CStr> {
    names.split_inclusive(|byte| *byte == 0).filter_map(|name| CStr::from_bytes_with_nul(name).ok())
}

fn copy(old: &Opened, new: &File, name: &CStr) -> Result<(), AttributeError> {
    let failed =
        |errno: Errno| AttributeError { what: format!("attribute {}", name.to_string_lossy()), source: errno.into() };
    let value = match value(&old.file, name) {
        Ok(value) => value,
        // Removed since it was listed.
        Err(Errno::NODATA) => return Ok(()),
        Err(errno) => return Err(failed(errno)),
    };
    match rustix::fs::fsetxattr(new, name, &value, XattrFlags::empty()) {
        Ok(()) => Ok(()),
        // A label that only the kernel sets, and has set already.
        Err(_) if self::value(new, name).is_ok_and(|found| found == value) => Ok(()),
        Err(errno) => Err(failed(errno)),
    }
}

fn value(file: &File, name: &CStr) -> Result<Vec<u8>, Errno> {
    let mut small = [0; 512];
    match rustix::fs::fgetxattr(file, name, &mut small[..]) {
        Ok(length) => Ok(small.get(..length).unwrap_or_default().to_vec()),
        Err(Errno::RANGE) => {
            let mut large = vec![0; XATTR_MAX];
            let length = rustix::fs::fgetxattr(file, name, &mut large[..])?;
            large.truncate(length);
            Ok(large)
        }
        Err(errno) => Err(errno),
    }
}

/// A file made in a directory with a default list gets that list; the old file had none.
fn drop_inherited_list(new: &File) -> Result<(), Errno> {
    match rustix::fs::fgetxattr_query(new, ACCESS_LIST) {
        Ok(_) => rustix::fs::fremovexattr(new, ACCESS_LIST),
        Err(_) => Ok(()),
    }
}
