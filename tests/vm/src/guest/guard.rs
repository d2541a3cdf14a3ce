// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Who may change or end enforcement.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;

use anyhow::{Context, Result, ensure};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use rustix::io::Errno;

use crate::sh::{self, Folder};
use crate::site::{
    Site, event_by, generate_key, kernel_verifies, refused, runs, soon, status, text, touchmark, touchmark_ok,
};
use crate::trial::{Trial, trial};

pub(crate) const TRIALS: &[Trial] = &[
    trial("locked_policy_takes_an_order", &[], locked_policy_takes_an_order).seconds(180),
    trial("order_does_not_outlive_enforcement", &[], order_does_not_outlive_enforcement).seconds(180),
    trial("root_does_not_end_it_by_hand", &[], root_does_not_end_it_by_hand).seconds(180),
    trial("daemon_killed_by_its_control_group_lets_nothing_in", &[], killed_by_its_control_group).seconds(180),
    trial("service_without_roots_keyring_enforces", &[], service_without_roots_keyring_enforces).seconds(180),
    trial("replaced_state_file_makes_no_other_certificate_count", &[], replaced_state_file).seconds(180),
];

fn locked_policy_takes_an_order() -> Result<()> {
    let site = Site::new()?;
    let program = site.program("/usr/bin/true", "program")?;
    site.enforce(&["--lock"])?;
    ensure!(status()?["locked"] == true, "expected it to be locked");
    let (keys, scope) = (Folder::new()?, site.scope());
    generate_key(&keys.path().join("other"))?;
    let other = keys.path().join("other/cert.pem");
    for words in [
        &["--mode", "off"][..],
        &["--mode", "permissive", "--scope", &scope],
        &["--cert", text(&other), "--scope", &scope],
        &["--scope", &scope],
    ] {
        let output = touchmark(["enforce"].iter().chain(words))?;
        ensure!(output.status.code() == Some(2) && said(&output).contains("--order"), "{words:?}: {output:?}");
    }
    let by_other = order(&keys, &keys.path().join("other"))?;
    let off = |order: &Path| touchmark(["enforce", "--mode", "off", "--order", text(order)]);
    is_no_order(&off(&by_other)?)?;
    refused(&program)?;

    let by_owner = order(&keys, site.key().parent().context("expected a folder")?)?;
    let change = |order: &Path| touchmark(["enforce", "--lock", "--scope", &scope, "--order", text(order)]);
    let output = change(&by_owner)?;
    ensure!(output.status.success(), "{output:?}");
    is_no_order(&change(&by_owner)?)?;
    is_no_order(&off(&by_owner)?)?;
    refused(&program)?;

    let last = order(&keys, site.key().parent().context("expected a folder")?)?;
    let output = off(&last)?;
    ensure!(output.status.success(), "{output:?}");
    runs(&program)
}

/// Enforcement that begins anew is another one, even if its policies are counted from the start again.
fn order_does_not_outlive_enforcement() -> Result<()> {
    let (site, keys) = (Site::new()?, Folder::new()?);
    let own = site.key().parent().map(Path::to_owned).context("expected a folder")?;
    let mut orders: Vec<PathBuf> = Vec::new();
    for _ in 0..2 {
        site.enforce(&["--lock"])?;
        for old in &orders {
            is_no_order(&touchmark(["enforce", "--mode", "off", "--order", text(old)])?)?;
        }
        let fresh = order(&keys, &own)?;
        let kept = keys.path().join(format!("order-{}", orders.len()));
        fs::rename(&fresh, &kept)?;
        touchmark_ok(["enforce", "--mode", "off", "--order", text(&kept)])?;
        orders.push(kept);
    }
    Ok(())
}

/// An order for the policy in force, signed by the key in a folder.
fn order(place: &Folder, key: &Path) -> Result<PathBuf> {
    let (challenge, order) = (place.path().join("challenge"), place.path().join("order"));
    fs::write(&challenge, touchmark_ok(["order", "challenge"])?)?;
    let (private, certificate) = (key.join("key.pem"), key.join("cert.pem"));
    let words = ["order", "sign", "--key", text(&private), "--cert", text(&certificate), text(&challenge)];
    let output = touchmark(words)?;
    ensure!(output.status.success(), "{output:?}");
    fs::write(&order, &output.stdout)?;
    Ok(order)
}

fn is_no_order(output: &Output) -> Result<()> {
    ensure!(output.status.code() == Some(3) && said(output).contains("is no order"), "{output:?}");
    Ok(())
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn root_does_not_end_it_by_hand() -> Result<()> {
    const PIN: &str = "/sys/fs/bpf/touchmark/links/check_exec";
    let (site, signed) = Site::with_running_program()?;
    let unsigned = site.program("/usr/bin/id", "unsigned")?;
    let pid = daemon()?;
    for signal in [Signal::SIGKILL, Signal::SIGSTOP, Signal::SIGTERM, Signal::SIGSEGV] {
        ensure!(kill(pid, signal) == Err(nix::errno::Errno::EPERM), "{signal}: expected to be refused");
    }
    kill(pid, None).context("asking whether the daemon lives")?;
    let event_of = |hook: &str| -> Result<()> {
        let found = event_by(|event| event["hook"] == hook && event["reason"] == "guarded")?;
        ensure!(found["decision"] == "denied", "{found}");
        Ok(())
    };
    event_of("kill")?;
    sh::expect_errno(fs::remove_file(PIN), Errno::PERM, "removing a pin")?;
    sh::expect_errno(fs::rename(PIN, format!("{PIN}_")), Errno::PERM, "renaming a pin")?;
    sh::expect_errno(fs::rename("/sys/fs/bpf/touchmark", "/sys/fs/bpf/other"), Errno::PERM, "renaming the pins")?;
    event_of("unlink")?;
    let output = sh::run(["strace", "-o", "/dev/null", "-p", &pid.to_string()])?;
    ensure!(String::from_utf8_lossy(&output.stderr).contains("not permitted"), "{output:?}");
    event_of("ptrace")?;
    runs(&signed)?;
    refused(&unsigned)?;
    ensure!(daemon()? == pid, "expected the same daemon");
    // Who takes the mount table apart, does so with the one of this trial, but the pins are of the machine.
    let output = sh::run(["umount", "-l", "/sys/fs/bpf"])?;
    runs(&signed)?;
    refused(&unsigned)?;
    ensure!(!output.status.success(), "expected the mount of the pins to stay: {output:?}");
    event_of("umount")
}

/// The kernel asks no security module about `cgroup.kill`: root can end the daemon, but not enforcement.
fn killed_by_its_control_group() -> Result<()> {
    let (site, signed) = Site::with_running_program()?;
    let unsigned = site.program("/usr/bin/id", "unsigned")?;
    let group = Path::new("/sys/fs/cgroup/daemon");
    fs::create_dir_all(group)?;
    fs::write(group.join("cgroup.procs"), daemon()?.to_string())?;
    fs::write(group.join("cgroup.kill"), "1")?;
    soon("the daemon to end", || Ok(status()?["daemon"].is_null().then_some(())))?;
    runs(&signed)?;
    refused(&unsigned)?;
    ensure!(status()?["mode"] == "enforce", "expected enforcement to go on");
    touchmark_ok(["enforce", "--scope", &site.scope()])?;
    let pid = daemon()?;
    ensure!(kill(pid, Signal::SIGKILL).is_err(), "expected the new daemon to be guarded, too");
    refused(&unsigned)
}

/// A service of systemd has a session keyring that does not lead to root's own.
fn service_without_roots_keyring_enforces() -> Result<()> {
    let site = Site::new()?;
    let (signed, unsigned) = (site.program("/usr/bin/true", "signed")?, site.program("/usr/bin/id", "unsigned")?);
    site.sign_in("xattr", &signed)?;
    let (certificate, scope) = (site.certificate(), site.scope());
    let words = ["touchmark", "enforce", "--cert", text(&certificate), "--scope", &scope];
    sh::succeed(["keyctl", "session", "-"].iter().chain(&words))?;
    if kernel_verifies() {
        runs(&signed)?;
    }
    refused(&unsigned)
}

fn daemon() -> Result<Pid> {
    let pid = status()?["daemon"].as_i64().and_then(|pid| i32::try_from(pid).ok()).context("no daemon")?;
    Ok(Pid::from_raw(pid))
}

fn replaced_state_file() -> Result<()> {
    const STATE: &str = "/run/touchmark/state.toml";
    let site = Site::new()?;
    let (own, foreign) = (site.program("/usr/bin/true", "own")?, site.program("/usr/bin/id", "foreign")?);
    let keys = Folder::new()?;
    let other = keys.path().join("other");
    generate_key(&other)?;
    let (key, certificate) = (other.join("key.pem"), other.join("cert.pem"));
    site.sign_in("embedded", &own)?;
    let words = ["sign", "--key", text(&key), "--cert", text(&certificate), "--container", "embedded", text(&foreign)];
    touchmark_ok(words)?;
    site.enforce(&[])?;
    runs(&own)?;

    let (ours, theirs) = (fs::read_to_string(site.certificate())?, fs::read_to_string(&certificate)?);
    let state = fs::read_to_string(STATE)?;
    let replaced = state.replace(ours.trim(), theirs.trim());
    ensure!(replaced != state, "the certificate in force is not in {state}");
    sh::write(STATE, replaced.as_bytes())?;
    let output = touchmark(["admit", text(&foreign)])?;
    ensure!(output.status.code() == Some(3) && said(&output).contains(STATE), "{output:?}");
    // Without --cert there is nothing to go by.
    let output = touchmark(["enforce", "--scope", &site.scope()])?;
    ensure!(output.status.code() == Some(2) && said(&output).contains(STATE), "{output:?}");
    ensure!(status()?["mode"] == "enforce", "expected enforcement to go on");
    refused(&foreign)?;
    runs(&own)?;

    site.enforce(&[])?;
    runs(&own)?;
    refused(&foreign)?;
    let output = touchmark(["admit", text(&foreign)])?;
    ensure!(output.status.code() == Some(1), "{output:?}");
    refused(&foreign)
}
