// SPDX-License-Identifier: Apache-2.0 OR MIT
//! System calls made by a stopped tracee on our behalf.
//!
//! There is no way to lock another process's memory, and no lock outlives `execve`: the program itself must call
//! `mlockall`. So its registers are set as if it were about to, on an instruction that it has anyway, and put back
//! afterwards. Neither its code nor its data change.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::OnceLock;

use touchmark_sys::trace::{self, Pid, Registers, Resume, Stop};

/// Which kind of program makes the call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Abi {
    Bits64,
    Bits32,
}

/// The calls that are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Call {
    /// `mlockall` with these flags.
    Lock(u64),
    /// `exit_group` with this code.
    Exit(u64),
}

/// Why a call could not be made.
#[derive(Debug)]
pub(super) enum Failure {
    /// The process ended, which the caller may well have wanted.
    Ended,
    /// It has no instruction that makes a system call, where we know to look.
    NoInstruction,
    /// Tracing failed.
    Trace(io::Error),
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::Trace(error)
    }
}

/// The code segment of 32-bit programs on x86-64.
const SEGMENT_32: u64 = 0x23;
/// `syscall` and `int 0x80`, as a little-endian number.
const SYSCALL: u64 = 0x050f;
const INT_80: u64 = 0x80cd;
/// The auxiliary vector's entry for the vdso.
const AT_SYSINFO_EHDR: u64 = 33;
/// The vdso has two pages, at most a few.
const VDSO_MAX: u64 = 4 * 4096;
/// Words of arguments and environment that are walked over: the kernel allows 6 MiB of pointers and strings.
const STACK_WORDS_MAX: u64 = 1 << 20;

/// What a call returned, and a signal that came meanwhile and is to be delivered.
pub(super) struct Done {
    pub(super) result: i64,
    pub(super) signal: i32,
}

/// Makes a tracee that is stopped outside of system calls call the kernel.
pub(super) fn call(pid: Pid, call: Call) -> Result<Done, Failure> {
    let saved = trace::registers(pid)?;
    let abi = if saved.cs == SEGMENT_32 { Abi::Bits32 } else { Abi::Bits64 };
    let site = behind_a_call(pid, &saved, abi).or_else(|| in_vdso(pid, &saved, abi)).ok_or(Failure::NoInstruction)?;
    let mask = trace::signal_mask(pid)?;
    // A handler must not run between the call and the moment the registers are put back.
    trace::set_signal_mask(pid, u64::MAX)?;
    let registers = prepared(&saved, abi, site, call);
    trace::set_registers(pid, &registers)?;
    let mut signal = 0;
    for _entry_and_exit in 0..2 {
        to_system_call(pid, &mut signal)?;
        let now = trace::registers(pid)?;
        if now.orig_rax != registers.rax {
            return Err(Failure::Trace(io::Error::other(format!(
                "expected system call {}, found {}",
                registers.rax, now.orig_rax
            ))));
        }
    }
    let result = i64::from_ne_bytes(trace::registers(pid)?.rax.to_ne_bytes());
    trace::set_registers(pid, &saved)?;
    trace::set_signal_mask(pid, mask)?;
    let result = if abi == Abi::Bits32 { i64::from(low_half(result)) } else { result };
    Ok(Done { result, signal })
}

/// Runs to the next stop at a system call. SIGSTOP, which no mask keeps away, is kept for later.
fn to_system_call(pid: Pid, signal: &mut i32) -> Result<(), Failure> {
    loop {
        trace::resume(pid, Resume::ToSystemCall, 0)?;
        match trace::wait(Some(pid))? {
            (_, Stop::SystemCall) => return Ok(()),
            (_, Stop::Signal(found)) => *signal = found,
            (_, Stop::Ended) => return Err(Failure::Ended),
            _ => {}
        }
    }
}

fn prepared(saved: &Registers, abi: Abi, site: u64, call: Call) -> Registers {
    let (number, argument) = match (call, abi) {
        (Call::Lock(flags), Abi::Bits64) => (151, flags),
        (Call::Lock(flags), Abi::Bits32) => (152, flags),
        (Call::Exit(code), Abi::Bits64) => (231, code),
        (Call::Exit(code), Abi::Bits32) => (252, code),
    };
    let mut registers = *saved;
    registers.rip = site;
    registers.rax = number;
    // No system call is being restarted.
    registers.orig_rax = u64::MAX;
    match abi {
        Abi::Bits64 => registers.rdi = argument,
        Abi::Bits32 => registers.rbx = argument,
    }
    registers
}

/// After a fork the child stands behind the instruction that made the call.
fn behind_a_call(pid: Pid, registers: &Registers, abi: Abi) -> Option<u64> {
    let site = registers.rip.checked_sub(2)?;
    let word = trace::peek(pid, site).ok()?;
    (word & 0xffff == instruction(abi)).then_some(site)
}

/// The kernel maps the vdso into every program; it calls the kernel where it cannot answer itself.
fn in_vdso(pid: Pid, registers: &Registers, abi: Abi) -> Option<u64> {
    let start = vdso(pid, registers.rsp, abi)?;
    if let Some(offset) = own_offset().filter(|_| abi == Abi::Bits64) {
        let site = start + offset;
        if trace::peek(pid, site).ok()? & 0xffff == SYSCALL {
            return Some(site);
        }
    }
    for offset in (0..VDSO_MAX).step_by(8) {
        let word = trace::peek(pid, start + offset).ok()?;
        // Seven starts in this word; the eighth lies across two, and there is another place.
        let found = (0..7).find(|shift| word >> (shift * 8) & 0xffff == instruction(abi));
        if let Some(shift) = found {
            return Some(start + offset + shift);
        }
    }
    None
}

/// Where in the vdso such an instruction is: the kernel maps the same for all 64-bit programs, so this one's tells, and
/// one look at the tracee's is enough.
fn own_offset() -> Option<u64> {
    static OFFSET: OnceLock<Option<u64>> = OnceLock::new();
    let find = || {
        let words = fs::read("/proc/self/auxv").ok()?;
        let number = |bytes: &[u8]| bytes.try_into().map(u64::from_ne_bytes).ok();
        let entry = words.chunks_exact(16).find(|entry| number(&entry[..8]) == Some(AT_SYSINFO_EHDR))?;
        let mut image = [0; 4096];
        File::open("/proc/self/mem").ok()?.read_exact_at(&mut image, number(&entry[8..])?).ok()?;
        let place = image.windows(2).position(|pair| pair == [0x0f, 0x05])?;
        u64::try_from(place).ok()
    };
    *OFFSET.get_or_init(find)
}

/// At its first instruction a program's stack holds argc, argv, environment and the auxiliary vector, each ended by 0.
fn vdso(pid: Pid, stack: u64, abi: Abi) -> Option<u64> {
    let size = if abi == Abi::Bits64 { 8 } else { 4 };
    let word = |index: u64| {
        let word = trace::peek(pid, stack.checked_add(index * size)?).ok()?;
        Some(if abi == Abi::Bits64 { word } else { word & 0xffff_ffff })
    };
    let arguments = word(0)?;
    let mut index = arguments.checked_add(2).filter(|index| *index < STACK_WORDS_MAX)?;
    while word(index)? != 0 {
        index += 1;
        if index > STACK_WORDS_MAX {
            return None;
        }
    }
    index += 1;
    // The vector has some twenty entries.
    for entry in 0..64 {
        match (word(index + 2 * entry)?, word(index + 2 * entry + 1)?) {
            (0, _) => return None,
            (AT_SYSINFO_EHDR, address) => return Some(address),
            _ => {}
        }
    }
    None
}

fn instruction(abi: Abi) -> u64 {
    match abi {
        Abi::Bits64 => SYSCALL,
        Abi::Bits32 => INT_80,
    }
}

/// What a 32-bit program returned: the upper half is not its.
fn low_half(value: i64) -> i32 {
    let [a, b, c, d, ..] = value.to_le_bytes();
    i32::from_le_bytes([a, b, c, d])
}
