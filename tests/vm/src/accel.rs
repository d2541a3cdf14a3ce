// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How QEMU runs the guest's instructions: KVM where stock kernels boot with it, emulation elsewhere.

use std::fs::{self, File};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Result, bail};

use crate::Kernel;
use crate::cache;
use crate::command;
use crate::machine::{Machine, Options};
use crate::protocol::{Event, Job};

/// How long a kernel may take under KVM to get to our first process. It takes about a second.
const PROBE_DEADLINE: Duration = Duration::from_secs(20);

/// A way to run the guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Accel {
    /// Hardware virtualisation.
    Kvm,
    /// Software emulation.
    Tcg,
    /// Software emulation of one processor on which each instruction takes one nanosecond of the guest's clock, so that
    /// times are repeatable counts of instructions.
    Counted,
}

impl Accel {
    /// What `TOUCHMARK_VM_ACCEL` says (`kvm` or `tcg`), or KVM where it boots this kernel, or else emulation. The answer
    /// is remembered for this host's kernel and QEMU.
    ///
    /// # Errors
    /// The variable holds something else, or QEMU is not there.
    pub fn detect(kernel: &Kernel, guest: &Path) -> Result<Self> {
        match std::env::var("TOUCHMARK_VM_ACCEL").as_deref() {
            Ok("kvm") => return Ok(Self::Kvm),
            Ok("tcg") => return Ok(Self::Tcg),
            Ok("") | Err(_) => {}
            Ok(other) => bail!("expected kvm or tcg in TOUCHMARK_VM_ACCEL, found {other}"),
        }
        if File::options().read(true).write(true).open("/dev/kvm").is_err() {
            return Ok(Self::Tcg);
        }
        let memory = cache::root()?.join("kvm").join(fingerprint(kernel)?);
        let works = match fs::read_to_string(&memory).as_deref() {
            Ok("works") => true,
            Ok(_) => false,
            Err(_) => {
                eprintln!("touchmark-vm: trying whether KVM boots {}", kernel.release);
                let works = boots(kernel, guest);
                let scratch = cache::Scratch::new()?;
                fs::write(scratch.path().join("answer"), if works { "works" } else { "fails" })?;
                cache::publish(&scratch.path().join("answer"), &memory)?;
                works
            }
        };
        Ok(if works { Self::Kvm } else { Self::Tcg })
    }

    /// QEMU's options to run this kernel.
    pub(crate) fn arguments(self, kernel: &Kernel) -> Vec<&'static str> {
        match self {
            Self::Kvm => vec!["-accel", "kvm", "-cpu", "host"],
            // With a thread for each processor, a processor can execute an int3 that the kernel's text_poke() has taken
            // away already, and the kernel dies; loading and unloading BPF programs pokes a lot.
            Self::Tcg => vec!["-accel", "tcg,thread=single", "-cpu", emulated_cpu(kernel.numbers())],
            Self::Counted => vec![
                "-accel",
                "tcg,thread=single",
                "-icount",
                "shift=0,sleep=off",
                "-cpu",
                emulated_cpu(kernel.numbers()),
            ],
        }
    }
}

/// What QEMU 7.2 does not emulate and would warn about.
macro_rules! unsupported {
    () => {
        ",-pcid,-x2apic,-tsc-deadline,-invpcid,-spec-ctrl"
    };
}

/// The processor to emulate for a kernel of that version. (`-cpu max` crashes all of them at boot.)
fn emulated_cpu(version: (u32, u32)) -> &'static str {
    if version <= (6, 12) {
        // QEMU 7.2 emulates cmpxchg16b wrongly: the slab allocator of 6.12 crashes.
        concat!("Haswell-v4", unsupported!(), ",-cx16")
    } else {
        // 7.2 needs it: without, kmalloc_nolock() fails, and with it BPF's local storage, where verdicts are kept.
        concat!("Haswell-v4", unsupported!())
    }
}

/// Whether the kernel gets to our first process under KVM.
fn boots(kernel: &Kernel, guest: &Path) -> bool {
    let options = Options { accel: Accel::Kvm, ..Options::default() };
    let Ok(mut machine) = Machine::start(kernel, None, guest, &Job::Probe, &options) else { return false };
    matches!(machine.event(PROBE_DEADLINE), Ok(Event::Boot { .. }))
}

/// What the answer depends on: this host's kernel, QEMU and the guest's kernel.
fn fingerprint(kernel: &Kernel) -> Result<String> {
    let host = rustix::system::uname().release().to_string_lossy().into_owned();
    let qemu = command::run(Command::new(crate::machine::QEMU).arg("--version"))?;
    let qemu = qemu.lines().next().unwrap_or_default();
    let plain = |text: &str| {
        text.chars().map(|c| if c.is_ascii_alphanumeric() || c == '.' { c } else { '-' }).collect::<String>()
    };
    Ok(format!("{}_{}_{}", plain(&host), plain(qemu), plain(&kernel.release)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cmpxchg16b_is_for_the_kernels_that_need_it() {
        assert!(emulated_cpu((6, 1)).contains("-cx16"));
        assert!(emulated_cpu((6, 12)).contains("-cx16"));
        assert!(!emulated_cpu((7, 2)).contains("-cx16"));
    }
}
