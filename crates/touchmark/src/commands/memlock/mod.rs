// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `touchmark memlock`: programs kept in memory.

mod run;
mod status;

use crate::Exit;

/// Arguments of `touchmark memlock`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: MemlockCommand,
}

#[derive(Debug, clap::Subcommand)]
enum MemlockCommand {
    /// Run a program with its memory locked, without changing it
    Run(run::Args),
    /// Show what of a process is locked, and what is really in memory
    Status(status::Args),
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    match &args.command {
        MemlockCommand::Run(args) => run::run(args),
        MemlockCommand::Status(args) => status::run(args),
    }
}
