// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Revocation: what falls, at once and after a restart, and which lists are refused.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use touchmark_sys::mapping::{Access, Mapping};

use crate::sh::{self, Folder};
use crate::site::{
    Site, admit, event, generate_key, kernel_verifies, refused, runs, status, text, touchmark, touchmark_ok,
};
use crate::trial::{Trial, trial};

pub(crate) const TRIALS: &[Trial] = &[
    trial("revoked_content_is_refused_at_once", &[], revoked_content_is_refused_at_once),
    trial("revoked_signature_is_refused", &[], revoked_signature_is_refused),
    trial("revoked_certificate_takes_all_it_signed", &[], revoked_certificate_takes_all_it_signed),
    trial("older_list_is_refused", &[], older_list_is_refused),
    trial("foreign_list_is_refused", &[], foreign_list_is_refused),
    trial("certificates_change_under_a_list", &[], certificates_change_under_a_list),
    trial("list_is_read_when_enforcement_begins", &[], list_is_read_when_enforcement_begins),
    trial("running_program_is_reported_and_stopped", &[], running_program_is_reported_and_stopped),
    trial("killed_revocation_leaves_the_old_list_or_the_new_one", &[], killed_revocation_leaves_one_list)
        .seconds(120),
];

/// Where the list of the machine is.
const LISTS: &str = "/var/lib/touchmark";

/// A site that enforces, without a list before and after.
struct Scene {
    site: Site,
}

impl Scene {
    fn new() -> Result<Self> {
        remove_lists()?;
        Ok(Self { site: Site::new()? })
    }

    /// Revokes with the site's key.
    fn revoke(&self, words: &[&str]) -> Result<Output> {
        let certificate = self.site.certificate();
        revoke_by(certificate.with_file_name("").as_path(), words)
    }

    fn revoke_ok(&self, words: &[&str]) -> Result<String> {
        succeeded(self.revoke(words)?)
    }

    /// A program that just ran, of content that no other has.
    fn program(&self, name: &str) -> Result<PathBuf> {
        let program = self.unsigned(name)?;
        self.site.sign(&program)?;
        Ok(program)
    }

    fn unsigned(&self, name: &str) -> Result<PathBuf> {
        let program = self.site.program("/usr/bin/true", name)?;
        let bytes = [&fs::read(&program)?[..], name.as_bytes()].concat();
        crate::site::overwrite(&program, &bytes)?;
        Ok(program)
    }

    fn scope(&self) -> String {
        format!("mount:{}", self.site.path("").display())
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        let _ = remove_lists();
    }
}

fn remove_lists() -> Result<()> {
    match fs::remove_dir_all(LISTS) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error.into()),
        _ => Ok(()),
    }
}

/// Revokes with the key in a folder.
fn revoke_by(keys: &Path, words: &[&str]) -> Result<Output> {
    let (key, certificate) = (keys.join("key.pem"), keys.join("cert.pem"));
    touchmark(["revoke", "--key", text(&key), "--cert", text(&certificate)].iter().chain(words))
}

fn succeeded(output: Output) -> Result<String> {
    ensure!(output.status.success(), "expected success, found {output:?}");
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The command must fail with this code, and say this.
fn fails(output: &Output, code: i32, said: &str) -> Result<()> {
    let error = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.code() == Some(code) && error.contains(said), "expected {code} and `{said}`: {output:?}");
    Ok(())
}

/// `touchmark revoked`.
fn revoked() -> Result<Value> {
    serde_json::from_str(&touchmark_ok(["revoked", "--json"])?).context("no JSON")
}

fn version() -> Result<u64> {
    revoked()?["version"].as_u64().context("no version")
}

fn revoked_content_is_refused_at_once() -> Result<()> {
    let scene = Scene::new()?;
    let (bad, good) = (scene.program("bad")?, scene.program("good")?);
    scene.site.enforce(&[])?;
    for _ in 0..2 {
        runs(&bad)?;
        runs(&good)?;
    }
    let said = scene.revoke_ok(&["--file", text(&bad), "--reason", "a back door"])?;
    ensure!(said.contains("version 1, 1 entries, in force"), "{said}");
    refused(&bad)?;
    event(&bad, "revoked")?;
    runs(&good)?;
    // The content is revoked, wherever it lies.
    let copy = scene.site.path("copy");
    fs::copy(&bad, &copy)?;
    scene.site.sign_in("xattr", &copy)?;
    refused(&copy)?;
    let list = revoked()?;
    let digest = sh::succeed(["sha256sum", text(&bad)])?;
    ensure!(list["signer"].is_string() && list["entries"][0]["reason"] == "a back door", "{list}");
    ensure!(list["entries"][0]["id"].as_str().is_some_and(|id| digest.starts_with(id)), "{list}");
    // Nor does user space approve it again.
    let certificate = scene.site.certificate();
    let verified = touchmark(["verify", "--cert", text(&certificate), text(&bad)])?;
    let stdout = String::from_utf8_lossy(&verified.stdout).into_owned();
    ensure!(verified.status.code() == Some(1) && stdout.contains("revoked: file"), "{verified:?}");
    fails(&touchmark(["admit", text(&bad)])?, 1, "a back door")?;
    refused(&bad)?;
    // As a digest, and as one more entry.
    let digest = sh::succeed(["sha256sum", text(&good)])?;
    let digest = digest.split_whitespace().next().context("no digest")?;
    scene.revoke_ok(&["--digest", digest, "--reason", "also"])?;
    refused(&good)?;
    refused(&bad)?;
    ensure!(version()? == 2, "expected version 2");
    Ok(())
}

fn revoked_signature_is_refused() -> Result<()> {
    let scene = Scene::new()?;
    let (xattr, embedded) = (scene.program("xattr")?, scene.unsigned("embedded")?);
    scene.site.sign_in("embedded", &embedded)?;
    scene.site.enforce(&[])?;
    let mut ids = Vec::new();
    for program in [&xattr, &embedded] {
        runs(program)?;
        let found: Value = serde_json::from_str(&touchmark_ok(["inspect", "--json", text(program)])?)?;
        ids.push(found["signatures"][0]["id"].as_str().context("no id")?.to_owned());
    }
    let other = scene.program("other")?;
    if !kernel_verifies() {
        admit(&other)?;
    }
    runs(&other)?;
    for (program, id) in [&xattr, &embedded].into_iter().zip(&ids) {
        scene.revoke_ok(&["--signature", id, "--reason", "signed by mistake"])?;
        refused(program)?;
        runs(&other)?;
    }
    if kernel_verifies() {
        event(&xattr, "revoked")?;
    }
    fails(&touchmark(["admit", text(&xattr)])?, 1, "signed by mistake")?;
    // Signed anew, the same content counts.
    scene.site.sign_in("xattr", &xattr)?;
    if !kernel_verifies() {
        admit(&xattr)?;
    }
    runs(&xattr)
}

fn revoked_certificate_takes_all_it_signed() -> Result<()> {
    let scene = Scene::new()?;
    let (kept, lost, inside) = (scene.program("kept")?, scene.program("lost")?, scene.unsigned("inside")?);
    scene.site.sign_in("embedded", &inside)?;
    let keys = Folder::new()?;
    let folder = keys.path().join("other");
    generate_key(&folder)?;
    let (own, other) = (scene.site.certificate(), folder.join("cert.pem"));
    scene.site.enforce(&["--cert", text(&other)])?;
    for program in [&kept, &lost, &inside] {
        runs(program)?;
    }
    // A list does not revoke its own signer.
    fails(&scene.revoke(&["--certificate", text(&own), "--reason", "stolen"])?, 3, "does not revoke")?;
    runs(&kept)?;

    let sign = |path: &Path| {
        let key = folder.join("key.pem");
        touchmark_ok(["sign", "--key", text(&key), "--cert", text(&other), "--container", "xattr", text(path)])
    };
    sign(&kept)?;
    if !kernel_verifies() {
        admit(&kept)?;
    }
    runs(&kept)?;
    succeeded(revoke_by(&folder, &["--certificate", text(&own), "--reason", "stolen"])?)?;
    runs(&kept)?;
    refused(&lost)?;
    refused(&inside)?;
    fails(&touchmark(["admit", text(&lost)])?, 1, "stolen")?;
    sign(&lost)?;
    if !kernel_verifies() {
        admit(&lost)?;
    }
    runs(&lost)?;
    // What it signs from now on does not count either, lists least of all.
    let list = keys.path().join("list");
    let digest = "00".repeat(32);
    fs::copy(Path::new(LISTS).join("revocations"), &list)?;
    let words = ["--digest", &digest, "--reason", "x", "--trust", text(&other), "--out", text(&list)];
    fails(&scene.revoke(&words)?, 3, "does not revoke")?;
    fs::remove_file(&list)?;
    for _ in 0..2 {
        scene.revoke_ok(&["--digest", &digest, "--reason", "x", "--out", text(&list)])?;
    }
    fails(&touchmark(["revoke", "--list", text(&list)])?, 3, "a certificate in force")?;
    ensure!(version()? == 1, "expected the list to stay");
    // Naming it again does not bring it back.
    touchmark_ok(["enforce", "--cert", text(&own), "--cert", text(&other), "--scope", &scene.scope()])?;
    refused(&inside)?;
    runs(&kept)
}

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
    let (program, embedded) = (scene.program("program")?, scene.unsigned("embedded")?);
    scene.site.sign_in("embedded", &embedded)?;
    let said =
        scene.revoke_ok(&["--file", text(&program), "--file", text(&embedded), "--reason", "before anything"])?;
    ensure!(said.contains("enforcement is not running"), "{said}");
    runs(&program)?;
    touchmark_ok(["enforce", "--cert", text(&scene.site.certificate()), "--scope", &scene.scope()])?;
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

/// A copy of `sleep` that runs until it is ended.
fn waiting(scene: &Scene, name: &str) -> Result<(PathBuf, Child)> {
    let program = scene.site.program("/usr/bin/sleep", name)?;
    let bytes = [&fs::read(&program)?[..], name.as_bytes()].concat();
    crate::site::overwrite(&program, &bytes)?;
    scene.site.sign(&program)?;
    if !kernel_verifies() {
        admit(&program)?;
    }
    let child = Command::new(&program).arg("1000").stdin(Stdio::null()).spawn()?;
    Ok((program, child))
}

fn running_program_is_reported_and_stopped() -> Result<()> {
    let scene = Scene::new()?;
    scene.site.enforce(&[])?;
    let (program, mut child) = waiting(&scene, "waits")?;
    let (deleted, mut other) = waiting(&scene, "deleted")?;
    let digest = sh::succeed(["sha256sum", text(&deleted)])?;
    let digest = digest.split_whitespace().next().context("no digest")?;
    fs::remove_file(&deleted)?;
    // Mapped executable, as a library is, by this very process.
    let library = scene.program("library")?;
    if !kernel_verifies() {
        admit(&library)?;
    }
    let mapping = Mapping::new(fs::File::open(&library)?, 4096, Access::Execute)?;

    let words = ["--file", text(&program), "--file", text(&library), "--digest", digest, "--reason", "x"];
    let output = scene.revoke(&words)?;
    ensure!(output.status.code() == Some(1), "expected 1, because it still runs: {output:?}");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    for (child, name) in [(&child, "waits"), (&other, "deleted")] {
        let line = format!("running: process {} ({name}): {}", child.id(), scene.site.path(name).display());
        ensure!(said.contains(&line), "expected `{line}` in {said}");
    }
    let own = format!("running: process {} (", std::process::id());
    let line = said.lines().find(|line| line.starts_with(&own)).with_context(|| format!("`{own}` is not in {said}"))?;
    ensure!(line.contains(text(&library)), "{line}");
    drop(mapping);
    refused(&program)?;
    ensure!(child.try_wait()?.is_none() && other.try_wait()?.is_none(), "something was stopped");

    let said = scene.revoke_ok(&["--renew", "--stop"])?;
    for child in [&mut child, &mut other] {
        ensure!(said.contains(&format!("stopped: process {} ", child.id())), "{said}");
        ensure!(child.wait()?.signal() == Some(9), "expected an end by SIGKILL");
    }
    let said = scene.revoke_ok(&["--renew"])?;
    ensure!(!said.contains("process"), "{said}");
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
