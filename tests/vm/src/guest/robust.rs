// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What goes wrong around enforcement: floods, a daemon that stops, upgrades. And that permissive mode never blocks.

use std::fs::{self, File};
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use rustix::io::Errno;
use serde_json::Value;
use touchmark_sys::mapping::{Access, Mapping};

use crate::act::{actor, can};
use crate::report;
use crate::sh;
use crate::site::{Site, admit, event, kernel_verifies, refused, runs, soon, status, text, touchmark_ok};
use crate::trial::{Trial, trial};

pub(crate) const TRIALS: &[Trial] = &[
    trial("storm_of_denials_is_counted_to_the_last", &[], storm).seconds(600),
    trial("daemon_stopped_or_killed_never_lets_anything_in", &[], daemon_stopped_or_killed).seconds(180),
    trial("permissive_never_blocks", &[], permissive_never_blocks).seconds(180),
];

const STORM: u64 = 100_000;
/// Between two looks at whether the machine is usable.
const GUST: u64 = 10_000;

fn storm() -> Result<()> {
    let site = Site::new()?;
    let (signed, unsigned) = (site.program("/usr/bin/true", "signed")?, site.path("unsigned"));
    sh::write(&unsigned, &[0x5a; 4096])?;
    site.sign(&signed)?;
    site.enforce(&[])?;
    let before = status()?;
    let file = File::open(&unsigned)?;
    let begin = std::time::Instant::now();
    for number in 1..=STORM {
        let mapped = Mapping::new(&file, 4096, Access::Execute);
        sh::expect_errno(mapped, Errno::PERM, "mapping an unsigned file")?;
        if number % GUST == 0 {
            runs(&signed)?;
        }
    }
    report::value("denials_per_second", STORM * 1000 / u64::try_from(begin.elapsed().as_millis())?.max(1))?;
    let after = status()?;
    ensure!(after["denied"]["unsigned"] == STORM, "expected {STORM}, found {after}");
    ensure!(total(&after["maps"]) <= total(&before["maps"]) + (1 << 20), "from {before} to {after}");
    let daemon = daemon()?;
    let memory = fs::read_to_string(format!("/proc/{daemon}/status"))?;
    let resident = memory.lines().find_map(|line| line.strip_prefix("VmRSS:")?.trim().strip_suffix(" kB"));
    let resident: u64 = resident.context("no VmRSS")?.parse()?;
    ensure!(resident < 128 << 10, "the daemon takes {resident} KiB");
    // Logged or counted as lost: none is missing, as soon as the daemon has written what it read.
    let lost = after["events_lost"].as_u64().zip(before["events_lost"].as_u64());
    let lost = lost.map(|(after, before)| after - before).context("events_lost")?;
    report::value("lost", lost)?;
    soon("the daemon to log the rest", || Ok((logged(&unsigned)? + lost == STORM).then_some(())))
        .with_context(|| format!("{lost} lost, {:?} logged", logged(&unsigned)))
}

fn total(parts: &Value) -> u64 {
    parts.as_object().map_or(0, |parts| parts.values().filter_map(Value::as_u64).sum())
}

/// How many events about a file are in the logs, of which the older may have been dropped.
fn logged(path: &Path) -> Result<u64> {
    let quoted = format!("\"{}\"", path.display());
    let mut found = 0;
    for name in ["events.1.jsonl", "events.jsonl"] {
        let log = fs::read_to_string(Path::new("/var/log/touchmark").join(name)).unwrap_or_default();
        found += log.lines().filter(|line| line.contains(&quoted)).count();
    }
    Ok(u64::try_from(found)?)
}

fn daemon() -> Result<i32> {
    status()?["daemon"].as_i64().and_then(|pid| i32::try_from(pid).ok()).context("no daemon")
}

fn daemon_stopped_or_killed() -> Result<()> {
    let site = Site::new()?;
    let (first, second) = (site.program("/usr/bin/true", "first")?, site.program("/usr/bin/id", "second")?);
    let (unsigned, marker) = (site.program("/usr/bin/touch", "unsigned")?, site.path("marker"));
    for program in [&first, &second] {
        site.sign_in("embedded", program)?;
    }
    site.enforce(&["--unguarded"])?;
    runs(&first)?;
    let approved = status()?["approved_digests"].as_u64();
    let pid = daemon()?;
    kill(Pid::from_raw(pid), Signal::SIGSTOP)?;
    soon("the daemon to stop", || {
        let state = fs::read_to_string(format!("/proc/{pid}/stat"))?;
        Ok(state.contains(") T ").then_some(()))
    })?;
    // The kernel asks the daemon before each exec, so these wait, and nothing else can be started meanwhile.
    std::thread::scope(|scope| -> Result<()> {
        let start = || Command::new(&unsigned).arg(&marker).stdin(Stdio::null()).status();
        let waiting = [scope.spawn(start), scope.spawn(start)];
        soon("both to wait", || Ok((held(&unsigned)? == waiting.len()).then_some(())))?;
        kill(Pid::from_raw(pid), Signal::SIGKILL)?;
        for thread in waiting {
            let status = thread.join().map_err(|_| anyhow::anyhow!("a thread panicked"))?;
            sh::expect_errno(status, Errno::PERM, "starting an unsigned program")?;
        }
        Ok(())
    })?;
    soon("the daemon to end", || Ok(status()?["daemon"].is_null().then_some(())))?;
    ensure!(!marker.exists(), "an unsigned program ran");
    runs(&first)?;
    refused(&second)?;
    refused(&unsigned)?;
    touchmark_ok(["enforce", "--unguarded", "--scope", &site.scope()])?;
    ensure!(status()?["approved_digests"].as_u64() == approved, "expected {approved:?}, found {}", status()?);
    runs(&first)?;
    runs(&second)?;
    refused(&unsigned)
}

/// How many children of this process are about to become another program: they still are what we are.
fn held(program: &Path) -> Result<usize> {
    let me = std::process::id().to_string();
    let mut found = 0;
    for entry in fs::read_dir("/proc")? {
        let folder = entry?.path();
        let Ok(stat) = fs::read_to_string(folder.join("stat")) else { continue };
        let parent = stat.rsplit(") ").next().and_then(|rest| rest.split(' ').nth(1));
        let waits = fs::read_to_string(folder.join("wchan")).is_ok_and(|name| name.contains("fanotify"));
        found += usize::from(parent == Some(&me) && waits && folder.join("exe").read_link()? != program);
    }
    Ok(found)
}

fn permissive_never_blocks() -> Result<()> {
    let site = Site::new()?;
    let (signed, unsigned) = (site.program("/usr/bin/true", "signed")?, actor(&site, "unsigned")?);
    let shell = site.program("/usr/bin/dash", "dash")?;
    site.sign(&signed)?;
    site.enforce(&["--mode", "permissive", "--interpreter", text(&shell)])?;
    if !kernel_verifies() {
        admit(&signed)?;
    }
    for act in ["nothing", "map-memory", "protect-memory", "map-memory-file", "write-itself"] {
        ensure!(can(&unsigned, act)?, "{act}: expected to go on");
    }
    event(&unsigned, "unsigned")?;
    event(Path::new("unsigned"), "anonymous")?;
    sh::succeed(["strace", "-o", "/dev/null", text(&signed)])?;
    event(&signed, "traced")?;
    sh::succeed([text(&shell), "-c", "exit 0"])?;
    event(&shell, "direct-interpreter")?;

    let mapped = Mapping::new(File::open(&signed)?, 4096, Access::Execute)?;
    File::options().write(true).open(&signed).context("opening what is mapped for writing")?;
    event(&signed, "mapped")?;
    drop(mapped);
    // Open for writing at once.
    let writer = File::options().append(true).open(&unsigned)?;
    drop(Mapping::new(File::open(&unsigned)?, 4096, Access::Execute)?);
    event(&unsigned, "open-for-writing")?;
    drop(writer);
    site.enforce(&["--mode", "permissive", "--file-system", "loop=deny"])?;
    runs(&signed)?;
    event(&signed, "untrusted-filesystem")?;

    let pid = daemon()?;
    kill(Pid::from_raw(pid), Signal::SIGKILL).context("killing the daemon")?;
    soon("the daemon to end", || Ok(status()?["daemon"].is_null().then_some(())))?;
    let pin = "/sys/fs/bpf/touchmark/links/check_kill";
    fs::rename(pin, format!("{pin}_")).context("renaming a pin")?;
    fs::remove_file(format!("{pin}_")).context("removing a pin")?;
    let status = status()?;
    ensure!(status["denied"]["guarded"].as_u64() >= Some(3), "{status}");
    ensure!(status["permitted"].as_u64() == Some(total(&status["denied"])), "{status}");
    Ok(())
}
