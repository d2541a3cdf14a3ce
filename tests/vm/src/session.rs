// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Whole jobs: a list of trials, over as many boots as it takes, or a script.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::accel::Accel;
use crate::machine::{Machine, Options};
use crate::protocol::{Event, Job, Outcome, TrialInfo};
use crate::{Image, Kernel};

/// How long the guest may take beyond a trial's own deadline, to end what the trial started and to clean up.
const GRACE: Duration = Duration::from_secs(30);
/// How much slower the guest's clock may run than ours when instructions are counted.
const COUNTED_SLOWDOWN: u32 = 30;

/// A trial's result.
#[derive(Clone, Debug)]
pub struct Finished {
    /// The trial's name.
    pub trial: String,
    /// How it ended.
    pub outcome: Outcome,
    /// What it took, in milliseconds of the guest's clock.
    pub millis: u64,
    /// The values that it reported, in order.
    pub data: Vec<(String, Value)>,
}

/// Runs trials on a kernel and hands over each result as it comes. A trial that takes the machine down counts as failed,
/// and the rest run in a new boot.
///
/// # Errors
/// The machine does not boot.
pub fn run_trials(
    kernel: &Kernel,
    image: &Image,
    guest: &Path,
    trials: &[TrialInfo],
    options: &Options,
    mut finished: impl FnMut(Finished),
) -> Result<()> {
    let mut left = trials;
    while !left.is_empty() {
        let job = Job::Trials(left.iter().map(|trial| trial.name.clone()).collect());
        let mut machine = Machine::boot(kernel, image, guest, &job, options)?;
        let before = left.len();
        let mut data = Vec::new();
        while let Some(trial) = left.first() {
            match machine.event(patience(trial, options)) {
                Ok(Event::Start { .. }) => data.clear(),
                Ok(Event::Data { key, value, .. }) => data.push((key, value)),
                Ok(Event::End { trial: name, outcome, millis }) if name == trial.name => {
                    finished(Finished { trial: name, outcome, millis, data: std::mem::take(&mut data) });
                    left = &left[1..];
                }
                Ok(Event::Spoilt { reason }) if left.len() < before => {
                    eprintln!("touchmark-vm: booting {} anew: {reason}", kernel.release);
                    break;
                }
                Ok(other) => bail!("expected the result of {}, found {other:?}\n{}", trial.name, machine.console()),
                Err(error) => {
                    let message = format!("it took the machine down: {error:#}");
                    let outcome = Outcome::Failed { message };
                    finished(Finished {
                        trial: trial.name.clone(),
                        outcome,
                        millis: 0,
                        data: std::mem::take(&mut data),
                    });
                    left = &left[1..];
                    break;
                }
            }
        }
    }
    Ok(())
}

/// Runs a command of the image, hands over what it writes as it comes, and returns its exit code.
///
/// # Errors
/// The machine does not boot, or the command did not end within `deadline`.
pub fn run_script(
    kernel: &Kernel,
    image: &Image,
    guest: &Path,
    command: &[&str],
    options: &Options,
    deadline: Duration,
    mut output: impl FnMut(&str),
) -> Result<i32> {
    let job = Job::Script(command.iter().map(|word| (*word).to_owned()).collect());
    let mut machine = Machine::boot(kernel, image, guest, &job, options)?;
    let end = std::time::Instant::now() + deadline;
    loop {
        let left = end.saturating_duration_since(std::time::Instant::now());
        match machine.event(left).with_context(|| format!("{command:?} did not end within {} s", deadline.as_secs()))? {
            Event::Output { text } => output(&text),
            Event::Exit { code } => {
                machine.power_off(GRACE)?;
                return Ok(code);
            }
            other => bail!("expected output of {command:?}, found {other:?}"),
        }
    }
}

/// How long to wait for a trial's next event.
fn patience(trial: &TrialInfo, options: &Options) -> Duration {
    let deadline = Duration::from_secs(trial.deadline) + GRACE;
    if options.accel == Accel::Counted { deadline * COUNTED_SLOWDOWN } else { deadline }
}
