// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Exit codes, all of them. The manual page lists the same.

use std::io;
use std::process::ExitCode;

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// 0: everything asked for is done, or found in order.
    Success,
    /// 1: the command ran, and something it looked at is not in order (unsigned, invalid, not signable, feature missing).
    Findings,
}

/// 2: wrong usage; clap uses the same number.
const USAGE: u8 = 2;
/// 3: the command could not do its work (no permission, no such file, the kernel refuses).
const FAILURE: u8 = 3;

/// Wrong usage that only shows after parsing, such as options that do not go together.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct UsageError(pub(crate) String);

/// Says on standard error what went wrong and picks the code.
pub(crate) fn from(outcome: anyhow::Result<Exit>) -> ExitCode {
    match outcome {
        Ok(Exit::Success) => ExitCode::SUCCESS,
        Ok(Exit::Findings) => ExitCode::from(1),
        // The reader of our output went away (`touchmark events | head`): nothing to tell anyone.
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("touchmark: {error:#}");
            ExitCode::from(if error.is::<UsageError>() { USAGE } else { FAILURE })
        }
    }
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error
        .chain()
        .filter_map(|cause| cause.downcast_ref::<io::Error>())
        .any(|cause| cause.kind() == io::ErrorKind::BrokenPipe)
}
