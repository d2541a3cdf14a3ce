// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One module a command: its arguments and what it does.

pub(crate) mod admit;
mod changes;
pub(crate) mod doctor;
pub(crate) mod enforce;
pub(crate) mod events;
pub(crate) mod extract;
pub(crate) mod generate;
pub(crate) mod inspect;
pub(crate) mod key;
pub(crate) mod memlock;
pub(crate) mod order;
mod policy;
mod preflight;
pub(crate) mod revoke;
mod revoke_targets;
pub(crate) mod revoked;
pub(crate) mod sign;
pub(crate) mod status;
mod targets;
pub(crate) mod unsign;
pub(crate) mod verify;

use crate::Exit;
use crate::cli::Command;

/// Runs a command.
pub(crate) fn run(command: Command) -> anyhow::Result<Exit> {
    match command {
        Command::Key(args) => key::run(&args),
        Command::Sign(args) => sign::run(&args),
        Command::Verify(args) => verify::run(&args),
        Command::Inspect(args) => inspect::run(&args),
        Command::Extract(args) => extract::run(&args),
        Command::Unsign(args) => unsign::run(&args),
        Command::Enforce(args) => enforce::run(&args),
        Command::Order(args) => order::run(&args),
        Command::Admit(args) => admit::run(&args),
        Command::Revoke(args) => revoke::run(&args),
        Command::Revoked(args) => revoked::run(&args),
        Command::Status(args) => status::run(&args),
        Command::Events(args) => events::run(&args),
        Command::Doctor(args) => doctor::run(&args),
        Command::Memlock(args) => memlock::run(&args),
        Command::Generate(args) => generate::run(&args),
    }
}
