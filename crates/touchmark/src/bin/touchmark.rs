// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What people type.

use std::process::ExitCode;

fn main() -> ExitCode {
    touchmark::run(std::env::args_os())
}
