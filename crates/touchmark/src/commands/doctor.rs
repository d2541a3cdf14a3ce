// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `touchmark doctor`: what this kernel offers, what follows, and how to get what is missing.

use std::io::{self, Write};

use touchmark_enforce::probe::{self, Feature, State};

use crate::Exit;

/// Arguments of `touchmark doctor`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Exit code 0: this machine can enforce; 1: something that is needed is missing or unknown.")]
pub(crate) struct Args {
    /// One JSON object a line
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    let features = probe::features();
    let mut out = io::stdout().lock();
    for feature in &features {
        if args.json {
            writeln!(out, "{}", json(feature))?;
        } else {
            print(&mut out, feature)?;
        }
    }
    let able = features.iter().all(|feature| !feature.required || feature.state == State::Available);
    if !args.json {
        let release = rustix::system::uname();
        let release = release.release().to_string_lossy().into_owned();
        let verdict = if able { "can enforce" } else { "cannot enforce yet, or that could not be found out" };
        writeln!(out, "kernel {release} {verdict}")?;
    }
    Ok(if able { Exit::Success } else { Exit::Findings })
}

fn word(state: State) -> &'static str {
    match state {
        State::Available => "yes",
        State::Missing => "no",
        State::Unknown => "unknown",
    }
}

fn json(feature: &Feature) -> serde_json::Value {
    serde_json::json!({
        "name": feature.name,
        "state": word(feature.state),
        "required": feature.required,
        "found": feature.found,
        "consequence": feature.consequence,
        "remedy": feature.remedy,
    })
}

fn print(out: &mut impl Write, feature: &Feature) -> io::Result<()> {
    let kind = if feature.required { "needed" } else { "optional" };
    writeln!(out, "{:<8} {} ({kind})", word(feature.state), feature.name)?;
    writeln!(out, "         found: {}", feature.found)?;
    writeln!(out, "         {}", feature.consequence)?;
    if feature.state != State::Available {
        writeln!(out, "         to get it: {}", feature.remedy)?;
    }
    Ok(())
}
