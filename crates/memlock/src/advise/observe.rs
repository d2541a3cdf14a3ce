// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Runs a program and watches what it maps and touches.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use procfs::process::Process;
use rustix::process::{Pid, Signal};
use serde::Serialize;
use touchmark_sys::usage;

use crate::mapping::Mapping;
use crate::smaps;

/// What one run needed; sizes in bytes. Memory is that of the program itself, faults include its descendants'.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Observation {
    /// From its start to its end, touchmark's part in the start included.
    pub seconds: f64,
    /// Its exit code; `None` if it was ended by a signal.
    pub code: Option<i32>,
    /// It was still running when its time was up.
    pub cut: bool,
    /// The most it had in memory (`VmHWM`).
    pub resident: u64,
    /// The most it had mapped (`VmPeak`).
    pub mapped: u64,
    /// The most it had mapped for access, anonymous or private to it: what `future` brings into memory.
    pub accessible: u64,
    /// Of those: pages of files, which come in groups.
    pub accessible_files: u64,
    /// Page faults without and with the disk.
    pub minor_faults: u64,
    /// With the disk.
    pub major_faults: u64,
    /// The most threads at a time.
    pub threads: u64,
    /// How often it was looked at.
    pub samples: u64,
}

/// Looking must not disturb: it takes at most this part of the time.
const SHARE: u32 = 10;
/// The shortest time between two looks.
const SHORTEST: Duration = Duration::from_millis(1);

/// Runs `command` (whose first words may be `touchmark memlock run`) for at most `most`, with its output thrown away.
///
/// # Errors
/// It cannot be started.
pub fn observe(command: &[OsString], most: Duration) -> io::Result<Observation> {
    let (program, arguments) = command.split_first().ok_or(io::ErrorKind::InvalidInput)?;
    let start = Instant::now();
    let child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()?;
    let ended = AtomicBool::new(false);
    let launcher = fs::read_link("/proc/self/exe").unwrap_or_default();
    let watch = || {
        let mut seen = Observation::default();
        while !ended.load(Ordering::Acquire) {
            let before = Instant::now();
            // Before the exec it is still the launcher.
            if fs::read_link(format!("/proc/{}/exe", child.id())).is_ok_and(|now| now != launcher) {
                look(child.id(), &mut seen);
            }
            if start.elapsed() > most && !seen.cut {
                seen.cut = true;
                end(child.id(), Signal::TERM);
            } else if start.elapsed() > most + Duration::from_secs(5) {
                end(child.id(), Signal::KILL);
            }
            std::thread::sleep((before.elapsed() * SHARE).max(SHORTEST));
        }
        seen
    };
    std::thread::scope(|scope| {
        let watcher = scope.spawn(watch);
        let outcome = usage::wait(child.id());
        let seconds = start.elapsed().as_secs_f64();
        ended.store(true, Ordering::Release);
        let seen = watcher.join().unwrap_or_default();
        let outcome = outcome?;
        Ok(Observation {
            seconds,
            code: outcome.code,
            minor_faults: outcome.minor_faults,
            major_faults: outcome.major_faults,
            ..seen
        })
    })
}

/// What a process that runs already has needed so far.
///
/// # Errors
/// It cannot be looked at.
pub fn of_running(pid: u32) -> io::Result<Observation> {
    let mut seen = Observation::default();
    look(pid, &mut seen);
    let stat = Process::new(i32::try_from(pid).unwrap_or(0)).and_then(|process| process.stat());
    let stat = stat.map_err(io::Error::other)?;
    if seen.samples == 0 {
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    (seen.minor_faults, seen.major_faults) = (stat.minflt, stat.majflt);
    Ok(seen)
}

fn look(pid: u32, seen: &mut Observation) {
    let Ok(number) = i32::try_from(pid) else { return };
    let Ok(status) = Process::new(number).and_then(|process| process.status()) else { return };
    let Ok(maps) = fs::read(format!("/proc/{pid}/maps")) else { return };
    let mappings = smaps::parse(&maps);
    if mappings.is_empty() {
        return;
    }
    let kib = |number: Option<u64>| number.unwrap_or(0).saturating_mul(1024);
    seen.resident = seen.resident.max(kib(status.vmhwm));
    seen.mapped = seen.mapped.max(kib(status.vmpeak));
    seen.threads = seen.threads.max(status.threads);
    let accessible: u64 = mappings.iter().filter(|one| fills_memory(one)).map(Mapping::size).sum();
    if accessible > seen.accessible {
        seen.accessible = accessible;
        let files = mappings.iter().filter(|one| fills_memory(one) && one.name.starts_with('/'));
        seen.accessible_files = files.map(Mapping::size).sum();
    }
    seen.samples += 1;
}

/// What `mlockall` brings into memory: not what may not be accessed, nor the kernel's own pages.
fn fills_memory(mapping: &Mapping) -> bool {
    let kernels = ["[vvar", "[vdso", "[vsyscall"].into_iter().any(|name| mapping.name.starts_with(name));
    !mapping.is_reserve() && !kernels && !mapping.name.starts_with("/dev/")
}

fn end(pid: u32, signal: Signal) {
    if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
        let _ = rustix::process::kill_process(pid, signal);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(words: &[&str]) -> Vec<OsString> {
        words.iter().map(OsString::from).collect()
    }

    #[test]
    fn a_run_is_watched_and_cut() {
        let command = words(&["sh", "-c", "exec sleep 600"]);
        let seen = observe(&command, Duration::from_millis(200)).expect("sh");
        assert!(seen.cut && seen.code.is_none(), "{seen:?}");
        assert!(seen.samples > 1 && seen.threads == 1 && seen.minor_faults > 0, "{seen:?}");
        assert!(seen.resident > 0 && seen.accessible > seen.accessible_files && seen.mapped > seen.resident);
        assert!(observe(&words(&["/nonexistent"]), Duration::ZERO).is_err());
        assert_eq!(observe(&words(&["sh", "-c", "exit 5"]), Duration::from_secs(9)).expect("sh").code, Some(5));
    }

    #[test]
    fn a_running_process_is_looked_at() {
        let seen = of_running(std::process::id()).expect("this process");
        assert!(seen.resident > 0 && seen.minor_faults > 0);
        assert!(of_running(u32::MAX).is_err());
    }
}
