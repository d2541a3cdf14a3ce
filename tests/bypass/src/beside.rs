// SPDX-License-Identifier: Apache-2.0 OR MIT
//! By ways that neither open nor start the file by its name.

use std::fs;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::process::Command;

use nix::mount::{MsFlags, mount};

use crate::arena::{self, Arena, marked, run};
use crate::{Outcome, Technique, attribute};

const UNSIGNED: &[&str] = &["unsigned"];
/// Kernels before 6.8 look at no signature.
const CHANGED: &[&str] = &["bad-signature", "unsigned"];
const BLOCK: u64 = 4096;

pub(crate) const TECHNIQUES: &[Technique] = &[
    Technique::new(
        "copied_over",
        "Copy another program over a signed one within the kernel (copy_file_range)",
        with_program,
        copied_over,
        CHANGED,
    ),
    Technique::new(
        "signature_put_back",
        "Take the signature off a program that ran, change it, and put the signature back",
        attribute::with_programs,
        attribute::put_back,
        CHANGED,
    ),
    Technique::new(
        "signature_replaced",
        "Change a program that ran, and give it the signature of another that runs",
        attribute::with_programs,
        attribute::replaced,
        CHANGED,
    ),
    Technique::new(
        "rival_program",
        "Attach a BPF program of one's own that allows every start",
        Arena::with_both,
        |arena| arena.attack("rival", [arena.stranger()]),
        UNSIGNED,
    ),
    Technique::new(
        "module_helper",
        "Have the kernel start it in place of modprobe",
        Arena::with_kernel_helper,
        module_helper,
        UNSIGNED,
    ),
    Technique::new(
        "block_device",
        "Write to the block device below the file system",
        with_code_to_change,
        block_device,
        UNSIGNED,
    )
    .outcome(Outcome::NotStopped(
        "a verdict is kept as long as no change is seen at the file; for a device that others write to, seal the files \
         (`touchmark sign --seal`), or use dm-verity",
    )),
];

fn with_program(arena: &Arena) -> io::Result<()> {
    arena.with_both()?;
    arena.approved_file("program", &fs::read(arena.attacker())?)
}

fn copied_over(arena: &Arena) -> io::Result<()> {
    let program = arena.path("program");
    run(&mut Command::new(&program))?;
    let mut from = fs::File::open(arena.stranger())?;
    let mut to = attribute::writable(&program, fs::File::options().write(true))?;
    io::copy(&mut from, &mut to)?;
    drop(to);
    run(&mut Command::new(&program))
}

const MODPROBE: &str = "/proc/sys/kernel/modprobe";

/// The kernel waits for the helper to end.
fn module_helper(arena: &Arena) -> io::Result<()> {
    let before = fs::read_to_string(MODPROBE)?;
    fs::write(MODPROBE, arena.kernel_helper())?;
    let unknown = mount(None::<&str>, "/mnt", Some("bypass"), MsFlags::empty(), None::<&str>);
    fs::write(MODPROBE, before.trim())?;
    match unknown {
        Ok(()) => Err(io::Error::other("a file system called bypass exists")),
        Err(_) => marked(&arena.path("mark")),
    }
}

/// Approved code that returns another number than the attacker waits for.
fn with_code_to_change(arena: &Arena) -> io::Result<()> {
    arena.with_attacker()?;
    arena.approved_file("code", &arena::code_bytes(43))?;
    fs::File::open(arena.path("code"))?.sync_all()
}

fn block_device(arena: &Arena) -> io::Result<()> {
    let code = arena.path("code");
    // It was checked before, and there is a verdict.
    let before = arena.attack("map-executable", [&code]);
    if before.is_ok() {
        return Err(io::Error::other("expected the code to return another number at first"));
    }
    let device = device_of(&code)?;
    let block = first_block(&code)?;
    let device = fs::File::options().write(true).open(device)?;
    device.write_all_at(&arena::code_bytes(42)[..4096], block * BLOCK)?;
    device.sync_all()?;
    // The pages go, the inode stays.
    fs::write("/proc/sys/vm/drop_caches", "1")?;
    arena.attack("map-executable", [code])
}

fn device_of(path: &Path) -> io::Result<String> {
    let number = fs::metadata(path)?.dev();
    let (major, minor) = (rustix::fs::major(number), rustix::fs::minor(number));
    let name = fs::read_link(format!("/sys/dev/block/{major}:{minor}"))?;
    let name = name.file_name().unwrap_or_default().to_string_lossy().into_owned();
    Ok(format!("/dev/{name}"))
}

/// Where the file's first block is on the device, as `filefrag` prints it: ` 0: 0.. 1: 1234.. 1235: 2: ...`.
fn first_block(path: &Path) -> io::Result<u64> {
    let output = Command::new("filefrag").args(["-v", "-b4096"]).arg(path).output()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let line = text.lines().find(|line| line.trim_start().starts_with("0:"));
    let number = line.and_then(|line| line.split(':').nth(2)).and_then(|part| part.split("..").next());
    number.and_then(|number| number.trim().parse().ok()).ok_or_else(|| io::Error::other(text))
}
