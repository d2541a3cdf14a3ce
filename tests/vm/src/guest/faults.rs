// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Trials that go wrong on purpose: `tests/harness.rs` checks what the host makes of each. No other run includes them.

use std::fs;
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::report;
use crate::sh;
use crate::trial::{Need, Trial, skip, trial};

pub(crate) const TRIALS: &[Trial] = &[
    trial("passes_and_reports", &[], passes_and_reports),
    trial("fails", &[], || bail!("this is expected")),
    trial("panics", &[], || panic!("this panic is expected")),
    trial("is_skipped_by_need", &[Need::File("/nowhere")], || Ok(())),
    trial("skips_itself", &[], || skip("not today")),
    trial("hangs", &[], hangs).seconds(2),
    trial("leaves_a_process_and_a_mount", &[], leaves_a_process_and_a_mount),
    trial("finds_nothing_left", &[], finds_nothing_left),
    trial("takes_the_kernel_down", &[], || sh::write("/proc/sysrq-trigger", b"c")),
    trial("runs_after_the_crash", &[], || Ok(())),
];

/// What [`leaves_a_process_and_a_mount`] leaves, as long as it is there.
const LEFT: &str = "/run/touchmark-vm/left";

fn passes_and_reports() -> Result<()> {
    report::value("answer", 42)
}

fn hangs() -> Result<()> {
    // A grandchild, too: all that a trial started is ended.
    Command::new("sleep").arg("1000").spawn()?.wait().map(drop).context("sleep cannot be waited for")
}

fn leaves_a_process_and_a_mount() -> Result<()> {
    let process = Command::new("setsid").args(["sleep", "1000"]).spawn()?;
    sh::write(LEFT, process.id().to_string().as_bytes())?;
    sh::succeed(["mount", "-t", "tmpfs", "left", "/mnt"]).map(drop)
}

fn finds_nothing_left() -> Result<()> {
    let process = fs::read_to_string(LEFT)?;
    if fs::exists(format!("/proc/{process}"))? {
        bail!("process {process} of the trial before still runs");
    }
    if fs::read_to_string("/proc/mounts")?.contains("left /mnt") {
        bail!("the mount of the trial before is still there");
    }
    Ok(())
}
