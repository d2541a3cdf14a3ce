// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The command line. Help, manual pages and completions come from these definitions.

use clap::{Parser, Subcommand};

use crate::commands;

/// Run only code that carries your mark.
#[derive(Debug, Parser)]
#[command(name = "touchmark", version, arg_required_else_help = true)]
#[command(after_help = "Exit codes: 0 in order; 1 something is not in order; 2 wrong usage; 3 could not do it.")]
pub struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Make a key to sign with
    Key(commands::key::Args),
    /// Sign files
    Sign(commands::sign::Args),
    /// Check the signatures of files
    Verify(commands::verify::Args),
    /// Show the signatures of a file
    Inspect(commands::inspect::Args),
    /// Write out a signature of a file
    Extract(commands::extract::Args),
    /// Take signatures off files
    Unsign(commands::unsign::Args),
    /// Turn enforcement on, change it or turn it off
    Enforce(commands::enforce::Args),
    /// Allow one change of a locked policy
    Order(commands::order::Args),
    /// Approve files by their embedded or detached signature
    Admit(commands::admit::Args),
    /// Take back what was signed or approved
    Revoke(commands::revoke::Args),
    /// Show what is revoked
    Revoked(commands::revoked::Args),
    /// Show mode, counts and memory of enforcement
    Status(commands::status::Args),
    /// Show what was decided, and why
    Events(commands::events::Args),
    /// Show what this kernel offers, what follows, and how to get what is missing
    Doctor(commands::doctor::Args),
    /// Lock programs in memory, and see what is locked
    Memlock(commands::memlock::Args),
    /// Write manual pages and shell completions
    #[command(hide = true)]
    Generate(commands::generate::Args),
}
