// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Admission at exec: a program whose signature travels inside the file is approved in time.
//!
//! The kernel's programs cannot check an embedded signature, because BPF cannot hash a file without a part of it. So
//! fanotify holds the exec (`FAN_OPEN_EXEC_PERM`, which opens for reading and mapping never raise) while user space
//! checks the file and approves its digest. The answer to fanotify is always "allow": the decision stays with the LSM
//! program, which hashes the file itself. If this process dies, the kernel drops the group and execs go on undelayed.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::fanotify::{EventFFlags, Fanotify, FanotifyResponse, InitFlags, MarkFlags, MaskFlags, Response};
use procfs::process::Process;

use crate::EnforceError;

/// What to do with a file after it was looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Look {
    /// Until it is modified, do not show it again.
    Once,
    /// Show it at every exec.
    Again,
}

/// A fanotify group that sees every exec before it happens.
pub struct Admission {
    group: Fanotify,
}

/// File systems that hold no programs, or whose server we might be keeping from answering.
const SKIPPED: &[&str] = &[
    "autofs",
    "binfmt_misc",
    "bpf",
    "cgroup",
    "cgroup2",
    "configfs",
    "debugfs",
    "devpts",
    "efivarfs",
    "fuse",
    "fusectl",
    "hugetlbfs",
    "mqueue",
    "nsfs",
    "proc",
    "pstore",
    "rpc_pipefs",
    "securityfs",
    "selinuxfs",
    "sysfs",
    "tracefs",
    "virtiofs",
];

impl Admission {
    /// Opens the group and marks all mounted file systems.
    ///
    /// # Errors
    /// No permission, or a kernel without fanotify permission events.
    pub fn open() -> Result<Self, EnforceError> {
        let group = Fanotify::init(
            InitFlags::FAN_CLASS_CONTENT | InitFlags::FAN_CLOEXEC | InitFlags::FAN_UNLIMITED_QUEUE,
            EventFFlags::O_RDONLY | EventFFlags::O_LARGEFILE | EventFFlags::O_CLOEXEC,
        )
        .map_err(|errno| EnforceError::io("open a fanotify group")(errno.into()))?;
        let admission = Self { group };
        admission.mark_mounted()?;
        Ok(admission)
    }

    /// Marks what was mounted since; marking again changes nothing.
    ///
    /// # Errors
    /// The mount table cannot be read.
    pub fn mark_mounted(&self) -> Result<(), EnforceError> {
        let mounts = Process::myself()
            .and_then(|me| me.mountinfo())
            .map_err(|error| EnforceError::io("read the mount table")(io::Error::other(error)))?;
        for mount in mounts {
            if SKIPPED.contains(&mount.fs_type.as_str()) || mount.fs_type.starts_with("fuse.") {
                continue;
            }
            // A mount that is gone again, or hidden under another, needs no mark.
            let _ = self.group.mark(
                MarkFlags::FAN_MARK_ADD | MarkFlags::FAN_MARK_FILESYSTEM,
                MaskFlags::FAN_OPEN_EXEC_PERM,
                rustix::fs::CWD,
                Some(mount.mount_point.as_path()),
            );
        }
        Ok(())
    }

    /// Waits for execs and shows each file to `look`, until the group fails. Several threads may serve one group.
    ///
    /// # Errors
    /// The group cannot be read any more.
    pub fn serve(&self, look: impl Fn(BorrowedFd<'_>) -> Look) -> Result<(), EnforceError> {
        loop {
            let events = match self.group.read_events() {
                Ok(events) => events,
                Err(Errno::EINTR | Errno::EAGAIN) => continue,
                Err(errno) => return Err(EnforceError::io("read fanotify events")(errno.into())),
            };
            for event in &events {
                let Some(file) = event.fd() else { continue };
                if look(file) == Look::Once {
                    self.ignore(file);
                }
                // The exec waits for this answer. It fails only if the process is gone.
                let _ = self.group.write_response(FanotifyResponse::new(file, Response::FAN_ALLOW));
            }
        }
    }

    /// The kernel clears the mark when the file is modified, and may drop it with the inode.
    fn ignore(&self, file: BorrowedFd<'_>) {
        let flags = MarkFlags::FAN_MARK_ADD | MarkFlags::FAN_MARK_IGNORED_MASK | MarkFlags::FAN_MARK_EVICTABLE;
        // Without the mark the file is shown again, which is slower and as safe.
        let _ = self.group.mark(flags, MaskFlags::FAN_OPEN_EXEC_PERM, file, None::<&Path>);
    }
}

/// Blocks until the mount table changes (`proc_pid_mountinfo(5)`: the file polls as an exceptional condition).
///
/// # Errors
/// The table cannot be opened or polled.
pub fn wait_for_mounts() -> Result<(), EnforceError> {
    let table = std::fs::File::open("/proc/self/mountinfo").map_err(EnforceError::io("open the mount table"))?;
    let mut polled = [PollFd::new(table.as_fd(), PollFlags::POLLPRI)];
    match poll(&mut polled, PollTimeout::NONE) {
        Ok(_) | Err(Errno::EINTR) => Ok(()),
        Err(errno) => Err(EnforceError::io("poll the mount table")(errno.into())),
    }
}
