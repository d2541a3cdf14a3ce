// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Timing whole commands, one after the other in turn.

use std::ffi::OsString;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, ensure};

/// A command to measure, and what puts things back before each run.
pub(crate) struct Subject<'a> {
    pub(crate) name: &'static str,
    pub(crate) command: Vec<OsString>,
    pub(crate) before: &'a dyn Fn() -> Result<()>,
}

/// Seconds of each run of each subject, in the order of the subjects. One run of each comes before, uncounted.
pub(crate) fn interleaved(subjects: &[Subject<'_>], runs: usize) -> Result<Vec<Vec<f64>>> {
    let mut seconds = vec![Vec::with_capacity(runs); subjects.len()];
    for counted in std::iter::once(false).chain(std::iter::repeat_n(true, runs)) {
        for (subject, seconds) in subjects.iter().zip(&mut seconds) {
            (subject.before)().with_context(|| subject.name.to_owned())?;
            let begin = Instant::now();
            run(&subject.command).with_context(|| subject.name.to_owned())?;
            let taken = begin.elapsed().as_secs_f64();
            if counted {
                seconds.push(taken);
            }
        }
    }
    Ok(seconds)
}

/// Runs a command that must succeed; its output is thrown away.
pub(crate) fn run(command: &[OsString]) -> Result<()> {
    let (program, arguments) = command.split_first().context("an empty command")?;
    let status = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .with_context(|| format!("{} cannot be started", program.to_string_lossy()))?;
    ensure!(status.success(), "{} ended with {status}", program.to_string_lossy());
    Ok(())
}

/// The most memory that a command held at once, in KiB, as GNU time tells.
pub(crate) fn peak_memory(command: &[OsString], scratch: &Path) -> Result<u64> {
    let report = scratch.join("memory");
    let mut timed: Vec<OsString> = ["/usr/bin/time", "--format", "%M", "--output"].map(Into::into).into();
    timed.push(report.clone().into());
    timed.extend_from_slice(command);
    run(&timed)?;
    std::fs::read_to_string(report)?.trim().parse().context("GNU time printed no number")
}

/// The words of a command.
pub(crate) fn words<const N: usize>(words: [&std::ffi::OsStr; N]) -> Vec<OsString> {
    words.map(OsString::from).into()
}
