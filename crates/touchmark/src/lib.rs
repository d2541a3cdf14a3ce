// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The command line tool and the daemon, as a library: arguments, configuration, output, wiring.

mod authority;
pub mod cli;
mod commands;
pub mod daemon;
mod exit;
mod files;
mod keys;
mod progress;
mod report;
mod revocations;
mod state;
mod stop;
mod text;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::Parser;

pub use exit::Exit;

/// Parses the arguments, runs the command, says what went wrong and turns the outcome into an exit code.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    // clap prints its own messages; it exits with 2 for a usage error and 0 for --help.
    let cli = cli::Cli::parse_from(arguments);
    exit::from(commands::run(cli.command))
}
