// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `touchmark memlock status`: what of a process is locked, and what is really in memory.

use std::io::{self, IsTerminal, Write};
use std::time::Duration;

use serde::Serialize;
use touchmark_memlock::{Change, LEGEND, Limits, Snapshot, StatusError, Summary, changes, draw, find, size};

use crate::Exit;
use crate::text::printable;

/// Columns where the width is not known.
const COLUMNS: usize = 100;

/// Arguments of `touchmark memlock status`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Locked memory in this table is what is in memory and stays there. The kernel's own count (VmLck) also has what was only \
reserved.")]
pub(crate) struct Args {
    /// The process: its number, or the name of its program
    #[arg(value_name = "PID|NAME")]
    process: String,
    /// One JSON object a process, with every mapping; sizes in bytes
    #[arg(long)]
    json: bool,
    /// Look again every so many seconds, and show how mappings were split, merged, locked
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, require_equals = true, default_missing_value = "1",
          value_parser = clap::value_parser!(u16).range(1..))]
    watch: Option<u16>,
}

#[derive(Serialize)]
struct Object<'a> {
    #[serde(flatten)]
    snapshot: &'a Snapshot,
    summary: Summary,
    explanation: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    changes: Option<Vec<Change>>,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    let mut before = Vec::new();
    for pid in find(&args.process)? {
        match Snapshot::of(pid) {
            Ok(snapshot) => before.push(snapshot),
            // Of several one may end while the others are looked at.
            Err(StatusError::Gone(_)) if args.process.parse::<i32>().is_err() => {}
            Err(error) => return Err(error.into()),
        }
    }
    if before.is_empty() {
        return Err(StatusError::NoSuchName(args.process.clone()).into());
    }
    for snapshot in &before {
        show(args, snapshot, None)?;
    }
    while let Some(seconds) = args.watch {
        std::thread::sleep(Duration::from_secs(seconds.into()));
        let mut now = Vec::new();
        for old in &before {
            match Snapshot::of(old.pid) {
                Ok(new) => {
                    show(args, &new, Some(changes(&old.mappings, &new.mappings)))?;
                    now.push(new);
                }
                Err(StatusError::Gone(pid)) => eprintln!("touchmark: the process {pid} has ended"),
                Err(error) => return Err(error.into()),
            }
        }
        if now.is_empty() {
            break;
        }
        before = now;
    }
    Ok(Exit::Success)
}

fn show(args: &Args, snapshot: &Snapshot, changes: Option<Vec<Change>>) -> io::Result<()> {
    let summary = Summary::of(&snapshot.mappings);
    let explanation = summary.sentences(snapshot);
    let mut out = io::BufWriter::new(io::stdout().lock());
    if args.json {
        serde_json::to_writer(&mut out, &Object { snapshot, summary, explanation, changes })?;
        writeln!(out)?;
        return out.flush();
    }
    if changes.is_some() && io::stdout().is_terminal() {
        // Home, and everything below away.
        write!(out, "\x1b[H\x1b[J")?;
    }
    writeln!(
        out,
        "process      {} ({}), {} threads, {} mappings",
        snapshot.pid,
        printable(&snapshot.name),
        snapshot.threads,
        summary.mappings
    )?;
    for sentence in &explanation {
        writeln!(out, "             {sentence}")?;
    }
    numbers(&mut out, snapshot, &summary)?;
    for change in changes.iter().flatten() {
        writeln!(out, "change       {}", printable(change.to_string()))?;
    }
    writeln!(out)?;
    for line in draw(&snapshot.mappings, columns()) {
        writeln!(out, "{line}")?;
    }
    writeln!(out, "{LEGEND}")?;
    writeln!(out)?;
    out.flush()
}

fn numbers(out: &mut impl Write, snapshot: &Snapshot, summary: &Summary) -> io::Result<()> {
    let line = |out: &mut dyn Write, label: &str, bytes: u64, meaning: &str| {
        writeln!(out, "{label:<12} {:>10}  {meaning}", size(bytes))
    };
    line(out, "locked", summary.locked_resident, "in memory, and stays")?;
    line(out, "unlocked", summary.unlocked_resident, "in memory, and can be taken away")?;
    line(out, "untouched", summary.locked_untouched, "locked, not in memory")?;
    line(out, "reserved", summary.locked_reserve, "locked address space that no memory will fill")?;
    line(out, "swapped", summary.swapped, "in swap")?;
    line(out, "VmLck", snapshot.counted_as_locked, "what the kernel counts against the limit")?;
    writeln!(out, "{:<12} {}", "limit", limit(&snapshot.limits))?;
    let stack = snapshot.limits.stack.map_or_else(|| "no limit".to_owned(), size);
    writeln!(out, "{:<12} {stack} (each thread reserves as much, unless its program says otherwise)", "stack")?;
    writeln!(out, "{:<12} {} boundaries of mappings are made by the lock alone", "splits", summary.splits)?;
    writeln!(
        out,
        "{:<12} {} locked, {} that cannot be taken away in all",
        "machine",
        size(snapshot.machine_locked),
        size(snapshot.machine_unevictable)
    )
}

fn limit(limits: &Limits) -> String {
    let text = |limit: Option<u64>| limit.map_or_else(|| "none".to_owned(), size);
    let exempt = if limits.may_exceed { "; CAP_IPC_LOCK exempts it" } else { "" };
    format!("{} (hard: {}){exempt}", text(limits.locked_soft), text(limits.locked_hard))
}

fn columns() -> usize {
    rustix::termios::tcgetwinsize(io::stdout()).map_or(COLUMNS, |size| usize::from(size.ws_col)).max(1)
}
