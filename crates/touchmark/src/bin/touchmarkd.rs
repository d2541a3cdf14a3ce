// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The daemon: admits programs at exec and writes down what the kernel decided.

use std::process::ExitCode;

fn main() -> ExitCode {
    touchmark::daemon::main()
}
