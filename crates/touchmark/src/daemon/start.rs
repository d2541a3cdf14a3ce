// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Starting the daemon from the command line, and knowing that it serves.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::Context;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::log;
use crate::{files, state};

const READY: &str = "ready";

/// The daemon that belongs to this program: beside it, or in the `sbin` beside its folder.
pub(crate) fn executable() -> anyhow::Result<PathBuf> {
    let own = std::env::current_exe().context("cannot find out where this program is")?;
    let folder = own.parent().context("expected this program in a folder")?;
    let places = [folder.join("touchmarkd"), folder.with_file_name("sbin").join("touchmarkd")];
    let found = places.iter().find(|place| place.is_file());
    found.cloned().with_context(|| format!("expected touchmarkd at {} or {}", places[0].display(), places[1].display()))
}

/// Whether a daemon serves.
pub(crate) fn serves() -> anyhow::Result<bool> {
    Ok(state::daemon_pid()?.is_some())
}

/// Whether the daemon that serves is another build than the one that belongs to this program.
pub(crate) fn is_outdated() -> anyhow::Result<bool> {
    let Some(pid) = state::daemon_pid()? else { return Ok(false) };
    let serving = PathBuf::from(format!("/proc/{pid}/exe"));
    Ok(files::digest(&serving)? != files::digest(&executable()?)?)
}

/// Starts the daemon unless one is serving; returns once it serves.
pub(crate) fn start() -> anyhow::Result<()> {
    if serves()? {
        return Ok(());
    }
    let executable = executable()?;
    let mut child = Command::new(&executable)
        .arg("--detach")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(error_log()?)
        .spawn()
        .with_context(|| format!("cannot start {}", executable.display()))?;
    let mut line = String::new();
    let output = child.stdout.take().context("expected the daemon's standard output")?;
    BufReader::new(output).read_line(&mut line).context("cannot read from the daemon")?;
    anyhow::ensure!(
        line.trim() == READY,
        "{} ended before it served; its reason is in {}",
        executable.display(),
        log::directory().join(ERROR_LOG).display()
    );
    Ok(())
}

/// Ends a serving daemon, if there is one; returns once it has ended.
pub(crate) fn stop() -> anyhow::Result<()> {
    if let Some(pid) = state::daemon_pid()? {
        // It has nothing to put in order, and a stopped one would not take a milder signal.
        kill(Pid::from_raw(pid), Signal::SIGKILL).with_context(|| format!("cannot end touchmarkd, process {pid}"))?;
        state::wait_for_daemon_end()?;
    }
    Ok(())
}

/// The daemon's side: says that it serves, then lets go of the pipe.
pub(super) fn tell_ready() -> anyhow::Result<()> {
    println!("{READY}");
    let null = File::options().write(true).open("/dev/null").context("cannot open /dev/null")?;
    rustix::stdio::dup2_stdout(null).context("cannot let go of standard output")
}

const ERROR_LOG: &str = "touchmarkd.log";

fn error_log() -> anyhow::Result<File> {
    log::create_directory()?;
    let path = log::directory().join(ERROR_LOG);
    open_private_append(&path).with_context(|| format!("cannot open {}", path.display()))
}

/// For logs: appended to, readable by root alone, because they tell who ran what.
pub(super) fn open_private_append(path: &Path) -> std::io::Result<File> {
    File::options().append(true).create(true).mode(0o600).open(path)
}
