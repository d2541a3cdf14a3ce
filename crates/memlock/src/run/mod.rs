// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Runs a program that was not written for it with its memory locked.
//!
//! This process becomes the program, so its number, its terminal, its exit status, its signals are the program's own.
//! Before that it starts a helper that is nobody's child and traces it: the helper stops the program between the exec and
//! its first instruction, makes it call `mlockall`, and goes away.

mod foresee;
#[cfg(target_arch = "x86_64")]
mod inject;
mod policy;
mod reason;
#[cfg(target_arch = "x86_64")]
mod tracer;

use std::convert::Infallible;
use std::ffi::{CString, OsStr, OsString};
use std::os::unix::ffi::OsStringExt;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use touchmark_sys::launch;

pub use policy::{Choice, Policy};
pub use reason::RunError;

/// A program to run.
#[derive(Clone, Debug)]
pub struct Request {
    /// The program and its arguments; the first is looked for in `PATH`.
    pub command: Vec<OsString>,
    /// What is locked.
    pub choice: Choice,
    /// The size of stacks in bytes, for threads that ask for none (`RLIMIT_STACK`).
    pub stack: Option<u64>,
    /// Lock what it starts, and what it forks, too.
    pub follow: bool,
    /// Let it discard locked memory (`madvise` with MADV_DONTNEED), which the kernel refuses otherwise.
    pub compat: bool,
    /// Run it unlocked if it cannot be locked.
    pub best_effort: bool,
}

/// Whether a program's work is to start others, or to become another: a shell, a script of one, `env`, `nice`.
#[must_use]
pub fn starts_others(program: &OsStr) -> bool {
    foresee::locate(program).as_deref().is_some_and(foresee::starts_others)
}

/// Whether there is such a program, in `PATH` or where the path says.
#[must_use]
pub fn is_program(program: &OsStr) -> bool {
    foresee::locate(program).is_some()
}

/// Becomes the program; remarks go to `say`, which is not called afterwards.
///
/// # Errors
/// It could not be started, or could not be locked and must not run unlocked. What only shows later ends the program
/// before its first instruction, with exit code 3 and the reason on standard error.
pub fn run(request: Request, say: impl Fn(&str)) -> Result<Infallible, RunError> {
    let policy = request.choice.decide();
    let program = request.command.first().cloned().unwrap_or_default();
    let shown = program.to_string_lossy().into_owned();
    if let Some(bytes) = request.stack {
        let maximum = getrlimit(Resource::Stack).maximum;
        setrlimit(Resource::Stack, Rlimit { current: Some(bytes), maximum })
            .map_err(|error| RunError::Stack { bytes, source: error.into() })?;
    }
    if let Some(flags) = policy.flags() {
        let limit = foresee::raise_limit();
        let path = foresee::locate(&program);
        let known = path.as_ref().and_then(|path| foresee::obstacle(path, policy, request.compat, limit));
        let locked = match known {
            Some(why) => Err(why),
            None if path.is_some() => start_helper(&request, flags),
            // execvp says why it cannot be found.
            None => Ok(()),
        };
        match locked {
            Err(why) if request.best_effort => say(&format!("warning: {shown} runs UNLOCKED: {why}")),
            Err(why) => return Err(RunError::Unlockable { program: shown, why }),
            Ok(()) => {
                if !request.follow && path.as_deref().is_some_and(foresee::starts_others) {
                    say(&format!("warning: only {shown} itself is locked; what it starts needs --follow"));
                }
                if let Some(limit) = limit.filter(|_| policy != Policy::Current) {
                    say(&format!("warning: {}", reason::may_meet(limit)));
                }
            }
        }
    }
    let arguments: Result<Vec<CString>, _> =
        request.command.into_iter().map(|argument| CString::new(argument.into_vec())).collect();
    let source = match arguments {
        Ok(arguments) if !arguments.is_empty() => launch::become_program(&arguments),
        _ => std::io::Error::from(std::io::ErrorKind::InvalidInput),
    };
    let hint = reason::of_exec(&source, policy != Policy::None);
    Err(RunError::Start { program: shown, hint, source })
}

/// Starts the helper; when this returns well it traces this process.
#[cfg(target_arch = "x86_64")]
fn start_helper(request: &Request, flags: u64) -> Result<(), String> {
    use std::io::{Read, Write};
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;

    use touchmark_sys::trace;

    if request.compat && !touchmark_sys::seccomp::can_discard_locked() {
        return Err("--compat needs Linux 5.18, which can discard locked memory".to_owned());
    }
    let failed = |error: std::io::Error| format!("the helper that locks it cannot be started: {error}");
    let pid = rustix::process::getpid().as_raw_nonzero().get();
    let task = tracer::Task {
        pid,
        flags,
        best_effort: request.best_effort,
        follow: request.follow,
        compat: request.compat,
        no_elevation: foresee::elevation_is_lost(),
    };
    let (mut ours, kept) = UnixStream::pair().map_err(failed)?;
    launch::detached(kept.as_fd(), || {
        let mut kept = &kept;
        // Who it is; then it may; then how it went.
        let number = rustix::process::getpid().as_raw_nonzero().get();
        let mut go = [0; 1];
        if kept.write_all(&number.to_ne_bytes()).is_err() || kept.read_exact(&mut go).is_err() {
            return;
        }
        let outcome = trace::seize(task.pid, task.scope());
        let code = outcome.as_ref().err().map_or(0, |error| error.raw_os_error().unwrap_or(-1));
        if kept.write_all(&code.to_ne_bytes()).is_ok() && outcome.is_ok() {
            task.work();
        }
    })
    .map_err(failed)?;
    // Should the helper die, reading ends.
    drop(kept);
    let mut word = [0; 4];
    ours.read_exact(&mut word).map_err(failed)?;
    trace::allow_tracer(i32::from_ne_bytes(word));
    ours.write_all(&[1]).and_then(|()| ours.read_exact(&mut word)).map_err(failed)?;
    match i32::from_ne_bytes(word) {
        0 if request.compat => touchmark_sys::seccomp::show_discarding()
            .map_err(|error| format!("--compat needs a system call filter, which this process may not have: {error}")),
        0 => Ok(()),
        number => Err(reason::of_seize(&std::io::Error::from_raw_os_error(number))),
    }
}

/// Registers differ from machine to machine, and only this one was tried.
#[cfg(not(target_arch = "x86_64"))]
fn start_helper(_: &Request, _: u64) -> Result<(), String> {
    Err("programs can be locked from outside on x86-64 only".to_owned())
}
