// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Against what enforces, as root.

use std::fs;
use std::io;
use std::path::Path;
use std::process::Command;

use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sched::{CloneFlags, unshare};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use rustix::io::Errno;

use crate::arena::{Arena, marked, run};
use crate::{Outcome, Rule, Technique};

const GUARDED: &[&str] = &["guarded"];
const NOTHING: [&str; 0] = [];
const PINS: &str = "/sys/fs/bpf/touchmark";

const fn guarded(name: &'static str, about: &'static str, attempt: fn(&Arena) -> io::Result<()>) -> Technique {
    Technique::new(name, about, Arena::with_attacker, attempt, GUARDED).rule(Rule::Guard)
}

pub(crate) const TECHNIQUES: &[Technique] = &[
    guarded("unlink_pin", "Remove a pinned link, which detaches its program", |_| {
        fs::remove_file(format!("{PINS}/links/check_exec"))
    })
    .harms(),
    guarded("rename_pins", "Move the pins away", rename_pins),
    guarded("unmount_pins", "Unmount the BPF file system", |_| Ok(umount2("/sys/fs/bpf", MntFlags::MNT_DETACH)?)),
    guarded("unmount_above", "Detach the mount above it (umount -l /sys)", |_| {
        Ok(umount2("/sys", MntFlags::MNT_DETACH)?)
    }),
    guarded("open_pinned_map", "Open a pinned map to write to it", |arena| {
        arena.attack("open-pin", [format!("{PINS}/maps/policies")])
    }),
    guarded("map_by_number", "Reach the map of the policy by its number and write", |arena| {
        arena.attack("write-map", NOTHING)
    })
    .harms(),
    guarded("program_by_number", "Reach a program by its number", |arena| arena.attack("open-program", NOTHING)),
    guarded("kill_daemon", "kill -9 of touchmarkd", |_| signal(Signal::SIGKILL)).harms(),
    guarded("stop_daemon", "kill -STOP of touchmarkd", |_| signal(Signal::SIGSTOP)),
    guarded("trace_daemon", "PTRACE_ATTACH to touchmarkd", |arena| arena.attack("attach-to", [daemon()?.to_string()])),
    guarded("trace_then_exec", "Trace a process that becomes touchmark, from a program that may trace", |arena| {
        arena.attack("trace-across-exec", ["/usr/bin/touchmark"])
    })
    .outcome(Outcome::Stopped(Errno::PERM, &["traced"]))
    .options(&[("--debugger", "attacker")]),
    guarded("take_name", "Name touchmark as one's own program (PR_SET_MM_EXE_FILE)", |arena| {
        arena.attack("take-name", ["/usr/bin/touchmark"])
    }),
    guarded("ftrace_off", "Switch off what calls BPF programs (kernel.ftrace_enabled)", ftrace_off),
    guarded("unmount_peer", "Unmount the BPF file system in a shared copy of /sys", |arena| {
        unmount_copy(arena, "fs/bpf", MntFlags::empty())
    }),
    guarded("unmount_peer_above", "Detach a shared copy of /sys as a whole", |arena| {
        unmount_copy(arena, "", MntFlags::MNT_DETACH)
    }),
    guarded("replace_answer", "Load a program that changes what the kernel's own checks answer (fmod_ret)", |arena| {
        arena.attack("load-modifier", NOTHING)
    }),
    guarded("preload_into_touchmark", "LD_PRELOAD into touchmark itself", preload)
        .outcome(Outcome::Stopped(Errno::PERM, &[])),
    guarded("preload_by_other_name", "The same by a hard link of another name", preload_by_other_name)
        .outcome(Outcome::Stopped(Errno::PERM, &[])),
    guarded("unmount_elsewhere", "Unmount the BPF file system in a mount namespace of one's own", unmount_elsewhere)
        .outcome(Outcome::Rightful),
    guarded("own_bpf_map", "Make and write a BPF map of one's own", |arena| arena.attack("own-map", NOTHING))
        .outcome(Outcome::Rightful),
];

/// And back, as what is tried next would meet them.
fn rename_pins(_: &Arena) -> io::Result<()> {
    const ELSEWHERE: &str = "/sys/fs/bpf/elsewhere";
    fs::rename(PINS, ELSEWHERE)?;
    fs::rename(ELSEWHERE, PINS)
}

fn daemon() -> io::Result<i32> {
    let text = fs::read_to_string("/run/touchmark/touchmarkd.pid")?;
    text.trim().parse().map_err(io::Error::other)
}

fn signal(signal: Signal) -> io::Result<()> {
    let pid = Pid::from_raw(daemon()?);
    kill(pid, signal)?;
    // Not to leave it stopped for those who come after.
    if signal == Signal::SIGSTOP {
        kill(pid, Signal::SIGCONT)?;
    }
    Ok(())
}

/// The library is beside the arena's file system, so that nothing but the dynamic linker refuses it.
fn preload(arena: &Arena) -> io::Result<()> {
    preload_into(arena, Path::new("/usr/bin/touchmark"))
}

fn preload_by_other_name(arena: &Arena) -> io::Result<()> {
    let other = Path::new("/var/tmp/bypass-other-name");
    fs::hard_link("/usr/bin/touchmark", other)?;
    let preloaded = preload_into(arena, other);
    fs::remove_file(other)?;
    preloaded
}

fn preload_into(arena: &Arena, program: &Path) -> io::Result<()> {
    arena.with_library()?;
    let (library, mark) = (Path::new("/var/tmp/touchmark-bypass-library.so"), arena.path("mark"));
    fs::copy(arena.path("library.so"), library)?;
    run(Command::new(program).arg("status").env("LD_PRELOAD", library).env("MARK", &mark))?;
    marked(&mark)
}

/// A write that is allowed ends what enforces, so the switch is put back at once.
fn ftrace_off(_: &Arena) -> io::Result<()> {
    const SWITCH: &str = "/proc/sys/kernel/ftrace_enabled";
    fs::write(SWITCH, "0")?;
    fs::write(SWITCH, "1")
}

/// What is unmounted in a copy of /sys goes in /sys, too, when the two are peers (`mount_namespaces(7)`).
fn unmount_copy(arena: &Arena, below: &str, flags: MntFlags) -> io::Result<()> {
    let (sys, copy) = (Path::new("/sys"), arena.path("sys"));
    let propagation = |at: &Path, flags| mount(None::<&str>, at, None::<&str>, MsFlags::MS_REC | flags, None::<&str>);
    fs::create_dir(&copy)?;
    propagation(sys, MsFlags::MS_SHARED)?;
    mount(Some(sys), &copy, None::<&str>, MsFlags::MS_BIND | MsFlags::MS_REC, None::<&str>)?;
    let unmounted = umount2(&copy.join(below), flags);
    let gone = !Path::new(PINS).exists();
    propagation(sys, MsFlags::MS_PRIVATE)?;
    if copy.join("kernel").exists() {
        umount2(&copy, MntFlags::MNT_DETACH)?;
    }
    unmounted?;
    if gone { Ok(()) } else { Err(io::Error::other("the pins are still there")) }
}

fn unmount_elsewhere(_: &Arena) -> io::Result<()> {
    unshare(CloneFlags::CLONE_NEWNS)?;
    mount(None::<&str>, "/", None::<&str>, MsFlags::MS_REC | MsFlags::MS_PRIVATE, None::<&str>)?;
    Ok(umount2("/sys/fs/bpf", MntFlags::MNT_DETACH)?)
}
