// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Whose executions are checked: everyone's, those of a cgroup, or those of files on one file system.

use std::fmt;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use procfs::process::{MountInfo, Process};
use rustix::fs::{AtFlags, StatxFlags};

use crate::EnforceError;

/// As given on the command line: `all`, `cgroup:PATH` or `mount:PATH`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Scope {
    /// Every execution on the machine.
    #[default]
    All,
    /// Executions by tasks in this cgroup (version 2) and its descendants.
    Cgroup(PathBuf),
    /// Executions of files on the file system mounted at this path, through whatever mount they are reached.
    Mount(PathBuf),
}

/// A scope in the kernel's terms: `enum tm_scope`, `scope_id` and `cgroup_level`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ResolvedScope {
    pub(crate) kind: u8,
    pub(crate) id: u64,
    pub(crate) cgroup_level: u16,
}

/// The inode number of the initial cgroup namespace (`PROC_CGROUP_INIT_INO` of include/linux/proc_ns.h).
const INITIAL_CGROUP_NAMESPACE: u64 = 0xEFFF_FFFB;

impl Scope {
    /// Finds what the path stands for now: a cgroup's id and depth, or a file system's device number.
    pub(crate) fn resolve(&self) -> Result<ResolvedScope, EnforceError> {
        match self {
            Self::All => Ok(ResolvedScope { kind: 0, id: 0, cgroup_level: 0 }),
            Self::Cgroup(path) => self.resolve_cgroup(path),
            Self::Mount(path) => self.resolve_mount(path),
        }
    }

    fn resolve_cgroup(&self, path: &Path) -> Result<ResolvedScope, EnforceError> {
        let path = fs::canonicalize(path).map_err(|error| self.error(error))?;
        let mount = self.mount_of(&path)?;
        if mount.fs_type != "cgroup2" {
            return Err(self.error(format!("expected a cgroup2 folder, found one on {}", mount.fs_type)));
        }
        let namespace = fs::metadata("/proc/self/ns/cgroup").map_err(|error| self.error(error))?;
        if namespace.ino() != INITIAL_CGROUP_NAMESPACE || mount.root != "/" {
            return Err(self.error("expected the whole cgroup tree, found a part of it (a container?)"));
        }
        let level = path.strip_prefix(&mount.mount_point).map_err(|error| self.error(error))?.components().count();
        // A cgroup's id is its inode number (include/linux/kernfs.h, kernfs_id).
        let id = fs::metadata(&path).map_err(|error| self.error(error))?.ino();
        let cgroup_level = u16::try_from(level).map_err(|error| self.error(error))?;
        Ok(ResolvedScope { kind: 1, id, cgroup_level })
    }

    fn resolve_mount(&self, path: &Path) -> Result<ResolvedScope, EnforceError> {
        let mount = self.mount_of(path)?;
        let (major, minor) = mount
            .majmin
            .split_once(':')
            .and_then(|(major, minor)| Some((major.parse::<u64>().ok()?, minor.parse::<u64>().ok()?)))
            .ok_or_else(|| self.error(format!("expected MAJOR:MINOR, found {}", mount.majmin)))?;
        // MKDEV of include/linux/kdev_t.h, which is how super_block.s_dev is kept.
        Ok(ResolvedScope { kind: 2, id: major << 20 | minor, cgroup_level: 0 })
    }

    /// The mount that holds `path`. mountinfo's device is the superblock's, which stat(2) hides on btrfs.
    fn mount_of(&self, path: &Path) -> Result<MountInfo, EnforceError> {
        let status = rustix::fs::statx(rustix::fs::CWD, path, AtFlags::empty(), StatxFlags::MNT_ID)
            .map_err(|error| self.error(error))?;
        let mounts = Process::myself().and_then(|me| me.mountinfo()).map_err(|error| self.error(error))?;
        mounts
            .into_iter()
            .find(|mount| u64::try_from(mount.mnt_id).is_ok_and(|id| id == status.stx_mnt_id))
            .ok_or_else(|| self.error(format!("expected mount {} in mountinfo, found none", status.stx_mnt_id)))
    }

    fn error(&self, reason: impl fmt::Display) -> EnforceError {
        EnforceError::Scope { scope: self.to_string(), reason: reason.to_string() }
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::All => f.write_str("all"),
            Self::Cgroup(path) => write!(f, "cgroup:{}", path.display()),
            Self::Mount(path) => write!(f, "mount:{}", path.display()),
        }
    }
}

impl FromStr for Scope {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.split_once(':') {
            None if text == "all" => Ok(Self::All),
            Some(("cgroup", path)) if !path.is_empty() => Ok(Self::Cgroup(path.into())),
            Some(("mount", path)) if !path.is_empty() => Ok(Self::Mount(path.into())),
            _ => Err(format!("expected all, cgroup:PATH or mount:PATH, found `{text}`")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scopes_convert_back() {
        for text in ["all", "cgroup:/sys/fs/cgroup/a b", "mount:/"] {
            assert_eq!(text.parse::<Scope>().expect("valid").to_string(), text);
        }
        for text in ["", "everything", "cgroup:", "mount", "disk:/"] {
            assert!(text.parse::<Scope>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_mount_resolves_to_the_device_of_its_superblock() {
        let resolved = Scope::Mount("/proc".into()).resolve().expect("/proc is mounted");
        let device = fs::metadata("/proc").expect("stat").dev();
        assert_eq!(resolved.kind, 2);
        assert_eq!(resolved.id, u64::from(rustix::fs::major(device)) << 20 | u64::from(rustix::fs::minor(device)));
    }

    #[test]
    fn a_folder_elsewhere_is_no_cgroup() {
        let error = Scope::Cgroup("/proc".into()).resolve().expect_err("not a cgroup");
        assert!(error.to_string().contains("expected a cgroup2 folder, found one on proc"), "{error}");
    }
}
