// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Modes, the daemon, admission, and changing what is trusted.

use std::fs;

use anyhow::{Context, Result, ensure};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::sh::{self, Folder};
use crate::site::{
    Site, admit, event, flip, generate_key, kernel_verifies, refused, runs, soon, start, status, text, touchmark,
    touchmark_ok,
};
use crate::trial::{Trial, trial};

pub(crate) const TRIALS: &[Trial] = &[
    trial("permissive_blocks_nothing", &[], permissive_blocks_nothing),
    trial("off_ends_it_at_once", &[], off_ends_it_at_once),
    trial("trial_becomes_permissive", &[], trial_becomes_permissive),
    trial("enforcement_outlives_the_daemon", &[], enforcement_outlives_the_daemon),
    trial("embedded_signature_is_admitted_at_exec", &[], embedded_signature_is_admitted_at_exec),
    trial("new_file_system_is_admitted_from_too", &[], new_file_system_is_admitted_from_too),
    trial("detached_signature_is_admitted_by_command", &[], detached_signature_is_admitted_by_command),
    trial("admit_refuses_what_is_not_signed", &[], admit_refuses_what_is_not_signed),
    trial("other_certificate_counts_at_once", &[], other_certificate_counts_at_once),
    trial("whole_machine_is_not_locked_out", &[], whole_machine_is_not_locked_out),
    trial("two_commands_at_once", &[], two_commands_at_once),
    trial("killed_command_leaves_all_or_nothing", &[], killed_command_leaves_all_or_nothing),
    trial("doctor_finds_all_that_is_needed", &[], doctor_finds_all_that_is_needed),
];

fn permissive_blocks_nothing() -> Result<()> {
    let site = Site::new()?;
    let program = site.program("/usr/bin/true", "program")?;
    site.enforce(&["--mode", "permissive"])?;
    runs(&program)?;
    let event = event(&program, "unsigned")?;
    ensure!(event["decision"] == "permitted", "{event}");
    ensure!(status()?["permitted"].as_u64() > Some(0), "nothing was counted as permitted");
    site.enforce(&["--mode", "enforce"])?;
    refused(&program)
}

fn off_ends_it_at_once() -> Result<()> {
    let site = Site::new()?;
    let program = site.program("/usr/bin/true", "program")?;
    site.enforce(&[])?;
    refused(&program)?;
    touchmark_ok(["enforce", "--mode", "off"])?;
    runs(&program)?;
    ensure!(status()?["mode"] == "off", "expected off");
    ensure!(!fs::exists("/sys/fs/bpf/touchmark")?, "pins are left");
    touchmark_ok(["enforce", "--mode", "off"]).map(drop)
}

fn trial_becomes_permissive() -> Result<()> {
    let site = Site::new()?;
    let program = site.program("/usr/bin/true", "program")?;
    site.enforce(&["--trial", "5s"])?;
    refused(&program)?;
    ensure!(status()?["mode"] == "enforce", "expected the trial to enforce");
    soon("the trial to end", || Ok(start(&program).ok()))?;
    ensure!(status()?["mode"] == "permissive", "expected permissive");
    Ok(())
}

fn enforcement_outlives_the_daemon() -> Result<()> {
    let site = Site::new()?;
    let (signed, unsigned) = (site.program("/usr/bin/true", "signed")?, site.program("/usr/bin/id", "unsigned")?);
    site.sign(&signed)?;
    site.enforce(&["--unguarded"])?;
    kill_daemon()?;
    runs(&signed)?;
    refused(&unsigned)?;
    ensure!(status()?["daemon"].is_null(), "expected no daemon");
    // Without --cert: those in force stay.
    touchmark_ok(["enforce", "--scope", &format!("mount:{}", site.path("").display())])?;
    ensure!(status()?["daemon"].is_number(), "expected a daemon");
    runs(&signed)?;
    refused(&unsigned)?;
    // What happened while it was dead was kept in the ring buffer.
    event(&unsigned, "unsigned").map(drop)
}

fn kill_daemon() -> Result<()> {
    let pid = status()?["daemon"].as_i64().and_then(|pid| i32::try_from(pid).ok()).context("no daemon")?;
    kill(Pid::from_raw(pid), Signal::SIGKILL)?;
    soon("the daemon to end", || Ok(status()?["daemon"].is_null().then_some(())))
}

fn embedded_signature_is_admitted_at_exec() -> Result<()> {
    let site = Site::new()?;
    let (first, second) = (site.program("/usr/bin/true", "first")?, site.program("/usr/bin/id", "second")?);
    for program in [&first, &second] {
        site.sign_in("embedded", program)?;
    }
    site.enforce(&["--unguarded"])?;
    runs(&first)?;
    ensure!(status()?["approved_digests"] == 1, "expected one digest to be approved");
    kill_daemon()?;
    runs(&first)?;
    refused(&second)?;
    admit(&second)?;
    runs(&second)?;
    flip(&second)?;
    refused(&second)
}

fn new_file_system_is_admitted_from_too() -> Result<()> {
    let site = Site::new()?;
    site.enforce(&[])?;
    let later = sh::Mount::ext4()?;
    let program = later.path().join("program");
    fs::copy("/usr/bin/true", &program)?;
    site.sign_in("embedded", &program)?;
    touchmark_ok(["enforce", "--scope", &format!("mount:{}", later.path().display())])?;
    // The daemon notices the mount by itself.
    soon("the program to be admitted", || Ok(start(&program).ok())).map(drop)
}

fn detached_signature_is_admitted_by_command() -> Result<()> {
    let site = Site::new()?;
    let program = site.program("/usr/bin/true", "program")?;
    site.sign_in("detached", &program)?;
    site.enforce(&[])?;
    refused(&program)?;
    admit(&program)?;
    runs(&program)?;
    // An approval is of the content, wherever it lies, and outlives a change of mode.
    let copy = site.program(text(&program), "copy")?;
    runs(&copy)?;
    site.enforce(&["--mode", "permissive"])?;
    site.enforce(&["--mode", "enforce"])?;
    runs(&program)
}

fn admit_refuses_what_is_not_signed() -> Result<()> {
    let site = Site::new()?;
    let program = site.program("/usr/bin/true", "program")?;
    site.enforce(&[])?;
    let output = touchmark(["admit", text(&program)])?;
    ensure!(output.status.code() == Some(1), "expected 1, found {output:?}");
    ensure!(String::from_utf8_lossy(&output.stderr).contains("not signed"), "{output:?}");
    refused(&program)
}

fn other_certificate_counts_at_once() -> Result<()> {
    let site = Site::new()?;
    let program = site.program("/usr/bin/true", "program")?;
    let embedded = site.program("/usr/bin/id", "embedded")?;
    site.sign(&program)?;
    site.sign_in("embedded", &embedded)?;
    site.enforce(&[])?;
    runs(&program)?;
    runs(&embedded)?;
    let keys = Folder::new()?;
    generate_key(&keys.path().join("other"))?;
    let (other, scope) = (keys.path().join("other/cert.pem"), format!("mount:{}", site.path("").display()));
    touchmark_ok(["enforce", "--cert", text(&other), "--scope", &scope])?;
    refused(&program)?;
    refused(&embedded)?;
    event(&program, if kernel_verifies() { "bad-signature" } else { "unsigned" })?;
    // With both, each of them counts.
    let own = site.certificate();
    touchmark_ok(["enforce", "--cert", text(&other), "--cert", text(&own), "--scope", &scope])?;
    if kernel_verifies() {
        runs(&program)?;
    }
    runs(&embedded)
}

/// Nothing on this machine is signed: the command must see that before it is too late.
fn whole_machine_is_not_locked_out() -> Result<()> {
    let site = Site::new()?;
    let certificate = site.certificate();
    let own = fs::read_to_string("/proc/self/cgroup")?;
    let own = format!("cgroup:/sys/fs/cgroup/{}", own.trim().trim_start_matches("0::/"));
    for scope in ["all", "mount:/", &own] {
        let output = touchmark(["enforce", "--cert", text(&certificate), "--scope", scope])?;
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        ensure!(output.status.code() == Some(3) && said.contains("would be refused"), "{scope}: {output:?}");
        ensure!(said.contains("touchmark sign") && said.contains("--trial"), "the message does not help: {said}");
        ensure!(status()?["mode"] == "off", "{scope}: expected nothing to be enforced");
    }
    sh::succeed(["true"]).map(drop)
}

fn two_commands_at_once() -> Result<()> {
    let site = Site::new()?;
    let program = site.program("/usr/bin/true", "program")?;
    let (certificate, scope) = (site.certificate(), format!("mount:{}", site.path("").display()));
    let words = ["enforce", "--cert", text(&certificate), "--scope", &scope];
    std::thread::scope(|scope| -> Result<()> {
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(|| touchmark_ok(words).map(drop))).collect();
        threads.into_iter().try_for_each(|thread| thread.join().map_err(|_| anyhow::anyhow!("a thread panicked"))?)
    })?;
    refused(&program)
}

/// Killed after a growing number of system calls' worth of time, until it got through.
fn killed_command_leaves_all_or_nothing() -> Result<()> {
    let site = Site::new()?;
    let program = site.program("/usr/bin/true", "program")?;
    let (certificate, scope) = (site.certificate(), format!("mount:{}", site.path("").display()));
    for step in 0..40_u32 {
        let mut child = std::process::Command::new("/usr/bin/touchmark")
            .args(["enforce", "--no-daemon", "--cert", text(&certificate), "--scope", &scope])
            .stdout(std::process::Stdio::null())
            .spawn()?;
        let begin = std::time::Instant::now();
        while begin.elapsed() < std::time::Duration::from_millis(u64::from(step) * 20) && child.try_wait()?.is_none() {
            std::thread::yield_now();
        }
        let done = child.try_wait()?.is_some_and(|status| status.success());
        child.kill()?;
        child.wait()?;
        let state = status()?;
        ensure!(state["mode"] == "off" || state["mode"] == "enforce", "step {step}: {state}");
        if state["mode"] == "enforce" {
            refused(&program)?;
        }
        if done {
            return refused(&program);
        }
    }
    // Whatever is left half-way does not stand in the way of the next.
    site.enforce(&["--no-daemon"])?;
    refused(&program)
}

fn doctor_finds_all_that_is_needed() -> Result<()> {
    let said = touchmark_ok(["doctor"])?;
    ensure!(said.contains("can enforce"), "{said}");
    let line = said.lines().find(|line| line.contains("signatures in xattrs")).context("not named")?;
    ensure!(line.starts_with(if kernel_verifies() { "yes" } else { "no" }), "{line}");
    Ok(())
}
