// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Where programs, maps and links are pinned, so that they outlive every process.
//!
//! A new set is pinned in a folder of its own and renamed into place as a whole: after a crash there is the old set or
//! the new one, never half of one.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use libbpf_rs::{MapCore, MapHandle, Object};
use rustix::fs::{AtFlags, CWD, FileType, StatxFlags, statx};

use crate::EnforceError;

/// Where the BPF file system is mounted.
const BPFFS: &str = "/sys/fs/bpf";
const DIRECTORY: &str = "touchmark";
/// Where a new set is put together. bpffs refuses dots in names.
const FRESH: &str = "touchmark_new";
const FOLDERS: [&str; 3] = ["maps", "programs", "links"];
/// `BPF_FS_MAGIC` of uapi/linux/magic.h.
const BPF_FS_MAGIC: u64 = 0xcafe_4a11;

/// The folder of the set that counts.
pub(crate) fn directory() -> PathBuf {
    Path::new(BPFFS).join(DIRECTORY)
}

/// Whether a set is pinned.
pub(crate) fn exist() -> Result<bool, EnforceError> {
    check_bpffs()?;
    directory().try_exists().map_err(EnforceError::io(format!("look at {}", directory().display())))
}

/// Attaches every program of `object` and pins programs, maps and links as the set that counts.
pub(crate) fn attach_and_pin(object: &mut Object) -> Result<(), EnforceError> {
    check_bpffs()?;
    let fresh = Path::new(BPFFS).join(FRESH);
    remove(&fresh)?;
    let result = pin_into(object, &fresh).and_then(|()| {
        fs::rename(&fresh, directory()).map_err(EnforceError::io(format!("rename {} into place", fresh.display())))
    });
    // Unpinned links detach their programs, so a failure leaves nothing active.
    result.inspect_err(|_| drop(remove(&fresh)))
}

/// Unpins the set that counts, and what a killed run left half-made. Without pins the kernel detaches the programs.
pub(crate) fn remove_all() -> Result<(), EnforceError> {
    remove(&directory())?;
    remove(&Path::new(BPFFS).join(FRESH))
}

/// Opens a pinned map of the set that counts.
pub(crate) fn map(name: &'static str) -> Result<MapHandle, EnforceError> {
    let path = directory().join("maps").join(name);
    MapHandle::from_pinned_path(&path).map_err(|error| match error.kind() {
        // Nothing else keeps root from a pin.
        libbpf_rs::ErrorKind::PermissionDenied if rustix::process::geteuid().is_root() => {
            EnforceError::NotRecognized { path }
        }
        _ => EnforceError::kernel(format!("open {}", path.display()))(error),
    })
}

/// Fails if something lies over a pin, or a pin has a second name: then a map that is opened by its name need not be the
/// one that the kernel's programs use.
pub(crate) fn check() -> Result<(), EnforceError> {
    let pins = all()?;
    check_mounts(Path::new(BPFFS), pins.iter().map(PathBuf::as_path))
}

fn check_mounts<'a>(top: &Path, pins: impl Iterator<Item = &'a Path>) -> Result<(), EnforceError> {
    let look = |path: &Path| {
        statx(CWD, path, AtFlags::SYMLINK_NOFOLLOW, StatxFlags::MNT_ID | StatxFlags::BASIC_STATS)
            .map_err(|errno| EnforceError::io(format!("look at {}", path.display()))(errno.into()))
    };
    let mount = look(top)?.stx_mnt_id;
    for path in pins {
        let found = look(path)?;
        let reason = if found.stx_mnt_id != mount {
            "something is mounted over it"
        } else if !FileType::from_raw_mode(found.stx_mode.into()).is_dir() && found.stx_nlink != 1 {
            "it has more than one name"
        } else {
            continue;
        };
        return Err(EnforceError::ForeignPin { path: path.to_owned(), reason });
    }
    Ok(())
}

/// The names pinned in a subfolder of the set that counts.
pub(crate) fn names(folder: &str) -> Result<Vec<PathBuf>, EnforceError> {
    let folder = directory().join(folder);
    let list = || -> io::Result<Vec<PathBuf>> {
        let mut paths: Vec<_> = fs::read_dir(&folder)?.map(|entry| Ok(entry?.path())).collect::<io::Result<_>>()?;
        paths.sort();
        Ok(paths)
    };
    list().map_err(EnforceError::io(format!("list {}", folder.display())))
}

/// Everything pinned in the set that counts, its folders included.
pub(crate) fn all() -> Result<Vec<PathBuf>, EnforceError> {
    let mut paths = vec![directory()];
    for folder in FOLDERS {
        paths.push(directory().join(folder));
        paths.extend(names(folder)?);
    }
    Ok(paths)
}

fn pin_into(object: &mut Object, root: &Path) -> Result<(), EnforceError> {
    for folder in FOLDERS {
        let path = root.join(folder);
        fs::create_dir_all(&path).map_err(EnforceError::io(format!("create {}", path.display())))?;
    }
    for mut map in object.maps_mut() {
        let name = map.name().to_owned();
        let path = root.join("maps").join(&name);
        // bpffs refuses dots in names; such maps (.rodata) are libbpf's own.
        if !name.to_string_lossy().contains('.') {
            map.pin(&path).map_err(EnforceError::kernel(format!("pin the map {}", path.display())))?;
        }
    }
    for mut program in object.progs_mut().filter(|program| program.autoload()) {
        let name = program.name().to_owned();
        let failed = |action: &str| EnforceError::kernel(format!("{action} the program {}", name.to_string_lossy()));
        program.pin(root.join("programs").join(&name)).map_err(failed("pin"))?;
        let mut link = program.attach_lsm().map_err(failed("attach"))?;
        link.pin(root.join("links").join(&name)).map_err(failed("pin the link of"))?;
    }
    Ok(())
}

fn remove(path: &Path) -> Result<(), EnforceError> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other.map_err(EnforceError::io(format!("remove {}", path.display()))),
    }
}

fn check_bpffs() -> Result<(), EnforceError> {
    let found = rustix::fs::statfs(BPFFS).is_ok_and(|fs| u64::try_from(fs.f_type).is_ok_and(|t| t == BPF_FS_MAGIC));
    if found { Ok(()) } else { Err(EnforceError::NoBpffs { path: BPFFS.into() }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mount_over_a_pin_and_a_second_name_are_noticed() {
        let folder = tempfile::tempdir().unwrap();
        let (one, other) = (folder.path().join("one"), folder.path().join("other"));
        fs::write(&one, "").unwrap();
        let check = |path: &Path| check_mounts(folder.path(), [folder.path(), path].into_iter());
        check(&one).unwrap();
        fs::hard_link(&one, &other).unwrap();
        assert!(check(&one).unwrap_err().to_string().contains("more than one name"));
        // Any file of another mount.
        assert!(check(Path::new("/proc/version")).unwrap_err().to_string().contains("mounted over"));
    }
}
