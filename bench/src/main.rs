// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What each protection costs: everything is measured beside what it is compared with, in one interleaved run.

mod advise;
mod files;
mod kernel;
mod machine;
mod memlock;
mod programs;
mod run;
mod samples;
mod svg;

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::{Parser, ValueEnum};
use serde_json::{Value, json};

/// Measure what Touchmark costs; results as JSON, and a table on standard output.
#[derive(Debug, Parser)]
struct Arguments {
    /// What to measure
    #[arg(value_enum)]
    what: What,
    /// The folder for the results
    #[arg(long, default_value = "build/bench")]
    out: PathBuf,
    /// Interleaved runs of each command
    #[arg(long, default_value_t = 7)]
    runs: usize,
    /// The kernel whose decisions are counted: 6.1, 6.12 or newest
    #[arg(long, default_value = "6.12")]
    kernel: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum What {
    /// Signing and verifying files, beside openssl and evmctl
    Files,
    /// Decisions in the kernel, in instructions
    Kernel,
    /// Locking programs in memory: S1's tables and figures
    Memlock,
    /// What `memlock advise` predicts and recommends, beside what is measured, for some 35 real programs
    Advise,
    /// All of them
    All,
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    fs::create_dir_all(&arguments.out).with_context(|| format!("cannot make {}", arguments.out.display()))?;
    let machine = machine::describe();
    println!("{machine}");
    let wanted = |what| arguments.what == what || arguments.what == What::All;
    if wanted(What::Files) {
        save(&arguments, "files", &machine, files::measure(arguments.runs, &arguments.out)?)?;
    }
    if wanted(What::Memlock) {
        save(&arguments, "memlock", &machine, memlock::measure(arguments.runs, &arguments.out)?)?;
    }
    if wanted(What::Advise) {
        save(&arguments, "advise", &machine, advise::measure()?)?;
    }
    if wanted(What::Kernel) {
        save(&arguments, "kernel", &machine, kernel::measure(&arguments.kernel)?)?;
    }
    Ok(())
}

fn save(arguments: &Arguments, name: &str, machine: &str, results: Value) -> Result<()> {
    let path = arguments.out.join(format!("{name}.json"));
    let text = serde_json::to_string_pretty(&json!({ "machine": machine, "results": results }))?;
    fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))
}
