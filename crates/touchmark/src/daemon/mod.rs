// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The daemon. Enforcement does not need it: it admits programs with an embedded signature in time, and it writes
//! down what the kernel decided. Killed at any instant it leaves nothing half-done.

mod admit;
pub(crate) mod log;
mod start;

use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use anyhow::Context;
use clap::Parser;
use touchmark_enforce::admission::{self, Admission};
use touchmark_enforce::{Enforcement, EventReader};

pub(crate) use start::{executable, is_outdated, serves, start, stop};

use crate::revocations;
use crate::state::{Lock, State};

/// Admit programs at exec and write down what the kernel decided.
#[derive(Debug, Parser)]
#[command(name = "touchmarkd", version)]
struct Args {
    /// Leave the terminal and session that started it; the line `ready` on standard output says that it serves
    #[arg(long)]
    detach: bool,
}

/// How many execs can be looked at side by side: one slow, large file must not hold up the others.
const ADMISSION_THREADS: usize = 2;

/// Parses the arguments and serves until it is killed.
#[must_use]
pub fn main() -> ExitCode {
    let args = Args::parse();
    match serve(&args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("touchmarkd: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn serve(args: &Args) -> anyhow::Result<()> {
    if args.detach {
        nix::unistd::setsid().context("cannot start a session of its own")?;
        std::env::set_current_dir("/").context("cannot change to /")?;
    }
    let Some(_lock) = Lock::daemon()? else { anyhow::bail!("another touchmarkd is serving") };
    let enforcement =
        Enforcement::running()?.context("enforcement is not loaded; run `touchmark enforce --cert CERT`")?;
    let state = State::in_force(&enforcement)?;
    let authority = revocations::in_force(state.certificates()?, Some(&enforcement))?;
    let admission = Admission::open()?;
    let mut events = EventReader::open()?;
    let mut log = log::Log::open()?;
    start::tell_ready()?;

    thread::scope(|scope| -> anyhow::Result<()> {
        for _ in 0..ADMISSION_THREADS {
            scope.spawn(|| end_on(admission.serve(|file| admit::look(file, &authority, &enforcement))));
        }
        scope.spawn(|| end_on(watch_mounts(&admission)));
        loop {
            for event in events.read(Duration::from_secs(1))? {
                log.write(&event);
            }
        }
    })
}

fn watch_mounts(admission: &Admission) -> Result<(), touchmark_enforce::EnforceError> {
    loop {
        admission.mark_mounted()?;
        admission::wait_for_mounts()?;
    }
}

/// A part that cannot go on takes the daemon with it: it is restarted whole, or its absence shows in `status`.
fn end_on(outcome: Result<(), touchmark_enforce::EnforceError>) {
    if let Err(error) = outcome {
        eprintln!("touchmarkd: {error}");
        std::process::exit(1);
    }
}
