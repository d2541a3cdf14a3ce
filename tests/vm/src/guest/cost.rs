// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What enforcement costs, for machines whose clock counts instructions: one nanosecond is one instruction.
//!
//! Each figure is measured with enforcement off and on, in turn, in one boot.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use serde_json::json;
use touchmark_sys::mapping::{Access, Mapping};

use crate::report;
use crate::sh::{self, Folder};
use crate::site::{kernel_verifies, text, touchmark_ok};
use crate::trial::{Trial, trial};

const PROGRAM: &str = "/usr/bin/true";
/// How often off and on are measured in turn.
const ROUNDS: usize = 3;
/// What is repeated for one median.
const REPEATS: usize = 21;
/// Sizes of programs that nothing is known of yet, in bytes.
const SIZES: [u64; 4] = [64 << 10, 256 << 10, 1 << 20, 4 << 20];

pub(crate) const TRIALS: &[Trial] =
    &[trial("cached", &[], cached).bench().seconds(900), trial("uncached", &[], uncached).bench().seconds(900)];

/// A decision that is known: starting a program, mapping a library, and opening a file, which is not decided at all.
fn cached() -> Result<()> {
    let owner = Owner::new()?;
    let (mut off, mut on) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        off.push(Sample::take()?);
        owner.enforce()?;
        on.push(Sample::take()?);
        touchmark_ok(["enforce", "--mode", "off"])?;
    }
    let report = |name, figure: fn(&Sample) -> u64| {
        let all = |samples: &[Sample]| samples.iter().map(figure).collect::<Vec<_>>();
        report::value(name, json!({ "off": all(&off), "on": all(&on) }))
    };
    report("exec", |sample| sample.exec)?;
    report("mmap", |sample| sample.mmap)?;
    report("open", |sample| sample.open)?;
    Ok(())
}

/// The first decision about a program, beside what IMA's own measurement of a file of that size adds.
fn uncached() -> Result<()> {
    let owner = Owner::new()?;
    let folder = Folder::new()?;
    let programs = |label: &str| -> Result<Vec<PathBuf>> {
        SIZES.iter().map(|size| owner.program(&folder.path().join(format!("{label}-{size}")), *size)).collect()
    };
    let (plain, ours, ima) = (programs("plain")?, programs("ours")?, programs("ima")?);
    let plain = first_starts(&plain)?;
    owner.enforce()?;
    if !kernel_verifies() {
        ours.iter().try_for_each(|program| crate::site::admit(program))?;
    }
    let ours = first_starts(&ours)?;
    touchmark_ok(["enforce", "--mode", "off"])?;
    fs::write("/sys/kernel/security/ima/policy", "measure func=BPRM_CHECK mask=MAY_EXEC\n")
        .context("IMA takes no policy")?;
    let ima = first_starts(&ima)?;
    report::value("first_exec", json!({ "bytes": SIZES, "off": plain, "touchmark": ours, "ima_measure": ima }))
}

/// A key, and everything that runs here signed with it.
struct Owner {
    keys: Folder,
}

impl Owner {
    fn new() -> Result<Self> {
        let owner = Self { keys: Folder::new()? };
        // The algorithm that most keys have, and the default.
        let folder = owner.keys.path().join("own");
        touchmark_ok(["key", "generate", "--algorithm", "rsa2048", "--out", text(&folder)])?;
        for program in [PROGRAM, "/usr/bin/touchmark", "/usr/sbin/touchmarkd"] {
            owner.sign(Path::new(program))?;
            // Libraries and the dynamic linker, by their real names.
            let listed = sh::succeed(["ldd", program])?;
            for library in listed.split_whitespace().filter(|word| word.starts_with('/')) {
                owner.sign(&fs::canonicalize(library)?)?;
            }
        }
        Ok(owner)
    }

    fn sign(&self, path: &Path) -> Result<()> {
        let (key, certificate) = (self.keys.path().join("own/key.pem"), self.certificate());
        let words = ["sign", "--key", text(&key), "--cert", text(&certificate), "--container", "xattr", text(path)];
        touchmark_ok(words).map(drop)
    }

    /// A signed program of this size.
    fn program(&self, path: &Path, size: u64) -> Result<PathBuf> {
        fs::copy(PROGRAM, path)?;
        File::options().write(true).open(path)?.set_len(size)?;
        self.sign(path)?;
        // In the page cache, so that the disk is not measured.
        ensure!(fs::read(path)?.len() as u64 == size, "the program has another size");
        Ok(path.to_owned())
    }

    fn certificate(&self) -> PathBuf {
        self.keys.path().join("own/cert.pem")
    }

    /// For all of the root file system.
    fn enforce(&self) -> Result<()> {
        let certificate = self.certificate();
        let start = |mode| {
            touchmark_ok(["enforce", "--force", "--cert", text(&certificate), "--scope", "mount:/", "--mode", mode])
        };
        if !kernel_verifies() {
            start("permissive")?;
            for folder in ["/usr/bin", "/usr/sbin", "/usr/lib/x86_64-linux-gnu"] {
                // Most files there are not signed; those that are count.
                crate::site::touchmark(["admit", "-r", folder])?;
            }
        }
        start("enforce").map(drop)
    }
}

struct Sample {
    exec: u64,
    mmap: u64,
    open: u64,
}

impl Sample {
    fn take() -> Result<Self> {
        let library = File::open(PROGRAM)?;
        Ok(Self {
            exec: median(|| run_true(Path::new(PROGRAM)))?,
            mmap: median(|| Mapping::new(&library, 4096, Access::Execute).map(drop).context("mmap is refused"))?,
            open: median(|| File::open(PROGRAM).map(drop).context("open is refused"))?,
        })
    }
}

fn first_starts(programs: &[PathBuf]) -> Result<Vec<u64>> {
    // What is not particular to the file is warm.
    (0..5).try_for_each(|_| run_true(Path::new(PROGRAM)))?;
    programs.iter().map(|program| time(|| run_true(program))).collect()
}

fn run_true(program: &Path) -> Result<()> {
    let status = Command::new(program).stdin(Stdio::null()).status();
    let status = status.with_context(|| format!("{} cannot be started", program.display()))?;
    ensure!(status.success(), "{} ended with {status}", program.display());
    Ok(())
}

/// The median after as many runs to warm up.
fn median(mut run: impl FnMut() -> Result<()>) -> Result<u64> {
    (0..REPEATS).try_for_each(|_| run())?;
    let mut times = (0..REPEATS).map(|_| time(&mut run)).collect::<Result<Vec<_>>>()?;
    times.sort_unstable();
    Ok(times[REPEATS / 2])
}

/// Nanoseconds, which are instructions on a counted machine.
fn time(run: impl FnOnce() -> Result<()>) -> Result<u64> {
    let begin = Instant::now();
    run()?;
    u64::try_from(begin.elapsed().as_nanos()).context("too long")
}
