// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How often `memlock advise` is right about real programs.
//!
//! Each program is given to it twice, once for each goal. What it predicts is compared with what it measures afterwards;
//! what it recommends for one goal is judged by the measurements of the other run, which it did not know.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::programs::{PROGRAMS, locate, prepare};
use crate::samples::Spread;

/// How much the prediction of memory may be off.
const GOAL: f64 = 0.01;

/// Of each policy; fewer than by default, because all is done twice for each program.
const RUNS: &str = "3";

/// How often something held.
#[derive(Default)]
struct Share {
    right: u32,
    of: u32,
}

impl Share {
    fn count(&mut self, right: bool) {
        self.right += u32::from(right);
        self.of += 1;
    }

    fn json(&self) -> Value {
        json!({ "right": self.right, "of": self.of, "per_cent": 100.0 * f64::from(self.right) / f64::from(self.of.max(1)) })
    }
}

#[derive(Default)]
struct Tally {
    /// Parts by which the prediction of memory was off.
    off: Vec<f64>,
    /// Within [`GOAL`] of the likeliest; within the range.
    near: Share,
    memory: Share,
    time: Share,
    faults: Share,
    best: Share,
}

/// Asks about each program that is installed; prints what went wrong and the shares.
pub(crate) fn measure() -> Result<Value> {
    let touchmark = std::env::current_exe()?.with_file_name("touchmark");
    ensure!(touchmark.exists(), "expected {}; run `make bench`", touchmark.display());
    let folder = tempfile::tempdir()?;
    prepare(folder.path())?;
    println!("\nmemlock advise on real programs");
    let (mut tally, mut rows, mut programs) = (Tally::default(), Vec::new(), 0);
    for (name, command) in PROGRAMS {
        let Some(program) = locate(command[0]) else {
            println!("  {name}: not installed");
            continue;
        };
        let advise = |goal: &str| advise(&touchmark, goal, &program, &command[1..], folder.path());
        let reports = [advise("stay").context(*name)?, advise("deadline").context(*name)?];
        programs += 1;
        for report in &reports {
            tally.predictions(name, report);
        }
        for (goal, advice, judge) in [("stay", &reports[0], &reports[1]), ("deadline", &reports[1], &reports[0])] {
            let (found, best) = (advice["recommendation"]["policy"].as_str().unwrap_or_default(), best(goal, judge));
            tally.best.count(found == best);
            if found != best {
                println!("  {name}: for {goal} {found} was recommended, {best} was measured best");
            }
        }
        rows.push(json!({ "program": name, "reports": reports }));
    }
    println!("  {programs} programs");
    let off = Spread::of(&tally.off);
    println!("  memory off by {:.2} % (median; most {:.1} %)", off.median * 100.0, off.most * 100.0);
    let shares = [
        ("memory within 1 %", &tally.near),
        ("memory in its range", &tally.memory),
        ("time in its range", &tally.time),
        ("page faults in their range", &tally.faults),
        ("recommendation the measured best", &tally.best),
    ];
    let mut results = json!({ "programs": programs, "memory_off": off, "rows": rows });
    for (what, share) in shares {
        println!("  {what}: {} of {}, {:.1} %", share.right, share.of, share.json()["per_cent"]);
        results[what] = share.json();
    }
    Ok(results)
}

fn advise(touchmark: &Path, goal: &str, program: &Path, arguments: &[&str], folder: &Path) -> Result<Value> {
    let output = Command::new(touchmark)
        .args(["memlock", "advise", "--json", "--runs", RUNS, "--duration", "1500ms", "--goal", goal, "--"])
        .arg(program)
        .args(arguments)
        .current_dir(folder)
        .stdin(Stdio::null())
        .output()?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).context("advise printed no object")
}

impl Tally {
    fn predictions(&mut self, name: &str, report: &Value) {
        for row in report["policies"].as_array().into_iter().flatten() {
            let (predicted, measured) = (&row["predicted"], &row["tried"]["measured"]);
            if row["tried"]["works"] != true {
                println!("  {name}: does not work under {}", row["policy"]);
                continue;
            }
            let policy = row["policy"].as_str().unwrap_or_default();
            let [memory, faults, seconds] = ["resident", "faults", "seconds"].map(|field| range(&predicted[field]));
            let [resident, minor, time] =
                ["resident", "minor_faults", "seconds"].map(|field| measured[field].as_f64().unwrap_or(f64::NAN));
            let likely = predicted["resident"]["likely"].as_f64().unwrap_or(f64::NAN);
            let off = (likely / resident - 1.0).abs();
            self.off.push(off);
            self.near.count(off <= GOAL);
            self.memory.count(holds(memory, resident));
            if !holds(memory, resident) {
                println!(
                    "  {name}, {policy}: memory {resident:.0} was predicted as {:.0} to {:.0}",
                    memory.0, memory.1
                );
            }
            self.faults.count(holds(faults, minor));
            if !holds(faults, minor) {
                println!(
                    "  {name}, {policy}: {minor:.0} page faults were predicted as {:.0} to {:.0}",
                    faults.0, faults.1
                );
            }
            // What is ended when its time is up takes that time.
            if measured["cut"] != true {
                self.time.count(holds(seconds, time));
                if !holds(seconds, time) {
                    println!("  {name}, {policy}: {time:.4} s were predicted as {:.4} to {:.4}", seconds.0, seconds.1);
                }
            }
        }
    }
}

/// The policy that did best: to keep what it touches in memory (`stay`), the one that takes the least memory for the
/// least time; for a deadline, the one that has the largest part of what may be accessed in memory.
fn best(goal: &str, report: &Value) -> String {
    let worth = |row: &&Value| {
        let number = |field: &str| row["tried"]["measured"][field].as_f64().unwrap_or(f64::NAN);
        if goal == "stay" { -number("resident") * number("seconds") } else { number("resident") / number("accessible") }
    };
    let rows = report["policies"].as_array().into_iter().flatten();
    let locked = rows.filter(|row| row["policy"] != "none" && row["tried"]["works"] == true);
    let best = locked.max_by(|one, other| worth(one).total_cmp(&worth(other)));
    best.and_then(|row| row["policy"].as_str()).unwrap_or("none").to_owned()
}

fn range(value: &Value) -> (f64, f64) {
    let end = |name: &str| value[name].as_f64().unwrap_or(f64::NAN);
    (end("least"), end("most"))
}

fn holds(range: (f64, f64), value: f64) -> bool {
    (range.0..=range.1).contains(&value)
}
