// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `touchmark memlock advise`: tries a program under each policy, and recommends one.

use std::ffi::OsString;
use std::io::{self, Write};
use std::time::{Duration, Instant};

use anyhow::Context;
use procfs::Current;
use rustix::process::{Resource, getrlimit};
use serde::Serialize;
use touchmark_memlock::advise::{
    Goal, Machine, Observation, Prediction, Range, Recommendation, Result as Tried, Spread, kubernetes, libvirt,
    observe, of_running, predict, recommend, systemd,
};
use touchmark_memlock::run::{Policy, is_program, starts_others};
use touchmark_memlock::size;

use super::work;
use crate::Exit;
use crate::text::printable;

/// Arguments of `touchmark memlock advise`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
The program is run several times, in turn under each policy, with no input and its output thrown away: it should be one \
that may be run again and again. Memory is its own, page faults include those of what it starts.")]
pub(crate) struct Args {
    /// What locking is for: `stay` (nothing that it touches reaches swap) or `deadline` (no access waits)
    #[arg(long, default_value_t = Goal::Stay, value_name = "GOAL")]
    goal: Goal,
    /// End each run after this time, with SIGTERM
    #[arg(long, default_value = "10s", value_parser = humantime::parse_duration, value_name = "TIME")]
    duration: Duration,
    /// Runs of each policy
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u8).range(1..=100), value_name = "N")]
    runs: u8,
    /// Also print what applies the advice: systemd, kubernetes or libvirt
    #[arg(long = "for", value_name = "WHAT", value_parser = ["systemd", "kubernetes", "libvirt"])]
    fragment: Option<String>,
    /// Lock what the program starts, too
    #[arg(long)]
    follow: bool,
    /// One JSON object; sizes in bytes
    #[arg(long)]
    json: bool,
    /// Only predict, for a process that runs already
    #[arg(long, conflicts_with = "command")]
    pid: Option<u32>,
    /// The program and its arguments
    #[arg(required_unless_present = "pid", trailing_var_arg = true, value_name = "CMD")]
    command: Vec<OsString>,
}

/// What is tried, in this order in each round.
const POLICIES: [Policy; 3] = [Policy::None, Policy::OnFault, Policy::Future];
/// Seconds that starting locked takes at most longer.
const LAUNCH: f64 = 0.01;
/// Bytes that are filled to learn what memory costs here.
const SAMPLE: usize = 32 << 20;

#[derive(Debug, Serialize)]
struct Row {
    policy: &'static str,
    predicted: Prediction,
    #[serde(skip_serializing_if = "Option::is_none")]
    tried: Option<Tried>,
    /// Threads created and joined a second, with the stacks that threads have here.
    #[serde(skip_serializing_if = "Option::is_none")]
    threads_per_second: Option<f64>,
}

#[derive(Debug, Serialize)]
struct Report {
    /// The middle of its unlocked runs.
    unlocked: Observation,
    policies: Vec<Row>,
    #[serde(skip_serializing_if = "Option::is_none")]
    recommendation: Option<Recommendation>,
    #[serde(skip_serializing_if = "Option::is_none")]
    fragment: Option<String>,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    let report = match args.pid {
        Some(pid) => predicted_only(pid)?,
        None => tried(args)?,
    };
    let mut out = io::stdout().lock();
    if args.json {
        writeln!(out, "{}", serde_json::to_string(&report)?)?;
    } else {
        report.print(&mut out)?;
    }
    Ok(Exit::Success)
}

/// A process that runs cannot be run again.
fn predicted_only(pid: u32) -> anyhow::Result<Report> {
    let unlocked = of_running(pid).with_context(|| format!("cannot look at process {pid}"))?;
    let machine = machine();
    let row = |policy: Policy| Row {
        policy: policy.word(),
        predicted: predict(policy, &Spread::once(unlocked), &machine),
        tried: None,
        threads_per_second: None,
    };
    Ok(Report { policies: POLICIES.map(row).into(), unlocked, recommendation: None, fragment: None })
}

fn tried(args: &Args) -> anyhow::Result<Report> {
    let run =
        |policy, compat| observe(&wrapped(args, policy, compat)?, args.duration).context("cannot start the program");
    if !is_program(&args.command[0]) {
        anyhow::bail!("expected a program, found none called {}", printable(&args.command[0]));
    }
    if !args.follow && starts_others(&args.command[0]) {
        let name = printable(&args.command[0]);
        eprintln!("touchmark: warning: only {name} itself is locked; what it starts needs --follow");
    }
    // The first run warms caches; how it ends is how it should end under a lock.
    let first = run(Policy::None, false)?;
    let alone: Vec<_> = (0..args.runs).map(|_| run(Policy::None, false)).collect::<anyhow::Result<_>>()?;
    let unlocked = Spread::of(&alone).context("no run")?;
    // A run that is cut has not ended otherwise: near the time that it has, one is cut and the next is not. But what was
    // cut at first, and then ends by itself, should end well.
    let expected = if first.cut { Some(0) } else { first.code };
    let same = |run: &Observation| run.cut || run.code == expected;
    // What ends otherwise under a lock may need leave to discard memory.
    let compat = [Policy::OnFault, Policy::Future].map(|policy| run(policy, false).map(|run| !same(&run)));
    let compat = [false, compat[0].as_ref().is_ok_and(|it| *it), compat[1].as_ref().is_ok_and(|it| *it)];
    let mut rounds = [const { Vec::new() }; POLICIES.len()];
    for _ in 0..args.runs {
        for (index, policy) in POLICIES.into_iter().enumerate() {
            rounds[index].push(run(policy, compat[index])?);
        }
    }
    let machine = machine();
    let stack = getrlimit(Resource::Stack).current.unwrap_or(8 << 20);
    let mut rows = Vec::new();
    for (index, (policy, runs)) in POLICIES.into_iter().zip(rounds).enumerate() {
        let works = runs.iter().all(same);
        let measured = Spread::of(&runs).context("no run")?.middle;
        rows.push(Row {
            policy: policy.word(),
            predicted: predict(policy, &unlocked, &machine),
            tried: Some(Tried { measured, works, compat: compat[index] && works }),
            threads_per_second: work::rate(policy, stack),
        });
    }
    let [Some(none), Some(on_fault), Some(future)] = [0, 1, 2].map(|index: usize| rows[index].tried) else {
        anyhow::bail!("expected three policies to be tried");
    };
    let free = procfs::Meminfo::current().ok().and_then(|memory| memory.mem_available).unwrap_or(0);
    let mut advice = recommend(args.goal, &none.measured, &on_fault, &future, stack, free);
    advice.follow = args.follow && advice.policy != Policy::None.word();
    let command: Vec<String> = args.command.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    let needed = if advice.policy == Policy::Future.word() { &future } else { &on_fault }.measured;
    let fragment = args.fragment.as_deref().map(|what| match what {
        "systemd" => systemd(&advice, &command, needed.resident),
        "kubernetes" => kubernetes(&advice, &command, needed.resident),
        _ => libvirt(&advice, needed.mapped),
    });
    Ok(Report { unlocked: unlocked.middle, policies: rows, recommendation: Some(advice), fragment })
}

fn wrapped(args: &Args, policy: Policy, compat: bool) -> anyhow::Result<Vec<OsString>> {
    let own = std::env::current_exe().context("cannot find this program")?;
    let mut all: Vec<OsString> =
        vec![own.into(), "memlock".into(), "run".into(), "--policy".into(), policy.word().into()];
    all.extend(compat.then(|| "--compat".into()));
    all.extend((args.follow && policy != Policy::None).then(|| "--follow".into()));
    all.push("--".into());
    all.extend(args.command.iter().cloned());
    Ok(all)
}

/// What filling fresh memory costs; locking does it in larger pieces, so at most so much, with room for a busy machine.
fn machine() -> Machine {
    let start = Instant::now();
    let memory = std::hint::black_box(vec![1_u8; SAMPLE]);
    let cost = start.elapsed().as_secs_f64() / SAMPLE as f64;
    drop(memory);
    Machine {
        seconds_per_byte: Range { least: 0.0, likely: cost, most: cost * 3.0 },
        launch: Range { least: 0.0, likely: LAUNCH / 10.0, most: LAUNCH },
    }
}

/// A number of bytes that was computed with.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "what does not fit becomes the nearest")]
fn whole(bytes: f64) -> u64 {
    bytes as u64
}

impl Report {
    fn print(&self, out: &mut impl Write) -> io::Result<()> {
        writeln!(
            out,
            "{:<8} {:<22} {:<24} {:<24} {:>10}  works",
            "policy", "seconds", "memory", "page faults", "threads/s"
        )?;
        for row in &self.policies {
            let predicted = &row.predicted;
            let bytes = |range: &Range| format!("{} to {}", size(whole(range.least)), size(whole(range.most)));
            let (seconds, memory) = (&predicted.seconds, bytes(&predicted.resident));
            let timed = row.tried.is_some();
            let seconds = if timed { format!("{:.3} to {:.3}", seconds.least, seconds.most) } else { "?".to_owned() };
            let faults = format!("{:.0} to {:.0}", predicted.faults.least, predicted.faults.most);
            writeln!(out, "{:<8} {seconds:<22} {memory:<24} {faults:<24} {:>10}  predicted", row.policy, "")?;
            let Some(tried) = &row.tried else { continue };
            let measured = &tried.measured;
            #[allow(clippy::cast_precision_loss, reason = "sizes of processes are below 2^53 bytes")]
            let off = |range: &Range, value: u64| if range.holds(value as f64) { "" } else { " (unexpected)" };
            writeln!(
                out,
                "{:<8} {:<22} {:<24} {:<24} {:>10}  {}",
                "",
                format!(
                    "{:.3}{}",
                    measured.seconds,
                    if predicted.seconds.holds(measured.seconds) { "" } else { " (unexpected)" }
                ),
                format!("{}{}", size(measured.resident), off(&predicted.resident, measured.resident)),
                format!("{}{}", measured.minor_faults, off(&predicted.faults, measured.minor_faults)),
                row.threads_per_second.map_or_else(|| "?".to_owned(), |rate| format!("{rate:.0}")),
                match (tried.works, tried.compat) {
                    (true, false) => "yes",
                    (true, true) => "with --compat",
                    (false, _) => "NO: it ends otherwise than unlocked",
                }
            )?;
        }
        if self.unlocked.samples < 3 {
            writeln!(out, "It ends too soon to be looked at: its memory is not known.")?;
        }
        if let Some(advice) = &self.recommendation {
            let stack = advice.stack.map(|bytes| format!(" --stack {}K", bytes / 1024)).unwrap_or_default();
            let compat = if advice.compat { " --compat" } else { "" };
            let follow = if advice.follow { " --follow" } else { "" };
            writeln!(out, "\nadvice   --policy {}{stack}{compat}{follow}", advice.policy)?;
            for reason in &advice.reasons {
                writeln!(out, "         {reason}")?;
            }
        }
        if let Some(fragment) = &self.fragment {
            writeln!(out)?;
            for line in fragment.lines() {
                writeln!(out, "{}", printable(line))?;
            }
        }
        Ok(())
    }
}
