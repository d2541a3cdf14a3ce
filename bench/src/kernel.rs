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
    println!(
        "\nkernel {}: instructions without any protection, and what each protection makes of them",
        kernel.release
    );
    print(&Protections::of(&data)?);
    Ok(json!({ "kernel": kernel.release, "unit": "instructions", "values": data }))
}

/// What was measured under each protection, a list of rounds each.
struct Protections<'a>(Vec<(&'static str, &'a Vec<Value>)>);

impl<'a> Protections<'a> {
    fn of(data: &'a Map<String, Value>) -> Result<Self> {
        let all = data.get("protections").context("the guest reported nothing")?;
        let rounds = |name| Some((name, all.get(name)?.as_array()?));
        let wanted = ["off", "touchmark", "touchmark_uncached", "ima", "fapolicyd"].map(rounds);
        Ok(Self(wanted.into_iter().collect::<Option<_>>().context("a protection was not measured")?))
    }

    /// The figure at this place of each round (a JSON pointer): its median under each protection, if there is one.
    fn medians(&self, place: &str) -> Vec<Option<f64>> {
        let median = |rounds: &Vec<Value>| {
            let values: Vec<_> = rounds.iter().filter_map(|round| round.pointer(place)?.as_f64()).collect();
            (!values.is_empty()).then(|| Spread::of(&values).median)
        };
        self.0.iter().map(|(_, rounds)| median(rounds)).collect()
    }
}

fn print(protections: &Protections<'_>) {
    println!("{:<28} {:>11} {:>10} {:>10} {:>10} {:>10}", "", "off", "touchmark", "uncached", "IMA", "fapolicyd");
    let row = |label: &str, place: &str| {
        let medians = protections.medians(place);
        let Some(Some(off)) = medians.first() else { return };
        print!("{label:<28} {off:>11.0}");
        for other in &medians[1..] {
            match other {
                Some(other) if other / off < 2.0 => print!(" {:>+8.2} %", (other / off - 1.0) * 100.0),
                Some(other) => print!(" {:>8.1} x", other / off),
                None => print!(" {:>10}", "-"),
            }
        }
        println!();
    };
    row("start and end of a program", "/exec");
    row("map a library", "/mmap");
    row("map a file for reading", "/mmap_read");
    row("open a file", "/open");
    for (index, size) in ["64 KiB", "256 KiB", "1 MiB", "4 MiB"].iter().enumerate() {
        row(&format!("first start, {size}"), &format!("/first_exec/{index}"));
    }
    row("first mapping, 64 KiB", "/first_mmap");
    row("first opening, 64 KiB", "/first_open");
    row("S2: ls -Al", "/list");
    row("S2: build, scaled", "/build");
    let names = protections.0[0].1.first().and_then(|round| round["programs"].as_object());
    for name in names.into_iter().flat_map(Map::keys) {
        row(&format!("S0: {name}"), &format!("/programs/{name}"));
    }
}
