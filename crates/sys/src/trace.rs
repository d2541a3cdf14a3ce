// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tracing processes (`ptrace(2)`), with the signals above 31, which `nix` has no names for, and their masks.

use std::io;

/// The id of a process or thread.
pub type Pid = libc::pid_t;

/// What happened to a tracee.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// It ended, by itself or by a signal.
    Ended,
    /// A signal is about to be delivered; resuming with it delivers it.
    Signal(i32),
    /// Entry to or exit from a system call.
    SystemCall,
    /// `PTRACE_EVENT_STOP` by a stop signal: the whole process is stopped. Resume with [`Resume::Listen`].
    GroupStop,
    /// Another `PTRACE_EVENT_STOP`: a new tracee, or the end of a group stop.
    Attached,
    /// `execve` succeeded.
    Exec,
    /// It made a process with memory of its own, or a thread.
    Fork,
    /// It made a process that borrows its memory (`vfork`).
    Vfork,
    /// A filter shows a system call that is about to be made.
    Filtered,
}

/// How a stopped tracee goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resume {
    /// Until something happens.
    Continue,
    /// One instruction.
    Step,
    /// To the next entry to or exit from a system call.
    ToSystemCall,
    /// Stays stopped, but notices signals.
    Listen,
    /// Free.
    Detach,
}

/// What is traced besides signals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// `execve` of the process alone.
    Exec,
    /// `execve`, what a filter shows, and all descendants from their birth; if the tracer dies, so do they.
    Descendants,
}

/// The registers of a tracee.
pub use libc::user_regs_struct as Registers;

/// Traces a process without stopping it.
///
/// # Errors
/// What `ptrace` reports: `EPERM` when the process may not be traced, or has a tracer.
pub fn seize(pid: Pid, scope: Scope) -> io::Result<()> {
    let mut options = libc::PTRACE_O_TRACESYSGOOD | libc::PTRACE_O_TRACEEXEC;
    if scope == Scope::Descendants {
        options |= libc::PTRACE_O_TRACEFORK | libc::PTRACE_O_TRACEVFORK | libc::PTRACE_O_TRACECLONE;
        options |= libc::PTRACE_O_TRACESECCOMP | libc::PTRACE_O_EXITKILL;
    }
    // SAFETY: the request takes numbers.
    outcome(unsafe { libc::ptrace(libc::PTRACE_SEIZE, pid, 0_usize, options as usize) })
}

/// Waits until something happens to a tracee, or with `None` to any.
///
/// # Errors
/// What `waitpid` reports: `ECHILD` when there is none.
pub fn wait(pid: Option<Pid>) -> io::Result<(Pid, Stop)> {
    let mut status = 0;
    loop {
        // SAFETY: the status is an int to be filled.
        let found = unsafe { libc::waitpid(pid.unwrap_or(-1), &raw mut status, libc::__WALL) };
        if found >= 0 {
            return Ok((found, decode(status)));
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}

fn decode(status: i32) -> Stop {
    if !libc::WIFSTOPPED(status) {
        return Stop::Ended;
    }
    let signal = libc::WSTOPSIG(status);
    match status >> 16 {
        0 if signal == libc::SIGTRAP | 0x80 => Stop::SystemCall,
        0 => Stop::Signal(signal),
        libc::PTRACE_EVENT_EXEC => Stop::Exec,
        libc::PTRACE_EVENT_VFORK => Stop::Vfork,
        libc::PTRACE_EVENT_SECCOMP => Stop::Filtered,
        libc::PTRACE_EVENT_FORK | libc::PTRACE_EVENT_CLONE => Stop::Fork,
        libc::PTRACE_EVENT_STOP if signal != libc::SIGTRAP => Stop::GroupStop,
        _ => Stop::Attached,
    }
}

/// Lets a stopped tracee go on; `signal` is delivered, 0 is none.
///
/// # Errors
/// What `ptrace` reports: `ESRCH` when it was killed meanwhile.
pub fn resume(pid: Pid, how: Resume, signal: i32) -> io::Result<()> {
    let request = match how {
        Resume::Continue => libc::PTRACE_CONT,
        Resume::Step => libc::PTRACE_SINGLESTEP,
        Resume::ToSystemCall => libc::PTRACE_SYSCALL,
        Resume::Listen => libc::PTRACE_LISTEN,
        Resume::Detach => libc::PTRACE_DETACH,
    };
    // SAFETY: the requests take numbers.
    outcome(unsafe { libc::ptrace(request, pid, 0_usize, signal as usize) })
}

/// The registers of a stopped tracee.
///
/// # Errors
/// What `ptrace` reports.
pub fn registers(pid: Pid) -> io::Result<Registers> {
    let mut registers = std::mem::MaybeUninit::<Registers>::zeroed();
    // SAFETY: the request fills a structure of this type.
    outcome(unsafe { libc::ptrace(libc::PTRACE_GETREGS, pid, 0_usize, registers.as_mut_ptr()) })?;
    // SAFETY: all fields are integers, for which zeros are fine, and the kernel filled them.
    Ok(unsafe { registers.assume_init() })
}

/// Changes the registers of a stopped tracee. It is the tracee that may crash, not the caller.
///
/// # Errors
/// What `ptrace` reports.
pub fn set_registers(pid: Pid, registers: &Registers) -> io::Result<()> {
    // SAFETY: the request reads a structure of this type.
    outcome(unsafe { libc::ptrace(libc::PTRACE_SETREGS, pid, 0_usize, std::ptr::from_ref(registers)) })
}

/// Reads 8 bytes of a stopped tracee's memory.
///
/// # Errors
/// `EIO` where nothing is mapped.
pub fn peek(pid: Pid, address: u64) -> io::Result<u64> {
    let mut word = 0_u64;
    // SAFETY: the system call, unlike its wrapper in the C library, stores the word at the last argument.
    let result = unsafe { libc::syscall(libc::SYS_ptrace, libc::PTRACE_PEEKDATA, pid, address, &raw mut word) };
    outcome(result).map(|()| word)
}

/// Writes 8 bytes into a stopped tracee's memory, even where it may not write.
///
/// # Errors
/// `EIO` where nothing is mapped.
pub fn poke(pid: Pid, address: u64, word: u64) -> io::Result<()> {
    // SAFETY: the request takes numbers.
    outcome(unsafe { libc::ptrace(libc::PTRACE_POKEDATA, pid, address, word) })
}

/// The signals that a stopped tracee blocks, a bit each.
///
/// # Errors
/// What `ptrace` reports.
pub fn signal_mask(pid: Pid) -> io::Result<u64> {
    let mut mask = 0_u64;
    // SAFETY: the request fills 8 bytes.
    outcome(unsafe { libc::ptrace(libc::PTRACE_GETSIGMASK, pid, size_of::<u64>(), &raw mut mask) })?;
    Ok(mask)
}

/// Changes the signals that a stopped tracee blocks.
///
/// # Errors
/// What `ptrace` reports.
pub fn set_signal_mask(pid: Pid, mask: u64) -> io::Result<()> {
    // SAFETY: the request reads 8 bytes.
    outcome(unsafe { libc::ptrace(libc::PTRACE_SETSIGMASK, pid, size_of::<u64>(), &raw const mask) })
}

/// Ends a process by `SIGKILL`.
pub fn kill(pid: Pid) {
    // SAFETY: the call takes numbers.
    unsafe { libc::kill(pid, libc::SIGKILL) };
}

/// Lets `tracer` trace this process where the Yama module allows only parents to (`ptrace_scope` 1).
pub fn allow_tracer(tracer: Pid) {
    // SAFETY: the call takes numbers; without Yama it fails, and is not needed.
    unsafe { libc::prctl(libc::PR_SET_PTRACER, tracer as libc::c_ulong, 0, 0, 0) };
}

fn outcome(result: libc::c_long) -> io::Result<()> {
    if result == -1 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
