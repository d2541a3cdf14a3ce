// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tries techniques of `tests/bypass` that belong together: each without the rule, then the rule is switched on, then
//! each under it. Each attempt is a process of its own, on a folder of its own.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use rustix::io::Errno;
use serde_json::Value;
use touchmark_bypass::{Arena, Outcome, Rule, Technique};

use crate::bypass::Results;
use crate::site::{Site, soon, text, touchmark, touchmark_ok};
use crate::{sh, system};

/// Where the processes are that the rule is about.
const GROUP: &str = "/sys/fs/cgroup/bypass";
/// The daemon's log, which `touchmark events` shows.
const LOG: &str = "/var/log/touchmark/events.jsonl";

pub(crate) fn run(techniques: &[&'static Technique]) -> Result<Results> {
    let mut results = Results::new();
    let mut left = techniques.to_vec();
    while let Some(first) = left.first().copied() {
        let alike = |other: &&Technique| {
            other.rule == first.rule && other.options == first.options && other.policy == first.policy
        };
        let (now, later) = left.into_iter().partition(|other| alike(other));
        together(now, &mut results)?;
        left = later;
    }
    Ok(results)
}

/// Those under the same rule.
fn together(techniques: Vec<&'static Technique>, results: &mut Results) -> Result<()> {
    let site = Site::new()?;
    let mut passed = Vec::new();
    let mut guardless = false;
    for technique in techniques {
        match without(&site, technique, &mut guardless) {
            Ok(()) => passed.push(technique),
            Err(error) => drop(results.insert(technique.name.to_owned(), Err(format!("without the rule: {error:#}")))),
        }
    }
    // Techniques against what enforces were tried against one that guards nothing.
    touchmark(["enforce", "--mode", "off"])?;
    let mut arenas = Vec::new();
    for technique in passed {
        arenas.push((technique, prepare(&site, technique, "with")?));
    }
    let Some((first, _)) = arenas.first() else { return Ok(()) };
    enforce(&site, first, &arenas)?;
    for (technique, arena) in &arenas {
        let result = with(technique, arena).map_err(|error| format!("with the rule: {error:#}"));
        results.insert(technique.name.to_owned(), result);
    }
    Ok(())
}

/// `guardless`: whether there is a rule that guards nothing, unharmed.
fn without(site: &Site, technique: &Technique, guardless: &mut bool) -> Result<()> {
    let arena = prepare(site, technique, "without")?;
    if technique.rule == Rule::Guard {
        if !*guardless {
            touchmark(["enforce", "--mode", "off"])?;
            // What the policy says about all processes is not in question here.
            site.enforce(&["--unguarded", "--force", "--ptrace", "allow", "--anonymous", "allow"])?;
        }
        admit(&arena.approved())?;
        *guardless = !technique.harms;
    }
    let ended = attempt(technique, &arena, &["unshare", "--mount", "--propagation", "private"], "")?;
    let from = technique.kernel_stops_from.filter(|(version, _)| system::kernel_version() >= *version);
    match (technique.outcome, from) {
        (Outcome::KernelStops(errno), _) | (_, Some((_, errno))) => fails_with(ended, errno),
        _ => works(ended).context("it should work where there is no rule"),
    }
}

fn enforce(site: &Site, first: &Technique, arenas: &[(&Technique, Arena)]) -> Result<()> {
    let certificate = site.certificate();
    let mut words =
        vec!["enforce".to_owned(), "--cert".to_owned(), text(&certificate).to_owned(), "--force".to_owned()];
    words.push("--scope".to_owned());
    words.push(match first.rule {
        Rule::Processes => {
            fs::create_dir_all(GROUP)?;
            format!("cgroup:{GROUP}")
        }
        Rule::Files | Rule::Guard => format!("mount:{}", site.path("").display()),
    });
    // An option about a file counts for the file of each.
    for (option, file) in first.options {
        for (_, arena) in arenas {
            words.extend([(*option).to_owned(), text(&arena.path(file)).to_owned()]);
        }
    }
    words.extend(first.policy.iter().map(|&word| word.to_owned()));
    touchmark_ok(&words)?;
    admit(&arenas.iter().flat_map(|(_, arena)| arena.approved()).collect::<Vec<_>>())
}

/// For kernels that look at no signature.
fn admit(paths: &[PathBuf]) -> Result<()> {
    if paths.is_empty() { Ok(()) } else { touchmark_ok([&PathBuf::from("admit")].into_iter().chain(paths)).map(drop) }
}

fn with(technique: &Technique, arena: &Arena) -> Result<()> {
    let before = events()?.len();
    let group = if technique.rule == Rule::Processes { GROUP } else { "" };
    let ended = attempt(technique, arena, &[], group)?;
    match technique.outcome {
        Outcome::Stopped(errno, reasons) => {
            fails_with(ended, errno)?;
            expect_event(before, reasons)
        }
        Outcome::KernelStops(errno) => fails_with(ended, errno),
        Outcome::NotStopped(_) => works(ended).context("it is said not to be stopped, and was"),
        Outcome::Rightful => works(ended).context("it has to go on working"),
    }
}

fn prepare(site: &Site, technique: &Technique, way: &str) -> Result<Arena> {
    let folder = site.path(&format!("{}-{way}", technique.name));
    fs::create_dir(&folder)?;
    let arena = Arena::new(&folder);
    (technique.prepare)(&arena).with_context(|| format!("{} cannot be prepared", technique.name))?;
    if way == "with" || technique.rule == Rule::Guard {
        site.sign_all(&arena.approved())?;
    }
    Ok(arena)
}

/// How an attempt ended: its exit code, and what it said.
struct Ended {
    code: Option<i32>,
    said: String,
}

fn attempt(technique: &Technique, arena: &Arena, before: &[&str], group: &str) -> Result<Ended> {
    let folder = arena.path("");
    let words = ["/proc/1/exe", "attempt", technique.name, text(&folder), group];
    let output = sh::run(before.iter().chain(&words))?;
    Ok(Ended { code: output.status.code(), said: String::from_utf8_lossy(&output.stderr).trim().to_owned() })
}

fn works(ended: Ended) -> Result<()> {
    ensure!(ended.code == Some(0), "{} ({:?})", ended.said, ended.code);
    Ok(())
}

fn fails_with(ended: Ended, errno: Errno) -> Result<()> {
    match ended.code {
        Some(0) => bail!("expected {errno}, but it worked"),
        Some(code) if code == errno.raw_os_error() => Ok(()),
        code => bail!("expected {errno}, found {} ({code:?})", ended.said),
    }
}

fn events() -> Result<Vec<Value>> {
    let log = if Path::new(LOG).exists() { fs::read_to_string(LOG)? } else { String::new() };
    log.lines().map(|line| serde_json::from_str(line).context("an event is no JSON")).collect()
}

fn expect_event(before: usize, reasons: &[&str]) -> Result<()> {
    if reasons.is_empty() {
        return Ok(());
    }
    soon(&format!("an event that says one of {reasons:?}"), || {
        let found = events()?.into_iter().skip(before).find(|event| {
            event["decision"] == "denied" && event["reason"].as_str().is_some_and(|reason| reasons.contains(&reason))
        });
        Ok(found.map(drop))
    })
}
