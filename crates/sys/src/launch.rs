// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Becoming another program without leaving a trace in it, and a helper process that it never notices.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::sync::atomic::{AtomicU8, Ordering};

/// Bits 0 to 2: this standard descriptor was closed when the process began; bit 3: SIGPIPE was ignored.
///
/// Rust opens what is closed and ignores SIGPIPE before `main`, so only code that runs earlier can know.
static INHERITED: AtomicU8 = AtomicU8::new(0);

const PIPE_IGNORED: u8 = 1 << 3;

#[used]
// SAFETY: the C library calls what is in this section before `main`, with arguments that the function may ignore.
#[unsafe(link_section = ".init_array")]
static LOOK: extern "C" fn() = look;

/// Only makes system calls: nothing of Rust's runtime is ready yet.
extern "C" fn look() {
    let mut found = 0;
    for descriptor in 0..3 {
        // SAFETY: the call takes numbers.
        if unsafe { libc::fcntl(descriptor, libc::F_GETFD) } == -1 {
            found |= 1 << descriptor;
        }
    }
    let mut action = std::mem::MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: the call fills a structure of this type.
    if unsafe { libc::sigaction(libc::SIGPIPE, std::ptr::null(), action.as_mut_ptr()) } == 0 {
        // SAFETY: the kernel filled it.
        let action = unsafe { action.assume_init() };
        if action.sa_sigaction == libc::SIG_IGN {
            found |= PIPE_IGNORED;
        }
    }
    INHERITED.store(found, Ordering::Relaxed);
}

/// Becomes another program, found in `PATH` as a shell would. It inherits what this process inherited: Rust's changes to
/// SIGPIPE and to closed standard descriptors are undone, the signal mask is left alone.
///
/// Returns only when that fails, with the reason.
pub fn become_program(arguments: &[CString]) -> io::Error {
    let mut pointers: Vec<_> = arguments.iter().map(|argument| argument.as_ptr()).collect();
    pointers.push(std::ptr::null());
    let inherited = INHERITED.load(Ordering::Relaxed);
    for descriptor in 0..3 {
        if inherited & (1 << descriptor) != 0 {
            set_close_on_exec(descriptor);
        }
    }
    let ours = set_sigpipe(if inherited & PIPE_IGNORED == 0 { libc::SIG_DFL } else { libc::SIG_IGN });
    // SAFETY: the array ends with a null pointer, and its strings with NUL; all outlive the call.
    unsafe { libc::execvp(pointers[0], pointers.as_ptr()) };
    let error = io::Error::last_os_error();
    set_sigpipe(ours);
    error
}

/// What Rust opened in place of a closed descriptor goes away with the exec.
fn set_close_on_exec(descriptor: i32) {
    // SAFETY: the call takes numbers.
    unsafe { libc::fcntl(descriptor, libc::F_SETFD, libc::FD_CLOEXEC) };
}

fn set_sigpipe(handler: libc::sighandler_t) -> libc::sighandler_t {
    // SAFETY: the handler is one of the two that are no function, or was set before.
    unsafe { libc::signal(libc::SIGPIPE, handler) }
}

/// Runs `work` in a process of its own, in a session of its own, that is no child of this one: neither a wait nor a
/// signal will ever tell of it. It keeps standard error and the descriptor `keep`, no other, and the root folder; no
/// signal but SIGKILL disturbs it, and it ends when `work` returns.
///
/// # Errors
/// This process has several threads, of which a fork would copy only one; or what `clone` reports.
pub fn detached(keep: BorrowedFd<'_>, work: impl FnOnce()) -> io::Result<()> {
    let threads = std::fs::read_dir("/proc/self/task").map_or(1, Iterator::count);
    if threads != 1 {
        return Err(io::Error::other(format!("expected a process of one thread, found {threads}")));
    }
    match clone()? {
        0 => {
            // SAFETY: the call takes nothing.
            unsafe { libc::setsid() };
            match clone() {
                Ok(0) => {
                    shed(keep.as_raw_fd());
                    work();
                    leave()
                }
                _ => leave(),
            }
        }
        child => {
            let mut status = 0;
            // SAFETY: the status is an int to be filled. Should the wait fail, nobody needs its answer.
            unsafe { libc::waitpid(child, &raw mut status, libc::__WALL) };
            Ok(())
        }
    }
}

/// A fork whose child ends without a signal to the parent: one that is blocked would be seen by the next program.
fn clone() -> io::Result<libc::pid_t> {
    // SAFETY: without flags the child is a copy of this process, which has one thread.
    let child = unsafe { libc::syscall(libc::SYS_clone, 0, 0, 0, 0, 0) };
    match libc::pid_t::try_from(child) {
        Ok(child @ 0..) => Ok(child),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Gives up what would tie the helper to the place it came from.
fn shed(keep: i32) {
    let mut all = std::mem::MaybeUninit::<libc::sigset_t>::zeroed();
    // SAFETY: the call fills a structure of this type.
    unsafe { libc::sigfillset(all.as_mut_ptr()) };
    // SAFETY: the set was filled.
    unsafe { libc::sigprocmask(libc::SIG_SETMASK, all.as_ptr(), std::ptr::null_mut()) };
    // SAFETY: the string ends with NUL.
    unsafe { libc::chdir(c"/".as_ptr()) };
    let keep = u32::try_from(keep).unwrap_or(0).max(2);
    for (first, last) in [(0, 1), (3, keep.saturating_sub(1)), (keep.max(2) + 1, u32::MAX)] {
        if first <= last {
            // SAFETY: the call takes numbers. What Rust still holds of these is never used: the helper does only its
            // work, and leaves without running any destructor of this process.
            unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) };
        }
    }
}

fn leave() -> ! {
    // SAFETY: ends at once; what the parent has registered for its end is not this process's to run.
    unsafe { libc::_exit(0) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_executed_is_said() {
        let error = become_program(&[c"/nonexistent/program".to_owned()]);
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
        // And this process is as it was: writing into a closed pipe is an error, not its end.
        let (reader, writer) = std::os::unix::net::UnixStream::pair().expect("pair");
        drop(reader);
        assert!(io::Write::write(&mut &writer, b"x").is_err());
    }
}
