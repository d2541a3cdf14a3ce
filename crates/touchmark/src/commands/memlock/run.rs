// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `touchmark memlock run`: becomes a program that was not written for it, with its memory locked.

use std::ffi::OsString;

use touchmark_memlock::run::{Choice, Request, run as become_program};

use crate::Exit;

/// Arguments of `touchmark memlock run`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Policies: `onfault` locks each page from its first touch; `future` brings all that is mapped into memory at once, so that \
no access ever waits, and fills memory with what is only reserved; `current` locks what is mapped at the start; `none` \
locks nothing; `auto` is `future` under a real-time scheduling class (chrt), else `onfault`.

touchmark becomes the program: process number, exit status, signals and terminal are the program's own. Exit code 3 and a \
line on standard error mean that it could not be locked, and did not run.")]
pub(crate) struct Args {
    /// What is locked: none, current, future, onfault or auto
    #[arg(long, value_name = "POLICY", default_value = "auto")]
    policy: Choice,
    /// Stacks of threads that ask for no size, such as 256K: under `future` each fills as much memory
    #[arg(long, value_name = "SIZE", value_parser = size)]
    stack: Option<u64>,
    /// Lock what the program starts and forks, too
    #[arg(long)]
    follow: bool,
    /// Let it discard locked memory, which the kernel refuses otherwise: Node and others end themselves without
    #[arg(long)]
    compat: bool,
    /// Run it unlocked, with a warning, if it cannot be locked
    #[arg(long)]
    best_effort: bool,
    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true, value_name = "CMD")]
    command: Vec<OsString>,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    let request = Request {
        command: args.command.clone(),
        choice: args.policy,
        stack: args.stack,
        follow: args.follow,
        compat: args.compat,
        best_effort: args.best_effort,
    };
    match become_program(request, |text| eprintln!("touchmark: {text}"))? {}
}

/// A number of bytes, with `K`, `M` or `G` for powers of 1024.
fn size(text: &str) -> Result<u64, String> {
    let wrong = || format!("expected a size such as 256K or 8M, found `{text}`");
    let digits = text.trim_end_matches(|sign: char| !sign.is_ascii_digit());
    let shift = match &text[digits.len()..] {
        "" => 0,
        "K" | "k" | "KiB" => 10,
        "M" | "m" | "MiB" => 20,
        "G" | "g" | "GiB" => 30,
        _ => return Err(wrong()),
    };
    let number: u64 = digits.parse().map_err(|_| wrong())?;
    number.checked_mul(1 << shift).filter(|bytes| *bytes > 0).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        assert_eq!(["1", "4k", "256K", "8M", "2GiB"].map(size), [1, 4096, 262_144, 8 << 20, 2 << 30].map(Ok));
        for wrong in ["", "K", "0", "-1", "8 MB", "99999999999G", "1.5M", "ü"] {
            assert!(size(wrong).is_err(), "{wrong}");
        }
    }
}
