// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `touchmark generate`, hidden: manual pages and shell completions, for packages.

use std::fs;
use std::path::PathBuf;

use anyhow::Context;
use clap::{CommandFactory, ValueEnum};
use clap_complete::Shell;

use crate::Exit;
use crate::cli::Cli;

/// Arguments of `touchmark generate`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The folder to write to: man/ and completions/ are made in it
    #[arg(value_name = "DIR")]
    out: PathBuf,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    let (pages, completions) = (args.out.join("man"), args.out.join("completions"));
    let write = || -> std::io::Result<()> {
        fs::create_dir_all(&pages)?;
        fs::create_dir_all(&completions)?;
        clap_mangen::generate_to(Cli::command(), &pages)?;
        for shell in Shell::value_variants() {
            clap_complete::generate_to(*shell, &mut Cli::command(), "touchmark", &completions)?;
        }
        Ok(())
    };
    write().with_context(|| format!("cannot write to {}", args.out.display()))?;
    Ok(Exit::Success)
}
