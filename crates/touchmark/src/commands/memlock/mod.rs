// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `touchmark memlock`: programs kept in memory.

mod advise;
mod run;
mod status;
mod work;

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
    /// Try a program under each policy, and recommend one
    Advise(advise::Args),
    /// Do work that shows what locking costs
    #[command(hide = true)]
    Work(work::Args),
    /// Show what of a process is locked, and what is really in memory
    Status(status::Args),
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    match &args.command {
        MemlockCommand::Run(args) => run::run(args),
        MemlockCommand::Advise(args) => advise::run(args),
        MemlockCommand::Work(args) => work::run(args),
        MemlockCommand::Status(args) => status::run(args),
    }
}
