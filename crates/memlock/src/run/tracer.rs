// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The helper: stops the program before its first instruction, makes it lock its memory, lets it go. With descendants to
//! follow it stays, and does the same at each `execve` and each fork.

use std::collections::HashSet;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;

use rustix::process::{PidfdFlags, PidfdGetfdFlags};
use touchmark_sys::seccomp;
use touchmark_sys::trace::{self, Pid, Resume, Scope, Stop};

use super::inject::{self, Call, Failure};
use super::reason;

/// What the helper has to do.
#[derive(Clone, Copy, Debug)]
pub(super) struct Task {
    /// The program, as a process that has yet to become it.
    pub(super) pid: Pid,
    /// For `mlockall`.
    pub(super) flags: u64,
    /// Whether what cannot be locked runs all the same.
    pub(super) best_effort: bool,
    /// Whether descendants are locked too.
    pub(super) follow: bool,
    /// Whether memory that is to be discarded is discarded although it is locked.
    pub(super) compat: bool,
    /// Whether exec gives a traced process no privileges, and would have without us.
    pub(super) no_elevation: bool,
}

/// The exit code of a program that was not allowed to run unlocked; the same as `touchmark`'s own.
const REFUSED: u64 = 3;

impl Task {
    pub(super) fn scope(&self) -> Scope {
        // The filter of --compat is inherited, and a process that it stops needs a tracer.
        if self.follow || self.compat { Scope::Descendants } else { Scope::Exec }
    }

    /// Follows the process, which is traced already, until there is nothing left to do.
    pub(super) fn work(&self) {
        let mut started = false;
        // Processes and threads that were seen, so that going on after a stop is not taken for a birth.
        let mut known = HashSet::from([self.pid]);
        // It ends when there is no tracee left.
        while let Ok((pid, stop)) = trace::wait(None) {
            // A tracee that was killed meanwhile says so at the next wait.
            let _ = match stop {
                Stop::Ended if pid == self.pid && !started => return,
                Stop::Ended => {
                    known.remove(&pid);
                    Ok(())
                }
                Stop::Exec => {
                    let outcome = self.at_exec(pid, !started);
                    if !started && self.scope() == Scope::Descendants {
                        // A pipe that the program closes must not stay open for our sake.
                        let _ = File::options().write(true).open("/dev/null").map(rustix::stdio::dup2_stderr);
                    }
                    started = true;
                    outcome
                }
                Stop::Attached if known.insert(pid) => self.at_birth(pid),
                Stop::Filtered => discard_locked(pid),
                Stop::Signal(signal) => trace::resume(pid, Resume::Continue, signal),
                Stop::GroupStop => trace::resume(pid, Resume::Listen, 0),
                _ => trace::resume(pid, Resume::Continue, 0),
            };
        }
    }

    /// A program has just been loaded; none of its instructions has run.
    fn at_exec(&self, pid: Pid, first: bool) -> io::Result<()> {
        let mut held = 0;
        // The exec itself must be over: its end writes into the registers.
        loop {
            trace::resume(pid, Resume::ToSystemCall, 0)?;
            match trace::wait(Some(pid))?.1 {
                Stop::SystemCall => break,
                Stop::Signal(signal) => held = signal,
                Stop::Ended => return Ok(()),
                _ => {}
            }
        }
        if !first && !self.follow {
            return self.go_on(pid, held);
        }
        if self.no_elevation && would_be_elevated(pid) {
            let why = "it is setuid, setgid or has file capabilities, which a program that is locked from outside does \
                       not get; run it from a root shell, or without memlock";
            return self.refuse(pid, first, why);
        }
        self.lock(pid, first, held)
    }

    /// A new process or thread. What shares memory that is locked needs nothing.
    fn at_birth(&self, pid: Pid) -> io::Result<()> {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let number = |key: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(key))?;
            line.split_whitespace().next()?.parse::<i64>().ok()
        };
        if !self.follow || number("Tgid:") != Some(i64::from(pid)) || number("VmLck:").is_none_or(|locked| locked > 0) {
            return trace::resume(pid, Resume::Continue, 0);
        }
        self.lock(pid, false, 0)
    }

    fn lock(&self, pid: Pid, first: bool, held: i32) -> io::Result<()> {
        let why = match inject::call(pid, Call::Lock(self.flags)) {
            Ok(done) if done.result == 0 => {
                return self.go_on(pid, if held == 0 { done.signal } else { held });
            }
            Ok(done) => reason::of_mlockall(i32::try_from(-done.result).unwrap_or(0)),
            Err(Failure::Ended) => return Ok(()),
            Err(Failure::NoInstruction) => "no instruction was found in it that makes a system call".to_owned(),
            // Its registers may be ours still.
            Err(Failure::Trace(error)) => return self.refuse(pid, first, &format!("tracing it failed: {error}")),
        };
        if self.best_effort {
            tell(pid, first, &format!("warning: {} runs UNLOCKED: {why}", name(pid)));
            return self.go_on(pid, held);
        }
        self.refuse(pid, first, &why)
    }

    fn go_on(&self, pid: Pid, signal: i32) -> io::Result<()> {
        let stays = self.scope() == Scope::Descendants;
        trace::resume(pid, if stays { Resume::Continue } else { Resume::Detach }, signal)
    }

    /// Ends a program that must not run: in its own name if that can be had, so that its parent sees an exit code.
    fn refuse(&self, pid: Pid, first: bool, why: &str) -> io::Result<()> {
        tell(pid, first, &format!("{} was not started, because it cannot be locked: {why}", name(pid)));
        if !matches!(inject::call(pid, Call::Exit(REFUSED)), Err(Failure::Ended)) {
            trace::kill(pid);
        }
        Ok(())
    }
}

/// The kernel refuses to discard locked memory, unless it is told that one means it.
fn discard_locked(pid: Pid) -> io::Result<()> {
    let mut registers = trace::registers(pid)?;
    // The third argument, in 64-bit and 32-bit programs.
    registers.rdx = u64::from(seccomp::DONTNEED_LOCKED);
    trace::set_registers(pid, &registers)?;
    trace::resume(pid, Resume::Continue, 0)
}

/// Whether a program's file asks for privileges.
fn would_be_elevated(pid: Pid) -> bool {
    let path = format!("/proc/{pid}/exe");
    let set_id = |mode: u32| mode & 0o4000 != 0 || mode & 0o2010 == 0o2010;
    std::fs::metadata(&path).is_ok_and(|file| set_id(file.mode()))
        || rustix::fs::getxattr(&path, "security.capability", &mut [0; 64][..]).is_ok()
}

/// A copy of a tracee's descriptor; opening it by `/proc` would ask for rights to a pipe that another user made.
fn standard_error_of(pid: Pid) -> Option<OwnedFd> {
    let pid = rustix::process::Pid::from_raw(pid)?;
    let process = rustix::process::pidfd_open(pid, PidfdFlags::empty()).ok()?;
    rustix::process::pidfd_getfd(process, 2, PidfdGetfdFlags::empty()).ok()
}

fn name(pid: Pid) -> String {
    let target = std::fs::read_link(format!("/proc/{pid}/exe")).unwrap_or_default();
    let clean = |sign: char| if sign.is_control() { '?' } else { sign };
    target.to_string_lossy().chars().map(clean).collect()
}

/// On standard error: at the start the helper has it too, later it is reached through the program.
fn tell(pid: Pid, first: bool, text: &str) {
    let line = format!("touchmark: {text}\n");
    if first {
        let _ = io::stderr().write_all(line.as_bytes());
    } else if let Some(copy) = standard_error_of(pid) {
        let _ = File::from(copy).write_all(line.as_bytes());
    }
}
