// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What runs and what is refused, by kind of file and by what was done to it.

use std::fs;
use std::io::Write;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::io::Errno;
use touchmark_sys::mapping::{Access, Mapping};

use crate::sh;
use crate::site::{
    Site, event, flip, kernel_verifies, overwrite, reason_for_changed, refused, runs, start, status, text,
    touchmark_ok, writable,
};
use crate::trial::{Need, Trial, trial};

const LINKER: &str = "/lib64/ld-linux-x86-64.so.2";

pub(crate) const TRIALS: &[Trial] = &[
    trial("signed_program_runs_unsigned_is_refused", &[], signed_program_runs_unsigned_is_refused),
    trial("changed_program_is_refused", &[], changed_program_is_refused),
    trial("script_is_judged_as_its_interpreter_is", &[], script_is_judged_as_its_interpreter_is),
    trial("library_is_judged", &[Need::File("/usr/bin/openssl")], library_is_judged),
    trial("linker_does_not_start_what_is_refused", &[], linker_does_not_start_what_is_refused),
    trial("memfd_is_refused", &[], memfd_is_refused),
    trial("mapping_made_executable_later_is_judged", &[], mapping_made_executable_later_is_judged),
    trial("shared_writable_mapping_is_refused", &[], shared_writable_mapping_is_refused),
    trial("write_drops_the_verdict", &[], write_drops_the_verdict),
    trial("truncate_by_path_drops_the_verdict", &[], truncate_by_path_drops_the_verdict),
    trial("open_for_writing_is_refused", &[], open_for_writing_is_refused),
    trial("rename_and_link_keep_the_verdict", &[], rename_and_link_keep_the_verdict),
    trial("a_file_put_in_its_place_is_judged_anew", &[], a_file_put_in_its_place_is_judged_anew),
    trial("overlay_is_hashed_at_every_use", &[Need::Module("overlay")], overlay_is_hashed_at_every_use),
    trial("overlay_can_be_refused", &[Need::Module("overlay")], overlay_can_be_refused),
    trial("every_key_algorithm_counts", &[Need::KernelFrom(6, 8)], every_key_algorithm_counts),
];

fn signed_program_runs_unsigned_is_refused() -> Result<()> {
    let site = Site::new()?;
    let (signed, unsigned) = (site.program("/usr/bin/true", "signed")?, site.program("/usr/bin/true", "unsigned")?);
    overwrite(&unsigned, &[&fs::read(&unsigned)?[..], b"of its own"].concat())?;
    site.sign(&signed)?;
    site.enforce(&[])?;
    runs(&signed)?;
    runs(&signed)?;
    refused(&unsigned)?;
    let event = event(&unsigned, "unsigned")?;
    ensure!(event["decision"] == "denied" && event["hook"] == "exec", "{event}");
    let digest = sh::succeed(["sha256sum", text(&unsigned)])?;
    ensure!(event["digest"].as_str().is_some_and(|found| digest.starts_with(found)), "{event} but {digest}");
    ensure!(event["uid"] == 0 && event["pid"].as_u64() > Some(1), "{event}");
    let status = status()?;
    ensure!(status["hits"].as_u64() > Some(0) && status["denied"]["unsigned"] == 1, "{status}");
    Ok(())
}

fn changed_program_is_refused() -> Result<()> {
    let (_site, program) = Site::with_running_program()?;
    let original = fs::read(&program)?;
    flip(&program)?;
    refused(&program)?;
    event(&program, reason_for_changed())?;
    overwrite(&program, &original)?;
    runs(&program)
}

fn script_is_judged_as_its_interpreter_is() -> Result<()> {
    let site = Site::new()?;
    let shell = site.program("/usr/bin/dash", "dash")?;
    let script = site.script("script", &format!("#!{}\nexit 0\n", shell.display()))?;
    site.sign(&shell)?;
    site.enforce(&[])?;
    refused(&script)?;
    event(&script, "unsigned")?;
    site.sign(&script)?;
    if !kernel_verifies() {
        crate::site::admit(&script)?;
    }
    runs(&script)?;
    let (text, shell_bytes) = (fs::read(&script)?, fs::read(&shell)?);
    flip(&script)?;
    refused(&script)?;
    overwrite(&script, &text)?;
    runs(&script)?;
    flip(&shell)?;
    refused(&script)?;
    overwrite(&shell, &shell_bytes)?;
    runs(&script)
}

/// A program of the tree, which is out of scope, loads a library of the site.
fn library_is_judged() -> Result<()> {
    let site = Site::new()?;
    let listed = sh::succeed(["ldd", "/usr/bin/openssl"])?;
    let source = listed.split_whitespace().find(|word| word.starts_with('/') && word.contains("libcrypto.so"));
    let library = site.program(source.context("openssl does not need libcrypto")?, "libcrypto.so.3")?;
    let load = || {
        let mut command = Command::new("/usr/bin/openssl");
        command.arg("version").env("LD_LIBRARY_PATH", site.path("")).output().context("openssl cannot be started")
    };
    site.enforce(&[])?;
    let output = load()?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(!output.status.success() && said.contains("libcrypto.so.3"), "expected a failure, found {output:?}");
    ensure!(event(&library, "unsigned")?["hook"] == "mmap", "the event does not name the hook");
    site.sign(&library)?;
    if !kernel_verifies() {
        crate::site::admit(&library)?;
    }
    let output = load()?;
    ensure!(output.status.success(), "expected success, found {output:?}");
    flip(&library)?;
    ensure!(!load()?.status.success(), "a changed library was loaded");
    Ok(())
}

fn linker_does_not_start_what_is_refused() -> Result<()> {
    let site = Site::new()?;
    let (program, other) = (site.program("/usr/bin/true", "program")?, site.program("/usr/bin/false", "other")?);
    site.sign(&program)?;
    site.enforce(&[])?;
    sh::succeed([LINKER, text(&program)])?;
    let output = sh::run([LINKER, text(&other)])?;
    // `false` itself would end with 1; the linker gives up with 127.
    ensure!(output.status.code() == Some(127), "expected 127, found {output:?}");
    event(&other, "unsigned").map(drop)
}

/// Memory files belong to no mounted file system, so the scope is a cgroup that this process enters for the attempt.
fn memfd_is_refused() -> Result<()> {
    let site = Site::new()?;
    let group = Path::new("/sys/fs/cgroup/memfd");
    fs::create_dir_all(group)?;
    let enter = |group: &Path| fs::write(group.join("cgroup.procs"), std::process::id().to_string());
    let home = fs::read_to_string("/proc/self/cgroup")?;
    let home = Path::new("/sys/fs/cgroup").join(home.trim().trim_start_matches("0::/"));
    let memory = fs::File::from(memfd_create("program", MemfdFlags::empty())?);
    (&memory).write_all(&fs::read("/usr/bin/true")?)?;
    let program = format!("/proc/{}/fd/{}", std::process::id(), memory.as_raw_fd());
    runs(Path::new(&program)).or_else(|error| {
        // Kernels that refuse a file open for writing do so without us.
        ensure!(error.root_cause().to_string().contains("Text file busy"), "{error:#}");
        Ok(())
    })?;
    let readable = fs::File::open(&program)?;
    drop(memory);
    let program = format!("/proc/{}/fd/{}", std::process::id(), readable.as_raw_fd());
    runs(Path::new(&program))?;

    let certificate = site.certificate();
    let scope = format!("cgroup:{}", group.display());
    touchmark_ok(["enforce", "--cert", text(&certificate), "--scope", &scope])?;
    runs(Path::new(&program))?;
    enter(group)?;
    let inside = Command::new(&program).status();
    enter(&home)?;
    sh::expect_errno(inside, Errno::PERM, "starting a memory file")?;
    runs(Path::new(&program))?;
    fs::remove_dir(group).context("the cgroup cannot be removed")
}

fn mapping_made_executable_later_is_judged() -> Result<()> {
    let (site, program) = Site::with_running_program()?;
    let other = site.program("/usr/bin/id", "other")?;
    let map = |path: &Path| Mapping::new(fs::File::open(path)?, 4096, Access::Read);
    map(&program)?.make_executable().context("a file with a verdict")?;
    sh::expect_errno(map(&other)?.make_executable(), Errno::PERM, "mprotect of an unsigned file")?;
    // At that hook the kernel gives no path.
    let event = event(Path::new("other"), "unchecked-mprotect")?;
    ensure!(event["path_is_name"] == true, "{event}");
    Ok(())
}

/// The mapping keeps the file writable after every descriptor is closed.
fn shared_writable_mapping_is_refused() -> Result<()> {
    let (_site, program) = Site::with_running_program()?;
    let writer = writable(&program, fs::File::options().read(true).write(true))?;
    let mapping = Mapping::new(&writer, 4096, Access::SharedWrite)?;
    drop(writer);
    ensure!(start(&program).is_err(), "a program that can be written was started");
    let execute = || Mapping::new(fs::File::open(&program)?, 4096, Access::Execute);
    sh::expect_errno(execute(), Errno::PERM, "mapping a file that can be written")?;
    drop(mapping);
    runs(&program)
}

fn write_drops_the_verdict() -> Result<()> {
    let (_site, program) = Site::with_running_program()?;
    let original = fs::read(&program)?;
    let dropped = || Ok::<_, anyhow::Error>(status()?["verdicts_dropped"]["opened-for-writing"].as_u64());
    let before = dropped()?;
    writable(&program, fs::File::options().append(true))?.write_all(b"x")?;
    refused(&program)?;
    ensure!(dropped()? > before, "no verdict was dropped");
    writable(&program, fs::File::options().write(true))?.set_len(original.len() as u64)?;
    runs(&program)
}

fn truncate_by_path_drops_the_verdict() -> Result<()> {
    let (_site, program) = Site::with_running_program()?;
    let size = fs::metadata(&program)?.len();
    // coreutils' truncate opens the file; perl's takes the system call by path. It is busy at first, having just run.
    let cut = "until (truncate($ARGV[0], $ARGV[1])) { $!{ETXTBSY} or die $! }";
    sh::succeed(["perl", "-MErrno", "-e", cut, text(&program), &(size + 1).to_string()])?;
    refused(&program)
}

fn open_for_writing_is_refused() -> Result<()> {
    let site = Site::new()?;
    let library = site.program(LINKER, "linker")?;
    site.sign(&library)?;
    site.enforce(&[])?;
    runs_with_version(&library)?;
    let writer = writable(&library, fs::File::options().append(true))?;
    let output = Command::new(&library).arg("--version").output();
    // The kernel itself says "text file busy" to exec, except 6.11 and 6.12.
    ensure!(output.is_err(), "a program open for writing was started");
    let mapped = sh::run([LINKER, text(&library), "--version"])?;
    ensure!(!mapped.status.success(), "a file open for writing was mapped executable");
    event(&library, "open-for-writing")?;
    drop(writer);
    runs_with_version(&library)
}

fn runs_with_version(program: &Path) -> Result<()> {
    sh::succeed([text(program), "--version"]).map(drop)
}

fn rename_and_link_keep_the_verdict() -> Result<()> {
    let (site, program) = Site::with_running_program()?;
    let hashes = status()?["hashes"].as_u64();
    let (renamed, linked) = (site.path("renamed"), site.path("linked"));
    fs::rename(&program, &renamed)?;
    fs::hard_link(&renamed, &linked)?;
    runs(&renamed)?;
    runs(&linked)?;
    ensure!(status()?["hashes"].as_u64() == hashes, "the same file was hashed again");
    Ok(())
}

fn a_file_put_in_its_place_is_judged_anew() -> Result<()> {
    let (site, program) = Site::with_running_program()?;
    let other = site.program("/usr/bin/id", "other")?;
    fs::rename(&other, &program)?;
    refused(&program)
}

fn overlay_is_hashed_at_every_use() -> Result<()> {
    let (site, overlay, program) = overlay_site()?;
    touchmark_ok(["enforce", "--cert", text(&site.certificate()), "--scope", &scope(&overlay)])?;
    crate::site::admit(&program)?;
    runs(&program)?;
    let hashes = status()?["hashes"].as_u64();
    runs(&program)?;
    ensure!(status()?["hashes"].as_u64() > hashes, "a verdict was kept for an overlay");
    // Below the overlay, where it cannot see it.
    flip(&site.path("lower/program"))?;
    refused(&program)
}

fn overlay_can_be_refused() -> Result<()> {
    let (site, overlay, program) = overlay_site()?;
    touchmark_ok([
        "enforce",
        "--cert",
        text(&site.certificate()),
        "--scope",
        &scope(&overlay),
        "--refuse-uncacheable",
    ])?;
    crate::site::admit(&program)?;
    refused(&program)?;
    event(&program, "untrusted-filesystem").map(drop)
}

fn overlay_site() -> Result<(Site, sh::Mount, std::path::PathBuf)> {
    let site = Site::new()?;
    fs::create_dir(site.path("lower"))?;
    let lower = site.program("/usr/bin/true", "lower/program")?;
    site.sign_in("xattr", &lower)?;
    let overlay = sh::Mount::overlay(&site.path("lower"))?;
    let program = overlay.path().join("program");
    Ok((site, overlay, program))
}

fn scope(mount: &sh::Mount) -> String {
    format!("mount:{}", mount.path().display())
}

fn every_key_algorithm_counts() -> Result<()> {
    let site = Site::new()?;
    let keys = sh::Folder::new()?;
    let mut words = vec!["enforce".to_owned(), "--scope".to_owned(), format!("mount:{}", site.path("").display())];
    let mut programs = Vec::new();
    for algorithm in ["rsa2048", "rsa3072", "rsa4096", "ecdsa-p256", "ecdsa-p384"] {
        let folder = keys.path().join(algorithm);
        touchmark_ok(["key", "generate", "--algorithm", algorithm, "--name", algorithm, "--out", text(&folder)])?;
        let (key, certificate) = (folder.join("key.pem"), folder.join("cert.pem"));
        let program = site.program("/usr/bin/true", algorithm)?;
        overwrite(&program, &[&fs::read(&program)?[..], algorithm.as_bytes()].concat())?;
        touchmark_ok([
            "sign",
            "--key",
            text(&key),
            "--cert",
            text(&certificate),
            "--container",
            "xattr",
            text(&program),
        ])?;
        words.extend(["--cert".to_owned(), text(&certificate).to_owned()]);
        programs.push(program);
    }
    touchmark_ok(&words)?;
    programs.iter().try_for_each(|program| runs(program).with_context(|| text(program).to_owned()))
}
