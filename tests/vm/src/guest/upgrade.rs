// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Touchmark itself is replaced while it enforces.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

use crate::sh::{self, Folder};
use crate::site::{Site, refused, runs, status, text, touchmark, touchmark_ok};
use crate::trial::{Trial, trial};

pub(crate) const TRIALS: &[Trial] = &[
    trial("upgrade_takes_over_by_word_of_the_old_build", &[], takes_over).seconds(180),
    trial("upgrade_after_the_guard_was_lifted", &[], after_the_guard_was_lifted).seconds(180),
];

const PROGRAMS: [&str; 2] = ["/usr/bin/touchmark", "/usr/sbin/touchmarkd"];

/// Other builds in the places of Touchmark's programs; the old ones come back when this is dropped.
struct Upgraded {
    /// Copies of the old ones, beside each other.
    old: Folder,
}

impl Upgraded {
    /// As a package manager does it: the new file takes the name of the old one, which goes on running.
    fn new() -> Result<Self> {
        let upgraded = Self { old: Folder::new()? };
        for program in PROGRAMS.map(Path::new) {
            let fresh = program.with_extension("new");
            fs::copy(program, upgraded.old(program))?;
            fs::copy(program, &fresh)?;
            File::options().append(true).open(&fresh)?.write_all(b"\n")?;
            fs::rename(&fresh, program)?;
        }
        Ok(upgraded)
    }

    fn old(&self, program: &Path) -> PathBuf {
        self.old.path().join(program.file_name().unwrap_or_default())
    }

    /// Runs `touchmark` of the old build, which must succeed.
    fn old_touchmark(&self, words: &[&str]) -> Result<()> {
        let program = self.old(Path::new(PROGRAMS[0]));
        sh::succeed([text(&program)].iter().chain(words)).map(drop)
    }
}

impl Drop for Upgraded {
    fn drop(&mut self) {
        for program in PROGRAMS.map(Path::new) {
            let fresh = program.with_extension("new");
            let _ = fs::copy(self.old(program), &fresh).and_then(|_| fs::rename(&fresh, program));
        }
    }
}

fn takes_over() -> Result<()> {
    let (site, signed) = Site::with_running_program()?;
    let (unsigned, scope) = (site.program("/usr/bin/id", "unsigned")?, site.scope());
    let upgraded = Upgraded::new()?;
    runs(&signed)?;
    refused(&unsigned)?;
    for words in [&["enforce", "--mode", "off"][..], &["enforce", "--scope", &scope], &["status"], &["admit", "/"]] {
        let output = touchmark(words)?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.code() == Some(3) && said.contains("another build"), "{words:?}: {output:?}");
    }
    refused(&unsigned)?;

    upgraded.old_touchmark(&["enforce", "--unguarded", "--scope", &scope])?;
    refused(&unsigned)?;
    touchmark_ok(["enforce", "--scope", &scope])?;
    ensure!(upgraded.old_touchmark(&["status"]).is_err(), "expected the old build to be refused now");
    new_build_enforces(&signed, &unsigned)
}

/// What a package's scripts can do: the old build lifts the guard before its files are replaced.
fn after_the_guard_was_lifted() -> Result<()> {
    let (site, signed) = Site::with_running_program()?;
    let (unsigned, scope) = (site.program("/usr/bin/id", "unsigned")?, site.scope());
    site.enforce(&["--unguarded"])?;
    let _upgraded = Upgraded::new()?;
    refused(&unsigned)?;
    touchmark_ok(["enforce", "--scope", &scope])?;
    new_build_enforces(&signed, &unsigned)
}

fn new_build_enforces(signed: &Path, unsigned: &Path) -> Result<()> {
    runs(signed)?;
    refused(unsigned)?;
    let daemon = status()?["daemon"].as_u64().context("no daemon")?;
    let runs_file = fs::read_link(format!("/proc/{daemon}/exe"))?;
    ensure!(runs_file == Path::new(PROGRAMS[1]), "the daemon is still the old one: {}", runs_file.display());
    // Before the old build comes back, which this one would not let steer.
    touchmark_ok(["enforce", "--mode", "off"]).map(drop)
}
