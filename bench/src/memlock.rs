// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What locking a program in memory costs: S1's tables 2 to 6 and figures 3 and 4, for each policy in turn.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, ensure};
use serde_json::{Map, Value, json};

use crate::samples::Spread;
use crate::svg::{Axis, Line, chart};

/// What is compared: a name, and the options of `memlock run`.
const VARIANTS: [(&str, &[&str]); 3] =
    [("unlocked", &["--policy", "none"]), ("onfault", &["--policy", "onfault"]), ("future", &["--policy", "future"])];
/// Processes that make threads side by side.
const PROCESSES: [usize; 5] = [1, 2, 4, 8, 16];
/// Stacks as they are by default, and small ones.
const STACK: usize = 8 << 20;
const SMALL_STACK: usize = 256 << 10;
/// S1's stacks: 10 MB of which 1 MB is used.
const LARGE_STACK: usize = 10 << 20;
const THREADS: usize = 200;
/// Bytes that are allocated, and the percentages that are touched.
const ALLOCATED: usize = 1 << 30;
const PARTS: [usize; 4] = [5, 25, 50, 100];
/// MiB of the virtual machine in table 2.
const GUEST: usize = 512;

/// Measures everything; prints the tables, writes the figures.
pub(crate) fn measure(runs: usize, out: &Path) -> Result<Value> {
    let touchmark = std::env::current_exe()?.with_file_name("touchmark");
    ensure!(touchmark.exists(), "expected {}; run `make bench`", touchmark.display());
    let bench = Bench { touchmark, runs };
    Ok(json!({
        "guest": bench.guest()?,
        "allocate": bench.allocate(out)?,
        "huge": bench.huge()?,
        "stacks": bench.stacks()?,
        "threads": bench.threads(out)?,
        "launch": bench.launch()?,
    }))
}

struct Bench {
    touchmark: PathBuf,
    runs: usize,
}

impl Bench {
    /// Table 2: what a virtual machine holds in memory right after its start.
    fn guest(&self) -> Result<Value> {
        println!("\nmemory of a virtual machine with {GUEST} MiB (table 2)");
        let mut rows = Map::new();
        for (name, options) in VARIANTS {
            let size = GUEST.to_string();
            let mut child = self
                .locked(options)
                .args(["qemu-system-x86_64", "-m", &size, "-display", "none", "-S", "-nodefaults", "-qmp", "stdio"])
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .spawn()?;
            // Its greeting comes when the guest's memory is there.
            let greeted = child.stdout.as_mut().map(|output| output.read(&mut [0; 1]));
            let resident = resident(child.id());
            child.kill()?;
            child.wait()?;
            greeted.transpose()?;
            let Some(mib) = resident.map(|bytes| bytes >> 20) else {
                println!("  {name:<10} no qemu-system-x86_64");
                continue;
            };
            println!("  {name:<10} {mib} MiB");
            rows.insert(name.to_owned(), json!(mib));
        }
        Ok(rows.into())
    }

    /// Tables 3 and 6, figure 4: page faults and time when memory is allocated and a part of it touched.
    fn allocate(&self, out: &Path) -> Result<Value> {
        println!("\n{} MiB allocated, a part touched (tables 3 and 6)", ALLOCATED >> 20);
        let mut rows = Vec::new();
        let mut lines = VARIANTS.map(|(name, _)| Line { name: name.to_owned(), values: Vec::new() });
        for part in PARTS {
            let arguments = [ALLOCATED.to_string(), part.to_string()];
            let results = self.rounds(&["allocate", &arguments[0], &arguments[1]])?;
            for ((name, _), (results, line)) in VARIANTS.iter().zip(results.iter().zip(&mut lines)) {
                let spread = |field: &str| Spread::of(&numbers(results, field));
                let (seconds, faults) = (spread("seconds"), spread("faults"));
                println!(
                    "  {part:>3} % {name:<10} {seconds} s, {:.0} faults, first touch {:.0} ns, second {:.0} ns, {:.0} MiB",
                    faults.median,
                    spread("first_touch_ns").median,
                    spread("second_touch_ns").median,
                    spread("resident").median / f64::from(1 << 20)
                );
                line.values.push(faults.median);
                rows.push(json!({
                    "part": part, "policy": name, "seconds": seconds, "faults": faults,
                    "later_faults": spread("later_faults"), "first_touch_ns": spread("first_touch_ns"),
                    "second_touch_ns": spread("second_touch_ns"), "resident": spread("resident"),
                }));
            }
        }
        let labels = PARTS.map(|part| format!("{part} %")).into();
        let axis = Axis { name: "touched", labels, places: PARTS.map(|part| part as f64).into() };
        let title = format!("Page faults, {} MiB allocated", ALLOCATED >> 20);
        write(&out.join("memlock-figure-4.svg"), &chart(&title, &axis, &lines))?;
        Ok(rows.into())
    }

    /// Table 6, huge pages: page faults of memory that is touched whole, with and without them side by side.
    fn huge(&self) -> Result<Value> {
        let path = "/sys/kernel/mm/transparent_hugepage/enabled";
        if fs::read_to_string(path).map_or(true, |setting| setting.contains("[never]")) {
            println!("\nno huge pages here ({path})");
            return Ok(Value::Null);
        }
        println!("\n{} MiB allocated and touched in huge pages (table 6)", ALLOCATED >> 20);
        let bytes = ALLOCATED.to_string();
        let (mut small, mut huge) = (vec![Vec::new(); VARIANTS.len()], vec![Vec::new(); VARIANTS.len()]);
        for _ in 0..self.runs {
            for (index, (_, options)) in VARIANTS.iter().enumerate() {
                small[index].push(finish(self.work(options, &["allocate", &bytes, "100"])?)?);
                huge[index].push(finish(self.work(options, &["allocate", &bytes, "100", "--huge"])?)?);
            }
        }
        let mut rows = Map::new();
        for ((name, _), (small, huge)) in VARIANTS.iter().zip(small.iter().zip(&huge)) {
            let of = |field: &str| [numbers(small, field), numbers(huge, field)];
            let ([many, few], [slow, fast]) = (of("faults"), of("seconds"));
            let (fewer, faster) = (Spread::of_ratios(&many, &few), Spread::of_ratios(&slow, &fast));
            let faults = Spread::of(&few);
            println!("  {name:<10} {:.0} faults, {fewer} times fewer, {faster} times faster", faults.median);
            rows.insert((*name).to_owned(), json!({ "faults": faults, "times_fewer": fewer, "times_faster": faster }));
        }
        Ok(rows.into())
    }

    /// Table 4: threads with large stacks of which they use a tenth.
    fn stacks(&self) -> Result<Value> {
        println!("\n{THREADS} threads, stacks of {} MiB, 1 MiB used (table 4)", LARGE_STACK >> 20);
        let results = self.rounds(&["stacks", &THREADS.to_string(), &LARGE_STACK.to_string()])?;
        let mut rows = Map::new();
        for ((name, _), results) in VARIANTS.iter().zip(&results) {
            let seconds = Spread::of(&numbers(results, "seconds"));
            let resident = Spread::of(&numbers(results, "resident"));
            println!("  {name:<10} {seconds} s, {:.0} MiB", resident.median / f64::from(1 << 20));
            rows.insert((*name).to_owned(), json!({ "seconds": seconds, "resident": resident }));
        }
        Ok(rows.into())
    }

    /// Table 5 and figure 3: threads a second, in several processes side by side; `future` also with small stacks.
    fn threads(&self, out: &Path) -> Result<Value> {
        println!("\nthreads a second in all, stacks of {} MiB (table 5)", STACK >> 20);
        let variants = [VARIANTS[0], VARIANTS[1], VARIANTS[2], ("future, 256 KiB stacks", VARIANTS[2].1)];
        let mut lines = variants.map(|(name, _)| Line { name: name.to_owned(), values: Vec::new() });
        let mut rows = Vec::new();
        for processes in PROCESSES {
            let mut rates = vec![Vec::new(); variants.len()];
            for _ in 0..self.runs {
                for (index, (_, options)) in variants.iter().enumerate() {
                    let stack = if index == 3 { SMALL_STACK } else { STACK };
                    rates[index].push(self.side_by_side(processes, options, stack)?);
                }
            }
            for (index, (name, _)) in variants.iter().enumerate() {
                let (rate, ratio) = (Spread::of(&rates[index]), Spread::of_ratios(&rates[index], &rates[0]));
                println!("  {processes:>2} processes  {name:<24} {:>8.0}, to unlocked {ratio}", rate.median);
                lines[index].values.push(rate.median);
                let to_future = (index == 3).then(|| Spread::of_ratios(&rates[3], &rates[2]));
                rows.push(json!({
                    "processes": processes, "variant": name, "per_second": rate, "to_unlocked": ratio,
                    "to_plain_future": to_future,
                }));
            }
        }
        let labels = PROCESSES.map(|count| count.to_string()).into();
        let places = PROCESSES.map(|count| (count as f64).log2()).into();
        let figure = chart("Threads a second", &Axis { name: "processes side by side", labels, places }, &lines);
        write(&out.join("memlock-figure-3.svg"), &figure)?;
        Ok(rows.into())
    }

    /// What starting a program locked takes longer than starting it by `memlock run --policy none`.
    fn launch(&self) -> Result<Value> {
        let mut seconds = [const { Vec::new() }; VARIANTS.len()];
        for _ in 0..self.runs.max(5) * 20 {
            for ((_, options), seconds) in VARIANTS.iter().zip(&mut seconds) {
                let start = std::time::Instant::now();
                self.locked(options).arg("true").status()?;
                seconds.push(start.elapsed().as_secs_f64());
            }
        }
        println!("\nstart and end of `true` by memlock run, milliseconds longer than with --policy none");
        let mut rows = Map::new();
        for (index, (name, _)) in VARIANTS.iter().enumerate().skip(1) {
            let pairs = seconds[index].iter().zip(&seconds[0]);
            let longer: Vec<f64> = pairs.map(|(locked, unlocked)| (locked - unlocked) * 1e3).collect();
            println!("  {name:<10} {}", Spread::of(&longer));
            rows.insert((*name).to_owned(), json!(Spread::of(&longer)));
        }
        Ok(rows.into())
    }

    /// Each variant in turn, `runs` times: the objects that the work printed.
    fn rounds(&self, work: &[&str]) -> Result<Vec<Vec<Value>>> {
        let mut results = vec![Vec::new(); VARIANTS.len()];
        for _ in 0..self.runs {
            for (index, (_, options)) in VARIANTS.iter().enumerate() {
                results[index].push(finish(self.work(options, work)?)?);
            }
        }
        Ok(results)
    }

    fn side_by_side(&self, processes: usize, options: &[&str], stack: usize) -> Result<f64> {
        let stack = stack.to_string();
        let work = ["threads", stack.as_str()];
        let children: Vec<Child> = (0..processes).map(|_| self.work(options, &work)).collect::<Result<_>>()?;
        let (mut made, mut begin, mut end) = (0.0, f64::INFINITY, 0.0_f64);
        for child in children {
            let result = finish(child)?;
            let number = |field: &str| result[field].as_f64().context("no number");
            made += number("made")?;
            begin = begin.min(number("begin")?);
            end = end.max(number("end")?);
        }
        Ok(made / (end - begin))
    }

    fn work(&self, options: &[&str], work: &[&str]) -> Result<Child> {
        let mut command = self.locked(options);
        command.arg(&self.touchmark).args(["memlock", "work"]).args(work).stdout(Stdio::piped());
        command.spawn().context("touchmark cannot be started")
    }

    fn locked(&self, options: &[&str]) -> Command {
        let mut command = Command::new(&self.touchmark);
        command.args(["memlock", "run"]).args(options).arg("--").stdin(Stdio::null());
        command
    }
}

fn finish(child: Child) -> Result<Value> {
    let output = child.wait_with_output()?;
    ensure!(output.status.success(), "memlock work ended with {}", output.status);
    serde_json::from_slice(&output.stdout).context("memlock work printed no object")
}

fn numbers(results: &[Value], field: &str) -> Vec<f64> {
    results.iter().filter_map(|result| result[field].as_f64()).collect()
}

fn resident(pid: u32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.split_whitespace().next()?.parse::<u64>().ok().map(|kib| kib * 1024)
}

fn write(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}
