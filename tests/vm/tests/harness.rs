// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Whether the harness itself tells what goes wrong in a machine.

use std::collections::HashMap;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use touchmark_vm::protocol::{Outcome, TrialInfo};
use touchmark_vm::{Accel, Contents, Finished, Image, Kernel, Options, Programs, Tree, run_script, run_trials};

#[test]
fn faults_are_reported_and_scripts_streamed() -> Result<()> {
    let programs = Programs::build()?;
    let kernel = Kernel::selected()?.pop().context("no kernel selected")?;
    let script = "#!/bin/sh\necho one\necho two >&2\nprintf three\nsleep 1000 &\nexit 7\n";
    let contents = Contents::new().programs(&programs).modules(&kernel).text(script, "/root/script", 0o755);
    let mut prepared = false;
    let image = Image::prepared(&Tree::fetch()?, &contents, |root| {
        prepared = root.join("root/script").exists() && root.join("usr/bin/touchmark").exists();
        Ok(())
    })?;
    ensure!(prepared, "what was staged is not there when the tree is prepared");
    let guest = programs.guest();
    let options = Options { accel: Accel::detect(&kernel, &guest)?, ..Options::default() };

    let mut text = String::new();
    let minute = Duration::from_secs(120);
    let code = run_script(&kernel, &image, &guest, &["/root/script"], &options, minute, |part| text.push_str(part))?;
    ensure!((code, text.as_str()) == (7, "one\ntwo\nthree"), "expected 7 and three words, found {code} and {text:?}");

    let trials: Vec<TrialInfo> = programs.faults()?;
    let mut found = HashMap::new();
    run_trials(&kernel, &image, &guest, &trials, &options, |finished| {
        found.insert(finished.trial.clone(), finished);
    })?;
    let found = |name: &str| found.get(&format!("faults::{name}")).with_context(|| format!("{name} is missing"));
    for name in ["passes_and_reports", "finds_nothing_left", "leaves_a_process_and_a_mount", "runs_after_the_crash"] {
        ensure!(found(name)?.outcome == Outcome::Passed, "{:?}", found(name)?);
    }
    ensure!(found("passes_and_reports")?.data == [("answer".to_owned(), 42.into())], "the value got lost");
    failed(found("fails")?, "this is expected")?;
    failed(found("panics")?, "this panic is expected")?;
    failed(found("hangs")?, "not done within 2 s")?;
    failed(found("takes_the_kernel_down")?, "sysrq triggered crash")?;
    skipped(found("is_skipped_by_need")?, "needs /nowhere")?;
    skipped(found("skips_itself")?, "not today")
}

fn failed(finished: &Finished, part: &str) -> Result<()> {
    let found = matches!(&finished.outcome, Outcome::Failed { message } if message.contains(part));
    ensure!(found, "expected a failure with `{part}`, found {finished:?}");
    Ok(())
}

fn skipped(finished: &Finished, expected: &str) -> Result<()> {
    let found = matches!(&finished.outcome, Outcome::Skipped { reason } if reason == expected);
    ensure!(found, "expected to be skipped with `{expected}`, found {finished:?}");
    Ok(())
}
