// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Runs trials one after another, each in a process, a control group and a mount namespace of its own.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileTypeExt;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use touchmark_vm::protocol::{Event, Outcome};

use crate::report::{self, DATA};
use crate::sh;
use crate::trial::{self, SKIPPED, Trial};

/// The control group of the running trial.
const GROUP: &str = "/sys/fs/cgroup/touchmark-vm-trial";
/// Where the running trial's output goes.
const OUTPUT: &str = "/run/touchmark-vm/output";
/// How much of a failed trial's output is reported, in bytes.
const OUTPUT_LIMIT: usize = 16 << 10;
/// How often we look whether a trial ended.
const POLL: Duration = Duration::from_millis(5);

/// Runs the named trials and reports each.
pub(crate) fn run(modules: &[(&str, &[Trial])], names: &[String]) -> Result<()> {
    // What a trial mounts must not get out of its namespace.
    sh::succeed(["mount", "--make-rprivate", "/"])?;
    for name in names {
        let seconds = trial::deadline(modules, name).with_context(|| format!("no trial is called {name}"))?;
        report::send(&Event::Start { trial: name.clone() });
        let start = Instant::now();
        let child = match spawn(name) {
            Ok(child) => child,
            Err(error) => {
                report::send(&Event::Spoilt { reason: format!("{name} cannot be started: {error:#}") });
                return Ok(());
            }
        };
        let ended = wait(child, Duration::from_secs(seconds))?;
        let millis = u64::try_from(start.elapsed().as_millis()).unwrap_or(u64::MAX);
        let spoilt = clean_up();
        report_data(name)?;
        report::send(&Event::End { trial: name.clone(), outcome: outcome(ended, seconds), millis });
        if let Err(error) = spoilt {
            report::send(&Event::Spoilt { reason: format!("{name} left something behind: {error:#}") });
            return Ok(());
        }
    }
    Ok(())
}

/// Called in a trial's process before the trial: moves it to its control group.
pub(crate) fn enter_group() -> Result<()> {
    fs::write(Path::new(GROUP).join("cgroup.procs"), "0").context("the trial's control group cannot be entered")
}

fn spawn(name: &str) -> Result<Child> {
    fs::create_dir_all(GROUP)?;
    let _ = fs::remove_file(DATA);
    let output = File::create(OUTPUT)?;
    let child = Command::new("/usr/bin/unshare")
        .args(["--mount", "--propagation", "private", "/proc/1/exe", "trial", name])
        .stdin(Stdio::null())
        .stdout(output.try_clone()?)
        .stderr(output)
        .spawn()?;
    Ok(child)
}

/// Waits for a trial's process; `None` when it had to be killed at its deadline.
fn wait(mut child: Child, deadline: Duration) -> Result<Option<ExitStatus>> {
    let end = Instant::now() + deadline;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if Instant::now() > end {
            // Not by kill_group: that would also take the exit status of the child, which is awaited here.
            fs::write(Path::new(GROUP).join("cgroup.kill"), "1")?;
            let _ = child.kill();
            child.wait()?;
            return Ok(None);
        }
        std::thread::sleep(POLL);
    }
}

fn outcome(ended: Option<ExitStatus>, seconds: u64) -> Outcome {
    let output = fs::read(OUTPUT).unwrap_or_default();
    let output = String::from_utf8_lossy(&output[output.len().saturating_sub(OUTPUT_LIMIT)..]).into_owned();
    let output = output.trim_end();
    match ended {
        Some(status) if status.success() => Outcome::Passed,
        Some(status) if status.code() == Some(i32::from(SKIPPED)) => {
            Outcome::Skipped { reason: output.lines().last().unwrap_or_default().to_owned() }
        }
        Some(status) if status.signal().is_some() => {
            Outcome::Failed { message: format!("{output}\nended with {status}") }
        }
        Some(_) => Outcome::Failed { message: output.to_owned() },
        None => Outcome::Failed { message: format!("{output}\nnot done within {seconds} s") },
    }
}

fn report_data(trial: &str) -> Result<()> {
    for line in fs::read_to_string(DATA).unwrap_or_default().lines() {
        let (key, value) = serde_json::from_str(line)?;
        report::send(&Event::Data { trial: trial.to_owned(), key, value });
    }
    Ok(())
}

/// Ends what the trial started and removes what it pinned.
fn clean_up() -> Result<()> {
    // A trial that failed leaves its pins guarded: only touchmark removes them.
    if Path::new("/sys/fs/bpf/touchmark").exists() {
        sh::run(["touchmark", "enforce", "--mode", "off"])?;
    }
    for group in folders(Path::new("/sys/fs/cgroup"))? {
        kill_group(&group)?;
        remove_group(&group)?;
    }
    for entry in fs::read_dir("/sys/fs/bpf")? {
        let path = entry?.path();
        // Older kernels show their own iterators there, which are no pins of ours.
        if path.ends_with("maps.debug") || path.ends_with("progs.debug") {
            continue;
        }
        let removed = if path.is_dir() { fs::remove_dir_all(&path) } else { fs::remove_file(&path) };
        removed.with_context(|| format!("{} cannot be removed", path.display()))?;
    }
    // Programs that nothing holds any more are freed by a worker after a grace period; a new process must start again.
    sh::succeed(["/usr/bin/true"]).map(drop)
}

/// Kills every process of a control group and of those below, and reaps what became ours.
fn kill_group(group: &Path) -> Result<()> {
    fs::write(group.join("cgroup.kill"), "1").with_context(|| format!("{} cannot be killed", group.display()))?;
    let end = Instant::now() + Duration::from_secs(10);
    while fs::read_to_string(group.join("cgroup.events"))?.contains("populated 1") {
        reap();
        if Instant::now() > end {
            bail!("processes of {} do not die", group.display());
        }
        std::thread::sleep(POLL);
    }
    reap();
    Ok(())
}

fn remove_group(group: &Path) -> Result<()> {
    for below in folders(group)? {
        remove_group(&below)?;
    }
    fs::remove_dir(group).with_context(|| format!("{} cannot be removed", group.display()))
}

/// Takes the exit status of orphans. Only called while no child of ours is waited for elsewhere.
fn reap() {
    while let Ok(status) = waitpid(None, Some(WaitPidFlag::WNOHANG)) {
        if status == WaitStatus::StillAlive {
            return;
        }
    }
}

fn folders(parent: &Path) -> io::Result<Vec<std::path::PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(parent)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() && !entry.file_type()?.is_char_device() {
            found.push(entry.path());
        }
    }
    Ok(found)
}
