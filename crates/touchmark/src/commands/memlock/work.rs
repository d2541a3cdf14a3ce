// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Work that shows what locking costs: S1's tables 3 to 6. `advise` and the benchmarks run it under each policy.

use std::hint::black_box;
use std::mem::MaybeUninit;
use std::process::{Command, Stdio};
use std::sync::{Arc, Barrier};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::Context;
use procfs::process::Process;
use serde_json::{Value, json};
use touchmark_memlock::run::Policy;
use touchmark_sys::huge;

use crate::Exit;

/// Arguments of the hidden command; sizes in bytes.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    work: Work,
}

#[derive(Clone, Copy, Debug, clap::Subcommand)]
enum Work {
    /// Makes and joins threads: how many a second (table 5)
    Threads {
        /// Of each stack
        stack: usize,
    },
    /// Makes threads that live side by side and each use 1 MiB of their stack (table 4)
    Stacks {
        /// How many
        threads: usize,
        /// Of each stack
        stack: usize,
    },
    /// Allocates, then touches a part, page by page, twice (tables 3 and 6)
    Allocate {
        /// How much
        bytes: usize,
        /// Per cent that are touched
        part: usize,
        /// In huge pages
        #[arg(long)]
        huge: bool,
    },
}

/// So many threads live at a time.
const ALIVE: usize = 16;
/// How long threads are made.
const TIME: Duration = Duration::from_millis(200);
/// What is used of a stack.
const USED: usize = 1 << 20;
const PAGE: usize = 4096;

/// Does the work and prints one JSON object.
pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    let result = match args.work {
        Work::Threads { stack } => threads(stack)?,
        Work::Stacks { threads, stack } => stacks(threads, stack)?,
        Work::Allocate { bytes, part, huge } => allocate(bytes, part, huge)?,
    };
    println!("{result}");
    Ok(Exit::Success)
}

/// Threads a second under a policy; `None` where it cannot be tried.
pub(super) fn rate(policy: Policy, stack: u64) -> Option<f64> {
    let own = std::env::current_exe().ok()?;
    let output = Command::new(&own)
        .args(["memlock", "run", "--policy", policy.word(), "--"])
        .arg(&own)
        .args(["memlock", "work", "threads", &stack.to_string()])
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output()
        .ok()?;
    serde_json::from_slice::<Value>(&output.stdout).ok()?["per_second"].as_f64()
}

fn threads(stack: usize) -> anyhow::Result<Value> {
    // Several of these run side by side: what counts for them together is when the first began and the last ended.
    let begin = since_epoch();
    let start = Instant::now();
    let mut made = 0_u32;
    while start.elapsed() < TIME {
        let batch: Vec<_> = (0..ALIVE)
            .map(|_| thread::Builder::new().stack_size(stack).spawn(|| {}))
            .collect::<Result<_, _>>()
            .context("cannot make a thread")?;
        made += join(batch);
    }
    let seconds = start.elapsed().as_secs_f64();
    Ok(json!({ "per_second": f64::from(made) / seconds, "made": made, "begin": begin, "end": begin + seconds }))
}

fn stacks(count: usize, stack: usize) -> anyhow::Result<Value> {
    let all_have_touched = Arc::new(Barrier::new(count + 1));
    let start = Instant::now();
    let batch: Vec<_> = (0..count)
        .map(|_| {
            let barrier = Arc::clone(&all_have_touched);
            thread::Builder::new().stack_size(stack.max(2 * USED)).spawn(move || {
                black_box([1_u8; USED]);
                barrier.wait();
                // Stays until the memory of all has been looked at.
                barrier.wait();
            })
        })
        .collect::<Result<_, _>>()
        .context("cannot make a thread")?;
    all_have_touched.wait();
    let seconds = start.elapsed().as_secs_f64();
    let resident = resident()?;
    all_have_touched.wait();
    join(batch);
    Ok(json!({ "seconds": seconds, "resident": resident }))
}

fn allocate(bytes: usize, part: usize, huge: bool) -> anyhow::Result<Value> {
    let before = faults()?;
    let start = Instant::now();
    let mut room: Vec<u8> = Vec::with_capacity(bytes);
    if huge {
        huge::advise(room.spare_capacity_mut()).context("no huge pages here")?;
    }
    let touched = bytes / 100 * part.min(100);
    let space = &mut room.spare_capacity_mut()[..touched];
    let first = touch(space);
    let seconds = start.elapsed().as_secs_f64();
    let between = faults()?;
    let second = touch(space);
    Ok(json!({
        "seconds": seconds,
        "faults": between - before,
        "later_faults": faults()? - between,
        "first_touch_ns": first,
        "second_touch_ns": second,
        "resident": resident()?,
    }))
}

/// The median of the times that writing to a page takes, in nanoseconds.
fn touch(space: &mut [MaybeUninit<u8>]) -> u128 {
    let mut times: Vec<u32> = Vec::with_capacity(space.len() / PAGE + 1);
    for page in space.chunks_mut(PAGE) {
        let start = Instant::now();
        page[0].write(1);
        black_box(&page[0]);
        times.push(u32::try_from(start.elapsed().as_nanos()).unwrap_or(u32::MAX));
    }
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or(0).into()
}

fn since_epoch() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64())
}

fn join(threads: Vec<JoinHandle<()>>) -> u32 {
    let mut joined = 0;
    for thread in threads {
        // A thread that does nothing does not panic.
        let _ = thread.join();
        joined += 1;
    }
    joined
}

fn faults() -> anyhow::Result<u64> {
    let stat = Process::myself().and_then(|process| process.stat()).context("cannot read /proc/self/stat")?;
    Ok(stat.minflt + stat.majflt)
}

fn resident() -> anyhow::Result<u64> {
    let status = Process::myself().and_then(|process| process.status()).context("cannot read /proc/self/status")?;
    Ok(status.vmrss.unwrap_or(0) * 1024)
}
