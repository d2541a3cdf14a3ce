// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the policy says beyond signatures: memory, tracers, interpreters, sealed files, file systems.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use rustix::io::Errno;

use crate::act::{actor, can};
use crate::sh;
use crate::site::{Site, admit, event, kernel_verifies, refused, runs, status, text, touchmark_ok};
use crate::trial::{Need, Trial, trial};

const LINKER: &str = "/lib64/ld-linux-x86-64.so.2";
const STRACE: &str = "/usr/bin/strace";

pub(crate) const TRIALS: &[Trial] = &[
    trial("jit_exception", &[], jit_exception).seconds(180),
    trial("process_memory_is_not_written", &[], process_memory_is_not_written).seconds(180),
    trial("program_starts_under_no_tracer", &[Need::File(STRACE)], program_starts_under_no_tracer).seconds(180),
    trial("tracer_does_not_attach", &[Need::File(STRACE)], tracer_does_not_attach).seconds(180),
    trial("interpreter_is_started_by_scripts_only", &[], interpreter_is_started_by_scripts_only).seconds(180),
    trial("sealed_file_is_decided_without_being_read", &[Need::KernelFrom(6, 8)], sealed_file).seconds(180),
    trial("file_system_rule", &[], file_system_rule).seconds(180),
];

/// How often something was denied, or would have been, for a reason.
fn denied(reason: &str) -> Result<u64> {
    status()?["denied"][reason].as_u64().with_context(|| format!("status does not count `{reason}`"))
}

fn jit_exception() -> Result<()> {
    const WAYS: [&str; 4] = ["map-memory", "protect-memory", "map-memory-file", "map-huge-memory-file"];
    sh::write("/proc/sys/vm/nr_hugepages", b"4").context("no huge pages")?;
    let site = Site::new()?;
    let program = actor(&site, "program")?;
    site.sign(&program)?;
    site.enforce(&[])?;
    ensure!(can(&program, "nothing")?, "expected it to run");
    for way in WAYS {
        let before = denied("anonymous")?;
        ensure!(!can(&program, way)?, "{way}: expected to be refused");
        ensure!(denied("anonymous")? == before + 1, "{way}: not counted");
    }
    ensure!(event(Path::new("program"), "anonymous")?["decision"] == "denied", "expected it to be denied");

    site.enforce(&["--anonymous", "log"])?;
    for way in WAYS {
        let before = denied("anonymous")?;
        ensure!(can(&program, way)?, "{way}: expected to be let through");
        ensure!(denied("anonymous")? == before + 1, "{way}: not counted");
    }
    let of_log = event(Path::new("program"), "anonymous")?;
    ensure!(of_log["decision"] == "permitted", "{of_log}");

    let before = denied("anonymous")?;
    site.enforce(&["--jit", text(&program)])?;
    for way in WAYS {
        ensure!(can(&program, way)?, "{way}: expected the exception to count");
    }
    site.enforce(&["--anonymous", "allow"])?;
    for way in WAYS {
        ensure!(can(&program, way)?, "{way}: expected to be allowed");
    }
    ensure!(denied("anonymous")? == before, "expected no event");
    Ok(())
}

fn process_memory_is_not_written() -> Result<()> {
    let site = Site::new()?;
    let program = actor(&site, "program")?;
    site.sign(&program)?;
    site.enforce(&[])?;
    ensure!(!can(&program, "write-itself")?, "expected to be refused");
    // The kernel names the file under /proc; its process is another each time.
    ensure!(denied("process-memory")? == 1, "{}", status()?);
    site.enforce(&["--ptrace", "log"])?;
    ensure!(can(&program, "write-itself")?, "expected to be let through");
    ensure!(denied("process-memory")? == 2, "{}", status()?);
    site.enforce(&["--debugger", text(&program)])?;
    ensure!(can(&program, "write-itself")?, "expected the exception to count");
    ensure!(denied("process-memory")? == 2, "{}", status()?);
    Ok(())
}

fn program_starts_under_no_tracer() -> Result<()> {
    let (site, program) = Site::with_running_program()?;
    let traced = || sh::run([STRACE, "-o", "/dev/null", text(&program)]).map(|output| output.status.success());
    ensure!(!traced()?, "expected to be refused under a tracer");
    ensure!(event(&program, "traced")?["decision"] == "denied", "expected it to be denied");
    site.enforce(&["--ptrace", "log"])?;
    ensure!(traced()?, "expected to be let through");
    ensure!(event(&program, "traced")?["decision"] == "permitted", "expected it to be permitted");
    let before = denied("traced")?;
    site.enforce(&["--debugger", STRACE])?;
    ensure!(traced()?, "expected the exception to count");
    site.enforce(&["--ptrace", "allow"])?;
    ensure!(traced()?, "expected to be allowed");
    ensure!(denied("traced")? == before, "expected no event");
    runs(&program)
}

fn tracer_does_not_attach() -> Result<()> {
    let site = Site::new()?;
    let program = site.program("/usr/bin/sleep", "program")?;
    site.sign(&program)?;
    site.enforce(&[])?;
    let mut sleeper = Command::new(&program).arg("1000").stdin(Stdio::null()).spawn()?;
    let pid = sleeper.id().to_string();
    // It attaches, and is done when the time is over.
    let attach = || sh::run(["timeout", "-s", "INT", "3", STRACE, "-o", "/dev/null", "-p", &pid]);
    let outcome = (|| {
        let output = attach()?;
        ensure!(String::from_utf8_lossy(&output.stderr).contains("not permitted"), "{output:?}");
        let event = event(Path::new("program"), "ptrace")?;
        ensure!(event["decision"] == "denied" && event["target"].as_u64() == pid.parse().ok(), "{event}");
        let before = denied("ptrace")?;
        site.enforce(&["--debugger", STRACE])?;
        let output = attach()?;
        ensure!(String::from_utf8_lossy(&output.stderr).contains("attached"), "{output:?}");
        ensure!(denied("ptrace")? == before, "expected no event");
        Ok(())
    })();
    sleeper.kill()?;
    sleeper.wait()?;
    outcome
}

fn interpreter_is_started_by_scripts_only() -> Result<()> {
    let site = Site::new()?;
    let shell = site.program("/usr/bin/dash", "dash")?;
    let script = site.script("script", &format!("#!{}\nexit 0\n", shell.display()))?;
    let unsigned = site.script("unsigned", &format!("#!{}\nexit 0\n# of its own\n", shell.display()))?;
    let linked = site.path("linked");
    fs::hard_link(&shell, &linked)?;
    site.sign(&shell)?;
    site.sign(&script)?;
    site.enforce(&["--interpreter", text(&shell)])?;
    runs(&script)?;
    refused(&unsigned)?;
    let start = |program: &Path, words: &[&str]| Command::new(program).args(words).stdin(Stdio::null()).output();
    for program in [&shell, &linked] {
        for words in [&["-c", "exit 0"][..], &[text(&script)], &[]] {
            let before = denied("direct-interpreter")?;
            sh::expect_errno(start(program, words), Errno::PERM, &format!("{} {words:?}", program.display()))?;
            ensure!(denied("direct-interpreter")? == before + 1, "{words:?}: not counted");
        }
    }
    ensure!(event(&shell, "direct-interpreter")?["hook"] == "exec", "the event does not name the hook");
    let output = sh::run([LINKER, text(&shell), "-c", "exit 0"])?;
    ensure!(output.status.code() == Some(127), "expected 127, found {output:?}");
    ensure!(event(&shell, "direct-interpreter")?["hook"] == "mmap", "the event does not name the hook");
    runs(&script)?;
    site.enforce(&[])?;
    sh::succeed([text(&shell), "-c", "exit 0"]).map(drop)
}

fn sealed_file() -> Result<()> {
    let site = Site::new()?;
    let (program, library) = (site.program("/usr/bin/true", "program")?, site.program(LINKER, "library")?);
    let (key, certificate) = (site.key(), site.certificate());
    let words = ["sign", "--seal", "--key", text(&key), "--cert", text(&certificate), "--container", "xattr"];
    touchmark_ok(words.iter().chain(&[text(&program), text(&library)]))?;
    touchmark_ok(["verify", "--cert", text(&certificate), text(&program), text(&library)])?;
    for file in [&program, &library] {
        let opened = fs::File::options().append(true).open(file);
        sh::expect_errno(opened, Errno::PERM, "opening a sealed file for writing")?;
    }
    site.enforce(&[])?;
    let count = || -> Result<_> {
        let status = status()?;
        Ok((status["hashes"].as_u64().context("hashes")?, status["sealed"].as_u64().context("sealed")?))
    };
    let (hashes, sealed) = count()?;
    runs(&program)?;
    ensure!(count()? == (hashes, sealed + 1), "expected one digest of a sealed file, found {}", status()?);
    sh::succeed([text(&library), text(&program)])?;
    ensure!(count()? == (hashes, sealed + 2), "expected another, found {}", status()?);
    // One that somebody else sealed is looked at like any other.
    let unsigned = site.program("/usr/bin/id", "unsigned")?;
    touchmark_sys::fsverity::enable(fs::File::open(&unsigned)?)?;
    refused(&unsigned)?;
    event(&unsigned, "unsigned").map(drop)
}

/// The site lies on a loop device.
fn file_system_rule() -> Result<()> {
    let (site, program) = Site::with_running_program()?;
    let hashes = || status()?["hashes"].as_u64().context("hashes");
    let before = hashes()?;
    runs(&program)?;
    ensure!(hashes()? == before, "expected the verdict to be kept");
    site.enforce(&["--file-system", "loop=hash"])?;
    for _ in 0..2 {
        let before = hashes()?;
        runs(&program)?;
        ensure!(hashes()? > before, "expected it to be hashed at every use");
    }
    site.enforce(&["--file-system", "loop=deny"])?;
    refused(&program)?;
    event(&program, "untrusted-filesystem")?;
    // By its magic number (EXT4_SUPER_MAGIC); the file system counts more than the device.
    site.enforce(&["--file-system", "loop=deny", "--file-system", "0xef53=cache"])?;
    if !kernel_verifies() {
        admit(&program)?;
    }
    runs(&program)
}
