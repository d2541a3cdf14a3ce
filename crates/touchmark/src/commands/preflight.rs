// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Before anything is enforced: would what keeps the machine usable still run?
//!
//! Everything that a process in scope has mapped executable now, and the programs one needs to get back in, must be
//! approved.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use anyhow::Context;
use procfs::process::{MMPermissions, MMapPath, Process};
use touchmark_enforce::{Approval, Scope, probe};

use crate::authority::Authority;
use crate::files::container::Container;
use crate::{daemon, files, text};

/// Not running now, perhaps, but needed to log in and undo things. Where a distribution has none of a name, it is left
/// out.
const WAY_BACK: &[&str] = &[
    "/bin/sh",
    "/bin/bash",
    "/bin/login",
    "/usr/bin/sudo",
    "/sbin/agetty",
    "/usr/sbin/sshd",
    // From OpenSSH 9.8 and 10.0 on, sshd starts these for every connection.
    "/usr/lib/openssh/sshd-session",
    "/usr/lib/openssh/sshd-auth",
    "/usr/lib/ssh/sshd-session",
    "/usr/lib/ssh/sshd-auth",
    "/usr/libexec/openssh/sshd-session",
    "/usr/libexec/openssh/sshd-auth",
    "/usr/libexec/sshd-session",
    "/usr/libexec/sshd-auth",
    // From systemd 255 on, every service is started through the first; the second ends the machine.
    "/usr/lib/systemd/systemd-executor",
    "/usr/lib/systemd/systemd-shutdown",
];
/// Where PAM keeps its modules: login, sshd and sudo load them when somebody comes.
const PAM: &[&str] = &["lib/security", "lib64/security", "usr/lib/security", "usr/lib64/security"];
/// How many files the message names.
const NAMED: usize = 10;

/// Fails if something that runs now, or is needed to get back in, would be refused. Returns what to approve:
/// files that are signed, but not in a way that the kernel checks by itself.
pub(super) fn check(scope: &Scope, authority: &Authority) -> anyhow::Result<Vec<Approval>> {
    let kernel_verifies = probe::verifies_signatures();
    let mut refused = Vec::new();
    let mut approvals = Vec::new();
    for path in candidates(scope)? {
        match files::check_path(&path, authority).and_then(|checked| Ok((checked.approval(authority)?, checked))) {
            Ok((_, checked)) if kernel_verifies && checked.holds(Container::Xattr) == Some(true) => {}
            Ok((approval, _)) => approvals.push(approval),
            Err(_) => refused.push(path),
        }
    }
    if refused.is_empty() {
        return Ok(approvals);
    }
    let names: Vec<_> = refused.iter().take(NAMED).map(|path| format!("  {}", text::printable(path))).collect();
    let more = refused.len().saturating_sub(NAMED);
    anyhow::bail!(
        "{} file(s) that run now, or are needed to log in, would be refused:\n{}{}\n\
         sign them (touchmark sign -r ...), or start with --mode permissive and look at `touchmark events`; \
         --trial 10m limits the damage, --force goes ahead",
        refused.len(),
        names.join("\n"),
        if more > 0 { format!("\n  ... and {more} more") } else { String::new() }
    )
}

fn candidates(scope: &Scope) -> anyhow::Result<BTreeSet<PathBuf>> {
    let mut paths = BTreeSet::new();
    // Whoever enforces a cgroup gets back in from outside of it.
    if !matches!(scope, Scope::Cgroup(_)) {
        paths.extend(WAY_BACK.iter().map(PathBuf::from));
        paths.extend(pam_modules(Path::new("/")));
        paths.insert(daemon::executable()?);
    }
    for process in procfs::process::all_processes()?.flatten() {
        // Processes come and go; kernel threads map nothing.
        if !in_scope(&process, scope) {
            continue;
        }
        let Ok(maps) = process.maps() else { continue };
        paths.extend(maps.into_iter().filter_map(|map| match map.pathname {
            MMapPath::Path(path) if map.perms.contains(MMPermissions::EXECUTE) => Some(path),
            _ => None,
        }));
    }
    let device = match scope {
        Scope::Mount(path) => {
            Some(fs::metadata(path).with_context(|| format!("cannot look at {}", path.display()))?.dev())
        }
        _ => None,
    };
    // Processes in another mount namespace have paths that are not there, or are other files here.
    paths.retain(|path| fs::metadata(path).is_ok_and(|file| device.is_none_or(|device| file.dev() == device)));
    Ok(paths)
}

/// The PAM modules of the system below `root`. Folders that are not there hold none.
fn pam_modules(root: &Path) -> Vec<PathBuf> {
    let entries = |folder: PathBuf| fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    // Debian has them by architecture: usr/lib/x86_64-linux-gnu/security.
    let by_architecture = entries(root.join("usr/lib")).map(|folder| folder.join("security"));
    let folders = PAM.iter().map(|folder| root.join(folder)).chain(by_architecture);
    folders.flat_map(entries).filter(|path| path.extension().is_some_and(|ending| ending == "so")).collect()
}

/// Whether the process's executions would be checked. A file system's files are sorted out by their device.
fn in_scope(process: &Process, scope: &Scope) -> bool {
    let Scope::Cgroup(path) = scope else { return true };
    let groups = process.cgroups().map(|groups| groups.0).unwrap_or_default();
    // Version 2 has the hierarchy number 0, and its paths begin at the mount that `path` is below.
    let own = groups.iter().find(|group| group.hierarchy == 0).map(|group| group.pathname.trim_matches('/'));
    own.is_some_and(|own| Path::new("/sys/fs/cgroup").join(own).starts_with(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pam_modules_are_found_where_distributions_have_them() {
        let root = tempfile::tempdir().unwrap();
        for folder in ["lib/security", "usr/lib/x86_64-linux-gnu/security", "usr/lib64/security", "usr/lib/other"] {
            let folder = root.path().join(folder);
            fs::create_dir_all(&folder).unwrap();
            for name in ["pam_unix.so", "pam.conf"] {
                fs::write(folder.join(name), "").unwrap();
            }
        }
        let mut found = pam_modules(root.path());
        found.sort();
        let wanted = ["lib/security", "usr/lib/x86_64-linux-gnu/security", "usr/lib64/security"];
        assert_eq!(found, wanted.map(|folder| root.path().join(folder).join("pam_unix.so")));
    }
}
