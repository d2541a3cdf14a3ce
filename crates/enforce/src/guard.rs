// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tells the kernel's side what is Touchmark's own: maps, programs, pins, and the mounts that those live on.

use std::fs::{self, File};
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use libbpf_rs::{MapCore, MapFlags, MapHandle, Program};
use procfs::process::Process;
use rustix::fs::{AtFlags, StatxFlags};
use touchmark_sign::digest::Digest;
use touchmark_sign::statement::Kind;
use zerocopy::{FromZeros, IntoBytes};

use crate::abi::{RawGuarded, RawInode, guarded};
use crate::{EnforceError, approval, fdinfo, pins};

/// Fills the map `guarded`. It counts as soon as a policy says that there is a guard.
pub(crate) fn register() -> Result<(), EnforceError> {
    let map = pins::map("guarded")?;
    let add = |kind, device, id| {
        let key = RawGuarded { kind, device, id };
        map.update(key.as_bytes(), &[1], MapFlags::ANY).map_err(EnforceError::kernel("guard what is Touchmark's own"))
    };
    for path in pins::names("maps")? {
        let handle = MapHandle::from_pinned_path(&path).map_err(EnforceError::kernel("open a pinned map"))?;
        add(guarded::MAP, 0, fdinfo::number(&handle, "map_id")?.unwrap_or(0))?;
    }
    for path in pins::names("programs")? {
        let handle = Program::fd_from_pinned_path(&path).map_err(EnforceError::kernel("open a pinned program"))?;
        add(guarded::PROGRAM, 0, fdinfo::number(&handle, "prog_id")?.unwrap_or(0))?;
    }
    for path in pins::all()? {
        let (device, inode) = identity(&path)?;
        add(guarded::PIN, device, inode)?;
    }
    add(guarded::FILESYSTEM, identity(&pins::directory())?.0, 0)?;
    mounts_above(&pins::directory())?.into_iter().try_for_each(|id| add(guarded::MOUNT, 0, id))
}

/// Tells the kernel's side the digest of the running program, for processes of it that started before there was
/// anything to recognize them. The kernel keeps a running program from being written.
pub(crate) fn introduce_self(digest: &Digest) -> Result<(), EnforceError> {
    let program = File::open("/proc/self/exe").map_err(EnforceError::io("open this program"))?;
    let state = RawInode { known: 1, key: approval::key(Kind::File, digest), ..RawInode::new_zeroed() };
    let key = program.as_raw_fd().to_ne_bytes();
    match pins::map("inodes")?.update(&key, state.as_bytes(), MapFlags::NO_EXIST) {
        // It was recognized already.
        Err(error) if error.kind() == libbpf_rs::ErrorKind::AlreadyExists => Ok(()),
        other => other.map_err(EnforceError::kernel("introduce this program")),
    }
}

/// Device, as the kernel encodes it (`MKDEV` of include/linux/kdev_t.h), and inode number.
fn identity(path: &Path) -> Result<(u32, u64), EnforceError> {
    let status = fs::symlink_metadata(path).map_err(EnforceError::io(format!("look at {}", path.display())))?;
    Ok((rustix::fs::major(status.dev()) << 20 | rustix::fs::minor(status.dev()), status.ino()))
}

/// The mount that holds `path` and all mounts above it: detaching one takes those below along.
fn mounts_above(path: &Path) -> Result<Vec<u64>, EnforceError> {
    let failed = |error| EnforceError::io("read the mount table")(error);
    let status = rustix::fs::statx(rustix::fs::CWD, path, AtFlags::empty(), StatxFlags::MNT_ID)
        .map_err(|errno| failed(errno.into()))?;
    let mounts =
        Process::myself().and_then(|me| me.mountinfo()).map_err(|error| failed(std::io::Error::other(error)))?;
    let mut found = Vec::new();
    let mut next = i32::try_from(status.stx_mnt_id).ok();
    while let Some(mount) = next.and_then(|id| mounts.iter().find(|mount| mount.mnt_id == id)) {
        found.push(u64::try_from(mount.mnt_id).unwrap_or(0));
        // The root is its own parent, or has one that is not listed.
        next = (mount.pid != mount.mnt_id).then_some(mount.pid);
    }
    Ok(found)
}
