// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How many threads can be made in a second under a policy: S1's table 5. A process of our own under that policy tries.

use std::ffi::OsString;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use touchmark_memlock::run::Policy;

use crate::Exit;

/// Arguments of the hidden command that does the work.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The size of each stack in bytes.
    stack: usize,
}

/// So many threads live at a time.
const ALIVE: usize = 16;
/// How long it is tried.
const TIME: Duration = Duration::from_millis(200);

/// Makes threads, joins them, and prints how many a second.
pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    let start = Instant::now();
    let mut made = 0_u32;
    while start.elapsed() < TIME {
        let batch: Vec<_> =
            (0..ALIVE).map(|_| thread::Builder::new().stack_size(args.stack).spawn(|| {})).collect::<Result<_, _>>()?;
        for thread in batch {
            // A thread that does nothing does not panic.
            let _ = thread.join();
            made += 1;
        }
    }
    println!("{}", f64::from(made) / start.elapsed().as_secs_f64());
    Ok(Exit::Success)
}

/// Measures one policy; `None` where it cannot be tried.
pub(super) fn rate(policy: Policy, stack: u64) -> Option<f64> {
    let own = std::env::current_exe().ok()?;
    let size = OsString::from(stack.to_string());
    let output = Command::new(&own)
        .args(["memlock", "run", "--policy", policy.word(), "--"])
        .arg(&own)
        .args(["memlock", "threads"])
        .arg(size)
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output()
        .ok()?;
    String::from_utf8(output.stdout).ok()?.trim().parse().ok()
}
