// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Every technique of `tests/bypass`: one trial each, but all of a family are tried at once, by the first of its trials
//! that runs, because what takes time is to switch the rule on.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, anyhow};
use touchmark_bypass::{Arena, FAMILIES, Outcome, Technique, find};

use crate::family;
use crate::trial::{Trial, named, skip};
use crate::{report, system};

const COUNT: usize = count();
static ALL: [Trial; COUNT] = trials();
/// One trial for each technique.
pub(crate) static TRIALS: &[Trial] = &ALL;

const fn count() -> usize {
    let (mut count, mut family) = (0, 0);
    while family < FAMILIES.len() {
        count += FAMILIES[family].1.len();
        family += 1;
    }
    count
}

const fn trials() -> [Trial; COUNT] {
    let mut trials = [named("", try_technique); COUNT];
    let (mut next, mut family) = (0, 0);
    while family < FAMILIES.len() {
        let techniques = FAMILIES[family].1;
        let mut index = 0;
        while index < techniques.len() {
            // For the first of a family, which tries them all.
            trials[next] = named(techniques[index].name, try_technique).seconds(480);
            next += 1;
            index += 1;
        }
        family += 1;
    }
    trials
}

/// What became of each technique of a family; an error's text if it did not end as it should.
pub(crate) type Results = BTreeMap<String, Result<(), String>>;

fn try_technique(name: &str) -> Result<()> {
    let technique = find(name).context("no such technique")?;
    if let Some(missing) = missing(technique) {
        return skip(missing);
    }
    let (family, techniques) = FAMILIES
        .iter()
        .find(|(_, techniques)| techniques.iter().any(|other| other.name == name))
        .context("a technique without a family")?;
    let mut results = load(family)?;
    if results.is_none() {
        let able: Vec<_> = techniques.iter().filter(|technique| missing(technique).is_none()).collect();
        let found = family::run(&able)?;
        fs::write(place(family), serde_json::to_vec(&found)?)?;
        results = Some(found);
    }
    let result = results.and_then(|mut results| results.remove(name)).context("it was not tried")?;
    result.map_err(|error| anyhow!(error))?;
    report::value("outcome", word(technique))
}

fn word(technique: &Technique) -> &'static str {
    match technique.outcome {
        Outcome::Stopped(..) => "stopped",
        Outcome::KernelStops(_) => "stopped by the kernel",
        Outcome::NotStopped(_) => "not stopped",
        Outcome::Rightful => "works, as it should",
    }
}

fn place(family: &str) -> PathBuf {
    Path::new("/run/touchmark-vm").join(format!("bypass {family}.json"))
}

fn load(family: &str) -> Result<Option<Results>> {
    let path = place(family);
    if !path.exists() {
        return Ok(None);
    }
    serde_json::from_slice(&fs::read(path)?).context("the results of the family cannot be read")
}

fn missing(technique: &Technique) -> Option<String> {
    if system::kernel_version() < technique.since {
        return Some(format!("needs a kernel from {}.{} on", technique.since.0, technique.since.1));
    }
    let module = technique.module.filter(|module| system::load_module(module).is_err())?;
    Some(format!("needs the kernel module {module}"))
}

/// Ends an attempt that failed for no error of the system.
const NO_ERRNO: u8 = 255;

/// One attempt, in a process of its own: the exit code is 0 if it worked, else the error's number. `group`: a control
/// group to enter first.
pub(crate) fn attempt(name: &str, folder: &str, group: &str) -> ExitCode {
    let Some(technique) = find(name) else { return ExitCode::from(NO_ERRNO) };
    let entered = if group.is_empty() {
        Ok(())
    } else {
        fs::write(Path::new(group).join("cgroup.procs"), std::process::id().to_string())
    };
    let outcome = entered.and_then(|()| (technique.attempt)(&Arena::new(Path::new(folder))));
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            let number = error.raw_os_error().and_then(|number| u8::try_from(number).ok());
            ExitCode::from(number.unwrap_or(NO_ERRNO))
        }
    }
}
