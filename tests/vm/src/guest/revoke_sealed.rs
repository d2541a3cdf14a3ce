// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Revocation of sealed files (fs-verity), by the digest that the kernel vouches for.

use std::fs::{self, File};
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

use crate::revoke::Scene;
use crate::sh;
use crate::site::{Site, admit, event, kernel_verifies, refused, runs, status, text, touchmark, touchmark_ok};
use crate::trial::{Need, Trial, trial};

pub(crate) const TRIALS: &[Trial] = &[
    trial("revoked_seal_is_refused_at_once", &[Need::KernelFrom(6, 8)], revoked_seal_is_refused_at_once).seconds(180),
    trial("revoked_sealed_file_is_refused_by_every_kernel", &[], revoked_sealed_file).seconds(180),
];

/// Signs a program and seals it.
fn seal(site: &Site, path: &Path) -> Result<()> {
    let (key, certificate) = (site.key(), site.certificate());
    let words = ["sign", "--seal", "--key", text(&key), "--cert", text(&certificate), "--container", "xattr"];
    touchmark_ok(words.iter().chain(&[text(path)])).map(drop)
}

/// As `touchmark revoke --digest` takes it.
fn seal_of(path: &Path) -> Result<String> {
    let measured = touchmark_sys::fsverity::measure(File::open(path)?)?.context("it is not sealed")?;
    let digits: String = measured.bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    Ok(format!("fs-verity:{digits}"))
}

fn revoked_seal_is_refused_at_once() -> Result<()> {
    let scene = Scene::new()?;
    let (bad, good, twin) = (scene.unsigned("bad")?, scene.unsigned("good")?, scene.site.path("twin"));
    fs::copy(&bad, &twin)?;
    let sleeper = scene.site.program("/usr/bin/sleep", "sleeper")?;
    for program in [&bad, &good, &sleeper] {
        seal(&scene.site, program)?;
    }
    scene.site.sign(&twin)?;
    scene.site.enforce(&[])?;
    for program in [&bad, &good, &twin, &bad] {
        runs(program)?;
    }
    let mut child = Command::new(&sleeper).arg("1000").stdin(Stdio::null()).spawn()?;

    let hashes = || status()?["hashes"].as_u64().context("hashes");
    scene.revoke_ok(&["--digest", &seal_of(&bad)?, "--reason", "a back door"])?;
    // From here on: the command has parts of its own looked at.
    let before = hashes()?;
    refused(&bad)?;
    let found = event(&bad, "revoked")?;
    let digits = seal_of(&bad)?;
    ensure!(found["digest"].as_str().is_some_and(|digest| digits.ends_with(digest)), "{found}");
    // It was decided without being read.
    ensure!(hashes()? == before, "expected no file to be hashed: {}", status()?);
    runs(&good)?;
    // What was revoked is a seal: the same bytes unsealed have none, and another file sealed has the same one.
    runs(&twin)?;
    let resealed = scene.site.path("resealed");
    fs::copy(&twin, &resealed)?;
    seal(&scene.site, &resealed)?;
    ensure!(seal_of(&resealed)? == seal_of(&bad)?, "expected the same seal for the same bytes");
    refused(&resealed)?;
    // User space says the same.
    let certificate = scene.site.certificate();
    let verified = touchmark(["verify", "--cert", text(&certificate), text(&bad)])?;
    let said = String::from_utf8_lossy(&verified.stdout).into_owned();
    ensure!(verified.status.code() == Some(1) && said.contains("revoked: fs-verity"), "{verified:?}");
    ensure!(touchmark(["admit", text(&bad)])?.status.code() == Some(1), "expected it not to be admitted");
    refused(&bad)?;

    let output = scene.revoke(&["--digest", &seal_of(&sleeper)?, "--reason", "x"])?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let line = format!("running: process {} (sleeper): {}", child.id(), sleeper.display());
    ensure!(output.status.code() == Some(1) && said.contains(&line), "expected `{line}`: {output:?}");
    scene.revoke_ok(&["--renew", "--stop"])?;
    ensure!(!child.wait()?.success(), "expected an end by a signal");
    refused(&sleeper)
}

/// `--file` names both the seal and the content, so that kernels that hash sealed files refuse it, too.
fn revoked_sealed_file() -> Result<()> {
    let scene = Scene::new()?;
    let (bad, twin, good) = (scene.unsigned("bad")?, scene.site.path("twin"), scene.unsigned("good")?);
    fs::copy(&bad, &twin)?;
    for program in [&bad, &good] {
        seal(&scene.site, program)?;
    }
    scene.site.sign(&twin)?;
    scene.site.enforce(&[])?;
    for program in [&bad, &good] {
        if !kernel_verifies() {
            admit(program)?;
        }
        runs(program)?;
    }
    runs(&twin)?;
    let said = scene.revoke_ok(&["--file", text(&bad), "--reason", "a back door"])?;
    ensure!(said.contains("version 1, 2 entries, in force"), "{said}");
    for program in [&bad, &twin] {
        refused(program)?;
        event(program, "revoked")?;
    }
    runs(&good)?;
    let listed = touchmark_ok(["revoked"])?;
    let digest = sh::succeed(["sha256sum", text(&bad)])?;
    let digest = digest.split_whitespace().next().context("no digest")?;
    ensure!(listed.contains(digest), "{listed}");
    Ok(())
}
