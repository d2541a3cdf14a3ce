// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Every ELF file of a Debian system: signs, verifies, comes back to the byte, and still runs while signed.

use std::ffi::OsStr;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use tempfile::TempDir;
use touchmark_vm::{Accel, Contents, Image, Kernel, Options, Programs, Tree, run_script};

/// Starts every program in a way that does nothing, and prints how it ended and what it said.
const START_ALL: &str = r#"#!/bin/bash
cd /usr/bin
for program in *; do
    case $program in touchmark*) continue ;; esac
    # Only ELF files: the rest are scripts, which the signature does not touch.
    IFS= read -r -d '' -n 4 magic <"$program" 2>/dev/null
    [ "$magic" = $'\177ELF' ] || continue
    said=$(timeout 20 "./$program" --version </dev/null 2>&1 | head -c 2000 | tr -d '\0' | cksum; echo "${PIPESTATUS[0]}")
    echo "$program" $said
done
"#;

#[test]
fn a_debian_system_signs_comes_back_and_runs() -> Result<()> {
    let programs = Programs::build()?;
    let keys = TempDir::new()?;
    let own = keys.path().join("own");
    touchmark(&programs, &["key", "generate", "--algorithm", "ecdsa-p256", "--out"], &[&own])?;
    let tree = Tree::fetch()?;
    let elf = elf_files(tree.path())?;
    ensure!(elf.len() > 500, "expected several hundred ELF files, found {}", elf.len());

    let kernel = Kernel::selected()?.pop().context("no kernel selected")?;
    let options = Options { accel: Accel::detect(&kernel, &programs.guest())?, ..Options::default() };
    let contents = Contents::new().programs(&programs).modules(&kernel).text(START_ALL, "/root/start", 0o755);
    let ends = |image: &Image| -> Result<String> {
        let mut text = String::new();
        let limit = Duration::from_secs(900);
        let code = run_script(&kernel, image, &programs.guest(), &["/root/start"], &options, limit, |part| {
            text.push_str(part)
        })?;
        ensure!(code == 0, "the script ended with {code}");
        Ok(text)
    };
    let signed = Image::prepared(&tree, &contents, |root| sign_and_verify(&programs, &own, root, &elf))?;
    let unsigned = Image::build(&tree, &contents)?;
    let (before, after) = (ends(&unsigned)?, ends(&signed)?);
    ensure!(before.lines().count() > 100, "expected more than a hundred programs, found:\n{before}");
    let differing: Vec<_> = before.lines().zip(after.lines()).filter(|(before, after)| before != after).collect();
    ensure!(before == after, "signed programs behave differently: {differing:?}");
    Ok(())
}

/// Signs all, checks all; takes a copy's signatures off again and compares it with the original.
fn sign_and_verify(programs: &Programs, own: &Path, root: &Path, elf: &[String]) -> Result<()> {
    let (key, certificate) = (own.join("key.pem"), own.join("cert.pem"));
    let inside = |root: &Path| elf.iter().map(|name| root.join(name)).collect::<Vec<_>>();
    let files = inside(root);
    let files: Vec<&Path> = files.iter().map(AsRef::as_ref).collect();
    let (key, certificate) = (key.to_string_lossy(), certificate.to_string_lossy());
    touchmark(programs, &["sign", "--key", &key, "--cert", &certificate], &files)?;
    touchmark(programs, &["verify", "--cert", &certificate], &files)?;

    let copy = TempDir::new()?;
    command(Command::new("cp").arg("-a").arg(root).arg(copy.path().join("root")))?;
    let copies = inside(&copy.path().join("root"));
    let copies: Vec<&Path> = copies.iter().map(AsRef::as_ref).collect();
    touchmark(programs, &["unsign"], &copies)?;
    let tree = Tree::fetch()?;
    for (name, restored) in elf.iter().zip(&copies) {
        let original = std::fs::read(tree.path().join(name))?;
        ensure!(std::fs::read(restored)? == original, "{name} did not come back to the byte");
        ensure!(std::fs::read(root.join(name))? != original, "{name} was not signed");
    }
    Ok(())
}

/// The regular ELF files of a tree, relative to it.
fn elf_files(root: &Path) -> Result<Vec<String>> {
    let list = Command::new("find")
        .current_dir(root)
        .args(["usr", "-type", "f", "-size", "+0", "-exec"])
        .args([
            "sh",
            "-c",
            r#"for f; do [ "$(head -c 4 "$f" | tail -c 3)" = ELF ] && echo "$f"; done; :"#,
            "sh",
            "{}",
            "+",
        ])
        .stderr(Stdio::null())
        .output()?;
    Ok(String::from_utf8(list.stdout)?.lines().map(str::to_owned).collect())
}

fn touchmark(programs: &Programs, words: &[&str], paths: &[&Path]) -> Result<()> {
    let paths = paths.iter().map(|path| path.as_os_str());
    command(Command::new(programs.touchmark()).args(words.iter().map(OsStr::new).chain(paths)))
}

fn command(command: &mut Command) -> Result<()> {
    let output = command.stdin(Stdio::null()).output()?;
    ensure!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    Ok(())
}
