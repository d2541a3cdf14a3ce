// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Revocation: what falls, and at once.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use anyhow::{Context, Result, ensure};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use touchmark_sys::mapping::{Access, Mapping};

use crate::sh::{self, Folder};
use crate::site::{
    Site, admit, event, generate_key, kernel_verifies, refused, runs, soon, text, touchmark, touchmark_ok,
};
use crate::trial::{Trial, trial};

pub(crate) const TRIALS: &[Trial] = &[
    trial("revoked_content_is_refused_at_once", &[], revoked_content_is_refused_at_once).seconds(180),
    trial("revoked_signature_is_refused", &[], revoked_signature_is_refused).seconds(180),
    trial("revoked_certificate_takes_all_it_signed", &[], revoked_certificate_takes_all_it_signed).seconds(180),
    trial("revocation_counts_for_an_admission_under_way", &[], revocation_counts_for_an_admission_under_way)
        .seconds(180),
    trial("running_program_is_reported_and_stopped", &[], running_program_is_reported_and_stopped).seconds(180),
];

/// Where the list of the machine is.
pub(crate) const LISTS: &str = "/var/lib/touchmark";

/// A site that enforces, without a list before and after.
pub(crate) struct Scene {
    pub(crate) site: Site,
}

impl Scene {
    pub(crate) fn new() -> Result<Self> {
        remove_lists()?;
        Ok(Self { site: Site::new()? })
    }

    /// Revokes with the site's key.
    pub(crate) fn revoke(&self, words: &[&str]) -> Result<Output> {
        let certificate = self.site.certificate();
        revoke_by(certificate.with_file_name("").as_path(), words)
    }

    pub(crate) fn revoke_ok(&self, words: &[&str]) -> Result<String> {
        succeeded(self.revoke(words)?)
    }

    /// A program that just ran, of content that no other has.
    pub(crate) fn program(&self, name: &str) -> Result<PathBuf> {
        let program = self.unsigned(name)?;
        self.site.sign(&program)?;
        Ok(program)
    }

    pub(crate) fn unsigned(&self, name: &str) -> Result<PathBuf> {
        let program = self.site.program("/usr/bin/true", name)?;
        let bytes = [&fs::read(&program)?[..], name.as_bytes()].concat();
        crate::site::overwrite(&program, &bytes)?;
        Ok(program)
    }

    pub(crate) fn scope(&self) -> String {
        format!("mount:{}", self.site.path("").display())
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        let _ = remove_lists();
    }
}

/// Forgets the lists of the trials before.
pub(crate) fn remove_lists() -> Result<()> {
    match fs::remove_dir_all(LISTS) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error.into()),
        _ => Ok(()),
    }
}

/// Revokes with the key in a folder.
pub(crate) fn revoke_by(keys: &Path, words: &[&str]) -> Result<Output> {
    let (key, certificate) = (keys.join("key.pem"), keys.join("cert.pem"));
    touchmark(["revoke", "--key", text(&key), "--cert", text(&certificate)].iter().chain(words))
}

pub(crate) fn succeeded(output: Output) -> Result<String> {
    ensure!(output.status.success(), "expected success, found {output:?}");
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The command must fail with this code, and say this.
pub(crate) fn fails(output: &Output, code: i32, said: &str) -> Result<()> {
    let error = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.code() == Some(code) && error.contains(said), "expected {code} and `{said}`: {output:?}");
    Ok(())
}

/// `touchmark revoked`.
fn revoked() -> Result<Value> {
    serde_json::from_str(&touchmark_ok(["revoked", "--json"])?).context("no JSON")
}

pub(crate) fn version() -> Result<u64> {
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

/// An admission that read the certificates before one of them was revoked, and approves after.
fn revocation_counts_for_an_admission_under_way() -> Result<()> {
    let scene = Scene::new()?;
    let large = scene.unsigned("large")?;
    // Large enough that it is met while it is read.
    fs::File::options().write(true).open(&large)?.set_len(64 << 20)?;
    scene.site.sign_in("detached", &large)?;
    let keys = Folder::new()?;
    let folder = keys.path().join("other");
    generate_key(&folder)?;
    let (own, other) = (scene.site.certificate(), folder.join("cert.pem"));
    scene.site.enforce(&["--cert", text(&other), "--unguarded"])?;

    let mut admission = Command::new("/usr/bin/touchmark").args(["admit", text(&large)]).spawn()?;
    let pid = Pid::from_raw(i32::try_from(admission.id())?);
    let opened = PathBuf::from(format!("/proc/{pid}/fd"));
    let reads = || -> Result<Option<()>> {
        let targets = fs::read_dir(&opened)?.flatten().filter_map(|entry| fs::read_link(entry.path()).ok());
        Ok(targets.into_iter().any(|target| target == large).then_some(()))
    };
    soon("the file to be opened", reads)?;
    kill(pid, Signal::SIGSTOP)?;
    succeeded(revoke_by(&folder, &["--certificate", text(&own), "--reason", "stolen"])?)?;
    kill(pid, Signal::SIGCONT)?;
    let ended = admission.wait()?;
    ensure!(ended.code() == Some(1), "expected it not to be approved: {ended}");
    refused(&large)
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
