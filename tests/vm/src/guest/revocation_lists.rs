// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Revocation lists: which are refused, and that they count after a restart.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

use crate::revoke::{LISTS, Scene, fails, revoke_by, succeeded, version};
use crate::sh::{self, Folder};
use crate::site::{event, generate_key, refused, runs, status, text, touchmark, touchmark_ok};
use crate::trial::{Trial, trial};

pub(crate) const TRIALS: &[Trial] = &[
    trial("older_list_is_refused", &[], older_list_is_refused).seconds(180),
    trial("foreign_list_is_refused", &[], foreign_list_is_refused).seconds(180),
    trial("certificates_change_under_a_list", &[], certificates_change_under_a_list).seconds(180),
    trial("list_is_read_when_enforcement_begins", &[], list_is_read_when_enforcement_begins).seconds(180),
    trial("killed_revocation_leaves_the_old_list_or_the_new_one", &[], killed_revocation_leaves_one_list).seconds(180),
];

fn older_list_is_refused() -> Result<()> {
    let scene = Scene::new()?;
    let (first, second) = (scene.program("first")?, scene.program("second")?);
    scene.site.enforce(&[])?;
    let folder = Folder::new()?;
    let place = Path::new(LISTS).join("revocations");
    let seen = Path::new(LISTS).join("revocations.seen");
    let lists = [folder.path().join("1"), folder.path().join("2")];
    for (program, list) in [&first, &second].into_iter().zip(&lists) {
        runs(program)?;
        scene.revoke_ok(&["--file", text(program), "--reason", "x"])?;
        fs::copy(&place, list)?;
    }
    let both_refused = || refused(&first).and_then(|()| refused(&second));
    fails(&touchmark(["revoke", "--list", text(&lists[0])])?, 3, "found version 1")?;
    ensure!(version()? == 2, "expected version 2");
    both_refused()?;

    let enforce = || touchmark(["enforce", "--scope", &scene.scope()]);
    // Put in its place by hand, with and without what is beside it: the kernel knows, too.
    let noted = fs::read(&seen)?;
    for gone in [false, true] {
        fs::copy(&lists[0], &place)?;
        if gone {
            fs::remove_file(&seen)?;
        }
        fails(&enforce()?, 3, "expected revocation list version 2 or newer")?;
        fails(&scene.revoke(&["--renew"])?, 3, "expected revocation list version 2 or newer")?;
        both_refused()?;
    }
    fs::remove_file(&place)?;
    fails(&enforce()?, 3, "found none")?;
    // After a restart the disk alone knows.
    sh::write(&seen, &noted)?;
    touchmark_ok(["enforce", "--mode", "off"])?;
    let certificate = scene.site.certificate();
    let begin = || touchmark(["enforce", "--cert", text(&certificate), "--scope", &scene.scope()]);
    fails(&begin()?, 3, "found none")?;
    fs::copy(&lists[0], &place)?;
    fails(&begin()?, 3, "found version 1")?;
    ensure!(status()?["mode"] == "off", "expected nothing to be enforced");
    // The right one, put in force again.
    succeeded(touchmark(["revoke", "--trust", text(&certificate), "--list", text(&lists[1])])?)?;
    succeeded(begin()?)?;
    both_refused()
}

fn foreign_list_is_refused() -> Result<()> {
    let scene = Scene::new()?;
    let program = scene.program("program")?;
    scene.site.enforce(&[])?;
    runs(&program)?;
    let keys = Folder::new()?;
    let folder = keys.path().join("other");
    generate_key(&folder)?;
    let list = keys.path().join("list");
    let words = ["--file", text(&program), "--reason", "x", "--out", text(&list)];
    succeeded(revoke_by(&folder, &words)?)?;
    fails(&touchmark(["revoke", "--list", text(&list)])?, 3, "unknown key")?;
    let other = folder.join("cert.pem");
    fails(&touchmark(["revoke", "--trust", text(&other), "--list", text(&list)])?, 2, "--trust")?;
    fails(&revoke_by(&folder, &["--file", text(&program), "--reason", "x"])?, 3, "a certificate in force")?;

    fs::remove_file(&list)?;
    scene.revoke_ok(&words)?;
    let signed = fs::read_to_string(&list)?;
    let unsigned = signed.split_once("-----BEGIN").context("no signature")?.0;
    for changed in [unsigned, &signed.replace("reason x", "reason y")] {
        sh::write(&list, changed.as_bytes())?;
        ensure!(touchmark(["revoke", "--list", text(&list)])?.status.code() == Some(3), "{changed} was taken");
    }
    ensure!(!fs::exists(LISTS)?, "something was written");
    runs(&program)?;
    // Made elsewhere by the right key, it counts.
    sh::write(&list, signed.as_bytes())?;
    touchmark_ok(["revoke", "--list", text(&list)])?;
    refused(&program)?;
    // The very same once more is fine.
    touchmark_ok(["revoke", "--list", text(&list)])?;
    // In the list's place, a foreign one keeps enforcement from being changed.
    fs::copy(&list, keys.path().join("good"))?;
    fs::remove_file(&list)?;
    for _ in 0..2 {
        succeeded(revoke_by(&folder, &words)?)?;
    }
    fs::copy(&list, Path::new(LISTS).join("revocations"))?;
    fails(&touchmark(["enforce", "--scope", &scene.scope()])?, 3, "unknown key")?;
    refused(&program)
}

fn certificates_change_under_a_list() -> Result<()> {
    let scene = Scene::new()?;
    let program = scene.program("program")?;
    scene.site.enforce(&[])?;
    scene.revoke_ok(&["--file", text(&program), "--reason", "x"])?;
    let keys = Folder::new()?;
    let folder = keys.path().join("new");
    generate_key(&folder)?;
    let (old, new, scope) = (scene.site.certificate(), folder.join("cert.pem"), scene.scope());
    // The list is by one that would not count any more.
    let change = || touchmark(["enforce", "--cert", text(&new), "--scope", &scope]);
    fails(&change()?, 3, "touchmark revoke --renew")?;
    refused(&program)?;
    touchmark_ok(["enforce", "--cert", text(&old), "--cert", text(&new), "--scope", &scope])?;
    succeeded(revoke_by(&folder, &["--renew"])?)?;
    succeeded(change()?)?;
    refused(&program)?;
    event(&program, "revoked")?;
    ensure!(version()? == 2, "expected version 2");
    Ok(())
}

fn list_is_read_when_enforcement_begins() -> Result<()> {
    let scene = Scene::new()?;
    let (program, embedded) = (scene.unsigned("program")?, scene.unsigned("embedded")?);
    scene.site.sign_in("xattr", &program)?;
    scene.site.sign_in("embedded", &embedded)?;
    let said =
        scene.revoke_ok(&["--file", text(&program), "--file", text(&embedded), "--reason", "before anything"])?;
    ensure!(said.contains("enforcement is not running"), "{said}");
    runs(&program)?;
    scene.site.enforce(&["--unguarded"])?;
    for program in [&program, &embedded] {
        refused(program)?;
        event(program, "revoked")?;
    }
    // A killed daemon's successor reads it, too.
    let pid = status()?["daemon"].as_i64().and_then(|pid| i32::try_from(pid).ok()).context("no daemon")?;
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), nix::sys::signal::Signal::SIGKILL)?;
    touchmark_ok(["enforce", "--scope", &scene.scope()])?;
    refused(&embedded)?;
    ensure!(status()?["revocations"]["version"] == 1, "status does not name the list: {}", status()?);
    Ok(())
}

/// Killed after a growing time, until it got through.
fn killed_revocation_leaves_one_list() -> Result<()> {
    let scene = Scene::new()?;
    let program = scene.program("program")?;
    scene.site.enforce(&[])?;
    let certificate = scene.site.certificate();
    let key = certificate.with_file_name("key.pem");
    let mut done = false;
    let mut wait = std::time::Duration::from_millis(2);
    for step in 0..16_u32 {
        wait = wait * 3 / 2;
        let mut child = Command::new("/usr/bin/touchmark")
            .args(["revoke", "--key", text(&key), "--cert", text(&certificate), "--reason", "x", "--file"])
            .arg(&program)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        let begin = std::time::Instant::now();
        while begin.elapsed() < wait && child.try_wait()?.is_none() {
            std::thread::yield_now();
        }
        done = child.try_wait()?.is_some_and(|status| status.success());
        child.kill()?;
        child.wait()?;
        let before = version()?;
        touchmark_ok(["enforce", "--scope", &scene.scope()])?;
        ensure!(version()? == before, "step {step}: the list changed");
        if before > 0 {
            refused(&program)?;
        }
        if done {
            break;
        }
    }
    scene.revoke_ok(&["--renew"])?;
    ensure!(done || version()? > 0, "expected a list");
    Ok(())
}
