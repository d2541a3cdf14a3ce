// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Running processes that use what is revoked.
//!
//! Files are reached through `/proc/PID/exe` and `/proc/PID/map_files`, so what was deleted or replaced since it was
//! started is seen as well, and so is what runs in another mount namespace.

use std::collections::{BTreeSet, HashMap};
use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::Context;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use procfs::process::{MMPermissions, MMapPath, Process};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use crate::authority::Authority;
use crate::files::check::check_opened;
use crate::files::identity::{Identity, Opened};
use crate::files::scan::BUFFER;

/// How long a process that was killed may take to end.
const END: Duration = Duration::from_secs(5);
/// How often processes are looked for: one that is ended may have left a child that it forked meanwhile.
const ROUNDS: usize = 10;

/// A process that uses a revoked file.
#[derive(Debug)]
pub(crate) struct Running {
    pub(crate) pid: i32,
    /// Its name, which it can choose itself.
    pub(crate) command: String,
    /// The program, or a library; as the kernel names it.
    pub(crate) file: PathBuf,
    pub(crate) reason: String,
    /// Names the process even when its number is used again.
    handle: OwnedFd,
}

/// Looks at processes; every file is read once.
pub(crate) struct Search<'a> {
    authority: &'a Authority,
    known: HashMap<(u64, u64), (Identity, Option<String>)>,
    buffer: Vec<u8>,
}

impl<'a> Search<'a> {
    /// Nothing looked at yet.
    pub(crate) fn new(authority: &'a Authority) -> Self {
        Self { authority, known: HashMap::new(), buffer: vec![0; BUFFER] }
    }

    /// All processes that use something revoked, and each file.
    pub(crate) fn all(&mut self) -> anyhow::Result<Vec<Running>> {
        let mut found = Vec::new();
        for process in procfs::process::all_processes().context("cannot list the processes")?.flatten() {
            // One that ended meanwhile uses nothing.
            found.extend(self.of_process(&process).unwrap_or_default());
        }
        Ok(found)
    }

    /// Ends all processes that use something revoked, but not this one; `tell` hears of each. Returns how many files are
    /// still in use.
    pub(crate) fn stop_all(&mut self, mut tell: impl FnMut(&Running, bool)) -> anyhow::Result<usize> {
        let mut told = BTreeSet::new();
        let mut left = 0;
        for _ in 0..ROUNDS {
            let found = self.all()?;
            let begin = Instant::now();
            let own = i32::try_from(std::process::id()).unwrap_or(0);
            for running in found.iter().filter(|running| running.pid != own) {
                // Ended by itself: as good.
                let _ = pidfd_send_signal(&running.handle, Signal::KILL);
            }
            left = 0;
            let mut news = false;
            for running in &found {
                let ended = running.pid != own && has_ended(running, END.saturating_sub(begin.elapsed()));
                left += usize::from(!ended);
                if told.insert((running.pid, running.file.clone())) {
                    tell(running, ended);
                    news = true;
                }
            }
            if !news {
                break;
            }
        }
        Ok(left)
    }

    fn of_process(&mut self, process: &Process) -> Option<Vec<Running>> {
        let pid = process.pid;
        // Before anything is read of it: from here on it cannot be mistaken for another.
        let handle = pidfd_open(Pid::from_raw(pid)?, PidfdFlags::empty()).ok()?;
        let folder = PathBuf::from(format!("/proc/{pid}"));
        let mut links = vec![folder.join("exe")];
        for map in process.maps().ok()? {
            if map.perms.contains(MMPermissions::EXECUTE) && matches!(map.pathname, MMapPath::Path(_)) {
                let (start, end) = map.address;
                links.push(folder.join(format!("map_files/{start:x}-{end:x}")));
            }
        }
        let mut found: Vec<Running> = Vec::new();
        for link in links {
            let Some((file, reason)) = self.look(&link) else { continue };
            if found.iter().all(|known| known.file != file) {
                let command = process.stat().map(|stat| stat.comm).unwrap_or_default();
                found.push(Running { pid, command, file, reason, handle: handle.try_clone().ok()? });
            }
        }
        Some(found)
    }

    /// The file behind a link of `/proc`, and why it is revoked.
    fn look(&mut self, link: &Path) -> Option<(PathBuf, String)> {
        let opened = Opened::new(File::open(link).ok()?).ok()?;
        let identity = opened.identity();
        let known = self.known.get(&identity.key()).filter(|(known, _)| *known == identity);
        let reason = match known {
            Some((_, reason)) => reason.clone(),
            None => {
                let checked = check_opened(&opened, self.authority, &mut self.buffer).ok()?;
                let reason = checked.is_withdrawn().then(|| checked.reason()).flatten();
                self.known.insert(identity.key(), (identity, reason.clone()));
                reason
            }
        };
        Some((link.read_link().ok()?, reason?))
    }
}

/// Waits until the process has ended, but not longer than this.
fn has_ended(running: &Running, wait: Duration) -> bool {
    let timeout = PollTimeout::try_from(wait).unwrap_or(PollTimeout::ZERO);
    poll(&mut [PollFd::new(running.handle.as_fd(), PollFlags::POLLIN)], timeout).is_ok_and(|ready| ready > 0)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::fs;
    use std::process::{Command, Stdio};

    use touchmark_sign::certificate::Trust;
    use touchmark_sign::digest::Digest;
    use touchmark_sign::revocation::{Reason, RevocationList, Target};

    use super::*;

    /// A program that waits, revoked by its content, and deleted.
    #[test]
    fn a_running_program_is_found_and_stopped_though_deleted() {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("waits");
        let mut bytes = fs::read("/bin/sleep").unwrap();
        bytes.extend_from_slice(b"unlike any other program");
        fs::write(&program, &bytes).unwrap();
        fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        let mut child = Command::new(&program).arg("600").stdout(Stdio::null()).spawn().unwrap();
        fs::remove_file(&program).unwrap();
        let pid = i32::try_from(child.id()).unwrap();

        let entries = BTreeMap::from([(Target::File(Digest::of(&bytes)), Reason::new("test").unwrap())]);
        let list = RevocationList { version: 1, issued: 0, entries };
        let authority = Authority::new(Trust::default(), Some(list));
        let mut search = Search::new(&authority);
        let found = search.all().unwrap();
        let pids: Vec<_> = found.iter().map(|running| running.pid).collect();
        assert_eq!(pids, [pid]);
        assert!(found[0].file.starts_with(folder.path()) && found[0].reason.contains("test"), "{found:?}");

        let mut told = Vec::new();
        let left = search.stop_all(|running, ended| told.push((running.pid, ended))).unwrap();
        assert_eq!((left, told), (0, vec![(pid, true)]));
        let ended = child.wait().unwrap();
        assert_eq!(std::os::unix::process::ExitStatusExt::signal(&ended), Some(9));
        assert!(search.all().unwrap().is_empty());
    }
}
