// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A system call filter (`seccomp(2)`) that shows a tracer where a program discards memory.

use std::io;

/// `madvise(2)`: discard now; discard when memory is short; discard now, locked memory too (Linux 5.18).
pub const DONTNEED: u32 = 4;
/// See [`DONTNEED`].
pub const FREE: u32 = 8;
/// See [`DONTNEED`].
pub const DONTNEED_LOCKED: u32 = 24;

/// `AUDIT_ARCH_X86_64` and `AUDIT_ARCH_I386`, and the number of `madvise` there.
const MADVISE: [(u32, u32); 2] = [(0xc000_003e, 28), (0x4000_0003, 219)];

/// Offsets in `struct seccomp_data`: the number, the machine, the lower half of the third argument.
const NUMBER: u32 = 0;
const MACHINE: u32 = 4;
const ADVICE: u32 = 16 + 2 * 8;

/// Whether this kernel can discard locked memory at all.
#[must_use]
pub fn can_discard_locked() -> bool {
    // SAFETY: of a range of no bytes only the advice is looked at.
    unsafe { libc::madvise(std::ptr::null_mut(), 0, DONTNEED_LOCKED as libc::c_int) == 0 }
}

/// From now on each `madvise` of this process, and of all that descends from it, that discards memory stops it and tells
/// its tracer; without one the call fails.
///
/// Without CAP_SYS_ADMIN this process and its descendants give up ever gaining privileges at exec.
///
/// # Errors
/// What `seccomp` reports.
pub fn show_discarding() -> io::Result<()> {
    if !crate::capability::has(crate::capability::SYS_ADMIN) {
        // SAFETY: the call takes numbers.
        if unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) } != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    let mut program = filter();
    let argument = libc::sock_fprog { len: u16::try_from(program.len()).unwrap_or(0), filter: program.as_mut_ptr() };
    // SAFETY: the argument has the layout the kernel expects, and its instructions outlive the call.
    let result = unsafe { libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, 0, &raw const argument) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Classic BPF. For each machine: skip its part unless it is this one; all but madvise, and other advice, is allowed.
fn filter() -> Vec<libc::sock_filter> {
    const LOAD: u16 = 0x20;
    const EQUAL: u16 = 0x15;
    const RETURN: u16 = 0x06;
    let step = |code, k, jt, jf| libc::sock_filter { code, jt, jf, k };
    let mut program = Vec::new();
    for (machine, madvise) in MADVISE {
        program.extend([
            step(LOAD, MACHINE, 0, 0),
            step(EQUAL, machine, 0, 7),
            step(LOAD, NUMBER, 0, 0),
            step(EQUAL, madvise, 0, 3),
            step(LOAD, ADVICE, 0, 0),
            step(EQUAL, DONTNEED, 2, 0),
            step(EQUAL, FREE, 1, 0),
            step(RETURN, libc::SECCOMP_RET_ALLOW, 0, 0),
            step(RETURN, libc::SECCOMP_RET_TRACE, 0, 0),
        ]);
    }
    program.push(step(RETURN, libc::SECCOMP_RET_ALLOW, 0, 0));
    program
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the filter says of a call: the interpreter of the three instructions that it uses.
    fn verdict(machine: u32, number: u32, advice: u32) -> u32 {
        let program = filter();
        let (mut at, mut loaded) = (0, 0);
        loop {
            let step = program[at];
            at += 1;
            match step.code {
                0x20 => {
                    loaded = match step.k {
                        MACHINE => machine,
                        NUMBER => number,
                        ADVICE => advice,
                        other => panic!("offset {other}"),
                    }
                }
                0x15 => at += usize::from(if loaded == step.k { step.jt } else { step.jf }),
                _ => return step.k,
            }
        }
    }

    #[test]
    fn only_discarding_is_shown() {
        for (machine, madvise) in MADVISE {
            assert_eq!(verdict(machine, madvise, DONTNEED), libc::SECCOMP_RET_TRACE);
            assert_eq!(verdict(machine, madvise, FREE), libc::SECCOMP_RET_TRACE);
            assert_eq!(verdict(machine, madvise, 3), libc::SECCOMP_RET_ALLOW);
            assert_eq!(verdict(machine, madvise + 1, DONTNEED), libc::SECCOMP_RET_ALLOW);
        }
        assert_eq!(verdict(0xc000_00b7, 28, DONTNEED), libc::SECCOMP_RET_ALLOW, "another machine");
        assert_eq!(verdict(MADVISE[0].0, MADVISE[1].1, DONTNEED), libc::SECCOMP_RET_ALLOW);
    }
}
