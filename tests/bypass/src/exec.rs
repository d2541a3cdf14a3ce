// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Starting a program that is not approved.

use std::fs;
use std::io::{self, Seek, SeekFrom, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::symlink;
use std::process::Command;

use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sched::{CloneFlags, unshare};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use rustix::fs::{CWD, MemfdFlags, RenameFlags, SealFlags};

use crate::arena::{self, Arena, marked, run};
use crate::attribute::copy_signature;
use crate::{Rule, Technique, fuse, race};

const UNSIGNED: &[&str] = &["unsigned"];
/// Kernels before 6.8 look at no signature.
const CHANGED: &[&str] = &["bad-signature", "unsigned"];

pub(crate) const TECHNIQUES: &[Technique] = &[
    Technique::new(
        "unsigned_program",
        "Start a program that nobody signed",
        Arena::with_both,
        start_stranger,
        UNSIGNED,
    ),
    Technique::new(
        "changed_program",
        "Append a byte to a signed program, then start it",
        Arena::with_both,
        changed,
        CHANGED,
    ),
    Technique::new(
        "signature_of_another",
        "Give a program the signature of another",
        Arena::with_both,
        borrowed_signature,
        CHANGED,
    ),
    Technique::new("hard_link", "Start it by another name", Arena::with_both, hard_link, UNSIGNED),
    Technique::new(
        "exchanged_file",
        "Exchange a signed program with another by rename",
        Arena::with_both,
        exchanged,
        UNSIGNED,
    ),
    Technique::new(
        "exchanged_during_check",
        "Exchange it with a signed one again and again while it starts",
        race::prepare,
        race::exchanged_during_check,
        UNSIGNED,
    ),
    Technique::new(
        "symbolic_link",
        "Let a link to a signed program point to another",
        Arena::with_both,
        symbolic_link,
        UNSIGNED,
    ),
    Technique::new(
        "by_descriptor",
        "execveat(2) of a descriptor (AT_EMPTY_PATH)",
        Arena::with_both,
        by_descriptor,
        UNSIGNED,
    ),
    Technique::new(
        "deleted_program",
        "Unlink a program that is open, then start it",
        Arena::with_both,
        deleted,
        UNSIGNED,
    ),
    Technique::new(
        "script",
        "A script that nobody signed, with a signed interpreter",
        script_of_attacker,
        script,
        UNSIGNED,
    ),
    Technique::new(
        "script_interpreter",
        "A signed script with an interpreter that nobody signed",
        script_of_stranger,
        script,
        UNSIGNED,
    ),
    Technique::new(
        "dynamic_linker",
        "Hand the program to the dynamic linker: ld.so PROGRAM",
        dynamic,
        dynamic_linker,
        UNSIGNED,
    ),
    Technique::new("bind_mount", "Start it through a bind mount", Arena::with_both, bind_mount, UNSIGNED),
    Technique::new(
        "mount_namespace",
        "Start it on a tmpfs in a mount namespace of its own",
        Arena::with_both,
        mount_namespace,
        UNSIGNED,
    )
    .rule(Rule::Processes),
    Technique::new(
        "overlay",
        "Start it through an overlay in a mount namespace of its own, as containers do",
        Arena::with_both,
        overlay,
        UNSIGNED,
    )
    .rule(Rule::Processes)
    .module("overlay"),
    Technique::new(
        "overlay_changed_below",
        "Change a signed program below an overlay that it ran from",
        Arena::with_both,
        overlay_changed,
        CHANGED,
    )
    .rule(Rule::Processes)
    .module("overlay"),
    fuse::PROGRAM,
    fuse::CHANGES,
    fuse::CHANGES_BELOW,
    fuse::PROGRAM_HASHED,
    fuse::CHANGES_HASHED,
    Technique::new(
        "memory_file_program",
        "Start a program from a memory file (memfd_create)",
        Arena::with_both,
        memory_file,
        UNSIGNED,
    )
    .rule(Rule::Processes),
    Technique::new(
        "memory_file_rewritten",
        "Fill a memory file with an approved program, start it, write another one into it, start that",
        Arena::with_both,
        memory_file_rewritten,
        &["open-for-writing"],
    )
    .rule(Rule::Processes),
    Technique::new(
        "binfmt_misc",
        "Register a program as the interpreter of signed files",
        with_format,
        binfmt,
        UNSIGNED,
    )
    .module("binfmt_misc"),
    Technique::new(
        "binfmt_misc_fixed",
        "The same, opened at registration (flag F)",
        with_format,
        binfmt_fixed,
        UNSIGNED,
    )
    .module("binfmt_misc"),
    Technique::new("core_pattern", "Have the kernel start it to take a core dump", with_dumper, core_pattern, UNSIGNED),
];

fn start_stranger(arena: &Arena) -> io::Result<()> {
    arena::run(&mut Command::new(arena.stranger()))
}

fn changed(arena: &Arena) -> io::Result<()> {
    // By rename, as a tool does that is careful: the signature goes along.
    let (program, fresh) = (arena.attacker(), arena.path("fresh"));
    fs::copy(&program, &fresh)?;
    copy_signature(arena, "attacker", "fresh")?;
    fs::File::options().append(true).open(&fresh)?.write_all(b"x")?;
    fs::rename(&fresh, &program)?;
    run(&mut Command::new(program))
}

fn borrowed_signature(arena: &Arena) -> io::Result<()> {
    copy_signature(arena, "attacker", "stranger")?;
    start_stranger(arena)
}

fn hard_link(arena: &Arena) -> io::Result<()> {
    fs::hard_link(arena.stranger(), arena.path("link"))?;
    run(&mut Command::new(arena.path("link")))
}

fn exchanged(arena: &Arena) -> io::Result<()> {
    run(&mut Command::new(arena.attacker()))?;
    rustix::fs::renameat_with(CWD, arena.attacker(), CWD, arena.stranger(), RenameFlags::EXCHANGE)?;
    run(&mut Command::new(arena.attacker()))
}

fn symbolic_link(arena: &Arena) -> io::Result<()> {
    let link = arena.path("link");
    symlink(arena.attacker(), &link)?;
    run(&mut Command::new(&link))?;
    fs::remove_file(&link)?;
    symlink(arena.stranger(), &link)?;
    run(&mut Command::new(&link))
}

fn by_descriptor(arena: &Arena) -> io::Result<()> {
    arena.attack("run-by-descriptor", [arena.stranger()])
}

fn deleted(arena: &Arena) -> io::Result<()> {
    arena.attack("run-by-descriptor", [arena.stranger(), "unlink".into()])
}

fn script_of_attacker(arena: &Arena) -> io::Result<()> {
    arena.with_both()?;
    arena.file("script", format!("#!{}\n", arena.attacker().display()).as_bytes()).map(drop)
}

fn script_of_stranger(arena: &Arena) -> io::Result<()> {
    arena.with_both()?;
    arena.approved_file("script", format!("#!{}\n", arena.stranger().display()).as_bytes())
}

fn script(arena: &Arena) -> io::Result<()> {
    run(&mut Command::new(arena.path("script")))
}

fn dynamic(arena: &Arena) -> io::Result<()> {
    arena.file("program", &fs::read("/usr/bin/true")?).map(drop)
}

/// The linker ends with 127 when it cannot map the program.
fn dynamic_linker(arena: &Arena) -> io::Result<()> {
    match run(Command::new("/lib64/ld-linux-x86-64.so.2").arg(arena.path("program"))) {
        Err(error) if error.raw_os_error() == Some(127) => Err(rustix::io::Errno::PERM.into()),
        other => other,
    }
}

fn bind_mount(arena: &Arena) -> io::Result<()> {
    let place = arena.path("bound");
    fs::create_dir_all(&place)?;
    mount(Some(&arena.path("")), &place, None::<&str>, MsFlags::MS_BIND, None::<&str>)?;
    let outcome = run(&mut Command::new(place.join("stranger")));
    umount2(&place, MntFlags::MNT_DETACH)?;
    outcome
}

/// Mounts in a namespace of this process, so that nobody else sees them; the process is the technique's own.
pub(crate) fn own_namespace() -> io::Result<()> {
    unshare(CloneFlags::CLONE_NEWNS)?;
    mount(None::<&str>, "/", None::<&str>, MsFlags::MS_REC | MsFlags::MS_PRIVATE, None::<&str>)?;
    Ok(())
}

fn mount_namespace(arena: &Arena) -> io::Result<()> {
    own_namespace()?;
    let place = arena.path("memory");
    fs::create_dir_all(&place)?;
    mount(Some("tmpfs"), &place, Some("tmpfs"), MsFlags::empty(), None::<&str>)?;
    fs::copy(arena.stranger(), place.join("program"))?;
    run(&mut Command::new(place.join("program")))
}

fn mount_overlay(arena: &Arena) -> io::Result<()> {
    own_namespace()?;
    for name in ["lower", "upper", "work", "merged"] {
        fs::create_dir_all(arena.path(name))?;
    }
    let options = format!(
        "lowerdir={},upperdir={},workdir={}",
        arena.path("lower").display(),
        arena.path("upper").display(),
        arena.path("work").display()
    );
    mount(Some("overlay"), &arena.path("merged"), Some("overlay"), MsFlags::empty(), Some(options.as_str()))?;
    Ok(())
}

fn overlay(arena: &Arena) -> io::Result<()> {
    mount_overlay(arena)?;
    fs::copy(arena.stranger(), arena.path("lower/program"))?;
    run(&mut Command::new(arena.path("merged/program")))
}

fn overlay_changed(arena: &Arena) -> io::Result<()> {
    mount_overlay(arena)?;
    fs::copy(arena.attacker(), arena.path("lower/program"))?;
    copy_signature(arena, "attacker", "lower/program")?;
    run(&mut Command::new(arena.path("merged/program")))?;
    fs::File::options().append(true).open(arena.path("lower/program"))?.write_all(b"x")?;
    run(&mut Command::new(arena.path("merged/program")))
}

fn memory_file(_: &Arena) -> io::Result<()> {
    let mut memory = fs::File::from(rustix::fs::memfd_create("program", MemfdFlags::ALLOW_SEALING)?);
    memory.write_all(&arena::stranger_bytes())?;
    // So that nobody can say that it may still change.
    rustix::fs::fcntl_add_seals(&memory, SealFlags::WRITE | SealFlags::GROW | SealFlags::SHRINK)?;
    run_read_only(memory)
}

fn memory_file_rewritten(arena: &Arena) -> io::Result<()> {
    let mut memory = fs::File::from(rustix::fs::memfd_create("program", MemfdFlags::empty())?);
    // A descriptor that writes and that no hook saw being opened.
    let mut writer = memory.try_clone()?;
    memory.write_all(&fs::read(arena.attacker())?)?;
    run_read_only(memory)?;
    writer.seek(SeekFrom::Start(0))?;
    writer.write_all(&arena::stranger_bytes())?;
    run_read_only(writer)
}

/// Some kernels refuse what is open for writing; read-only it is another descriptor of the same.
fn run_read_only(file: fs::File) -> io::Result<()> {
    let readable = fs::File::open(format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd()))?;
    drop(file);
    run(&mut Command::new(format!("/proc/{}/fd/{}", std::process::id(), readable.as_raw_fd())))
}

const FORMATS: &str = "/proc/sys/fs/binfmt_misc";

fn with_format(arena: &Arena) -> io::Result<()> {
    arena.with_both()?;
    arena.approved_file("document", b"TMKDOC nothing but a document\n")
}

fn binfmt(arena: &Arena) -> io::Result<()> {
    with_registered(arena, "")
}

fn binfmt_fixed(arena: &Arena) -> io::Result<()> {
    with_registered(arena, "F")
}

fn with_registered(arena: &Arena, flags: &str) -> io::Result<()> {
    if !fs::exists(format!("{FORMATS}/register"))? {
        mount(Some("binfmt_misc"), FORMATS, Some("binfmt_misc"), MsFlags::empty(), None::<&str>)?;
    }
    let line = format!(":bypass:M::TMKDOC::{}:{flags}", arena.stranger().display());
    fs::write(format!("{FORMATS}/register"), line)?;
    let outcome = run(&mut Command::new(arena.path("document")));
    fs::write(format!("{FORMATS}/bypass"), "-1")?;
    outcome
}

const CORE_PATTERN: &str = "/proc/sys/kernel/core_pattern";

fn with_dumper(arena: &Arena) -> io::Result<()> {
    arena.with_attacker()?;
    arena.with_kernel_helper()
}

/// The kernel starts the helper by itself and says nothing about how it ended; the helper leaves a mark. The pattern has
/// 127 bytes at most (CORENAME_MAX_SIZE).
fn core_pattern(arena: &Arena) -> io::Result<()> {
    let before = fs::read_to_string(CORE_PATTERN)?;
    fs::write(CORE_PATTERN, format!("|{}", arena.kernel_helper()))?;
    let dumped = dump_core(arena);
    fs::write(CORE_PATTERN, before.trim())?;
    dumped?;
    marked(&arena.path("mark"))
}

/// Has a process end so that its core is dumped; it does not end before the helper has.
fn dump_core(arena: &Arena) -> io::Result<()> {
    let mut child = Command::new(arena.attacker()).arg("wait").spawn()?;
    kill(Pid::from_raw(i32::try_from(child.id()).map_err(io::Error::other)?), Signal::SIGSEGV)?;
    child.wait().map(drop)
}
