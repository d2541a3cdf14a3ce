// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One module a command: its arguments and what it does.

pub(crate) mod admit;
pub(crate) mod doctor;
pub(crate) mod enforce;
pub(crate) mod events;
mod preflight;
pub(crate) mod status;

use crate::Exit;
use crate::cli::Command;

/// Runs a command.
pub(crate) fn run(command: Command) -> anyhow::Result<Exit> {
    match command {
        Command::Enforce(args) => enforce::run(&args),
        Command::Admit(args) => admit::run(&args),
        Command::Status(args) => status::run(&args),
        Command::Events(args) => events::run(&args),
        Command::Doctor(args) => doctor::run(&args),
    }
}
