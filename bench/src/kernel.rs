// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Decisions in the kernel, on a machine whose clock counts instructions (`tests/vm/src/guest/cost.rs`).

use anyhow::{Context, Result, bail};
use serde_json::{Map, Value, json};
use touchmark_vm::protocol::{Outcome, TrialInfo};
use touchmark_vm::{Accel, Contents, Image, Kernel, Options, Programs, Tree, run_trials};

use crate::samples::Spread;

const MODULE: &str = "cost::";

/// Runs the guest's benchmarks on a kernel.
pub(crate) fn measure(kernel: &str) -> Result<Value> {
    let kernel = Kernel::fetch(kernel)?;
    let programs = Programs::build()?;
    let image = Image::build(&Tree::fetch()?, &Contents::new().programs(&programs))?;
    let trials: Vec<TrialInfo> = programs.trials()?.into_iter().filter(|t| t.name.starts_with(MODULE)).collect();
    let options = Options { accel: Accel::Counted, ..Options::default() };
    let mut data = Map::new();
    let mut failure = None;
    run_trials(&kernel, &image, &programs.guest(), &trials, &options, |finished| match finished.outcome {
        Outcome::Passed => data.extend(finished.data),
        Outcome::Skipped { reason: message } | Outcome::Failed { message } => {
            failure = Some(format!("{}: {message}", finished.trial));
        }
    })?;
    if let Some(message) = failure {
        bail!("{message}");
    }
    println!("\nkernel {}, instructions, medians", kernel.release);
    for name in ["exec", "mmap", "open"] {
        let (off, on) = (numbers(&data, name, "off")?, numbers(&data, name, "on")?);
        let added = (Spread::of_ratios(&on, &off).median - 1.0) * 100.0;
        println!(
            "  {name:<6} {:>10.0} off {:>10.0} on   {added:+.2} %",
            Spread::of(&off).median,
            Spread::of(&on).median
        );
    }
    println!("  first start of a program of a size: instructions more than without any check");
    let first = |key| numbers(&data, "first_exec", key);
    let (bytes, off, ours, ima) = (first("bytes")?, first("off")?, first("touchmark")?, first("ima_measure")?);
    for (index, size) in bytes.iter().enumerate() {
        println!(
            "  {size:>9} bytes: touchmark {:>10.0}, IMA {:>10.0}",
            ours[index] - off[index],
            ima[index] - off[index]
        );
    }
    Ok(json!({ "kernel": kernel.release, "unit": "instructions", "values": data }))
}

fn numbers(data: &Map<String, Value>, name: &str, key: &str) -> Result<Vec<f64>> {
    let list = data.get(name).and_then(|value| value.get(key)).and_then(Value::as_array);
    let numbers: Option<Vec<f64>> = list.and_then(|list| list.iter().map(Value::as_f64).collect());
    numbers.filter(|numbers| !numbers.is_empty()).with_context(|| format!("the guest reported no {key} of {name}"))
}
