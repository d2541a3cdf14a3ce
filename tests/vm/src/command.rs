// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Running the host's tools, with errors that carry what the tool said.

use std::process::{Command, Output};

use anyhow::{Context, Result, bail};

/// Runs a command to its end and returns its standard output.
///
/// # Errors
/// The command cannot be started, or it exits with another status than 0; the error then names the command, its status
/// and the last lines of what it wrote to standard error.
pub fn run(command: &mut Command) -> Result<String> {
    let output = output(command)?;
    if !output.status.success() {
        bail!("{} ended with {}: {}", describe(command), output.status, last_lines(&output.stderr, 12));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Runs a command to its end, without input unless the caller gave it some, and returns what it wrote and how it ended.
///
/// # Errors
/// The command cannot be started.
pub fn output(command: &mut Command) -> Result<Output> {
    command.output().with_context(|| format!("{} could not be started (is it installed?)", describe(command)))
}

/// The program with its arguments, for messages; cut where it gets long.
fn describe(command: &Command) -> String {
    let mut text = command.get_program().to_string_lossy().into_owned();
    for argument in command.get_args() {
        text.push(' ');
        text.push_str(&argument.to_string_lossy());
    }
    let short: String = text.chars().take(200).collect();
    if short.len() < text.len() { format!("`{short} ...`") } else { format!("`{text}`") }
}

/// The last `count` lines of what a tool wrote.
fn last_lines(bytes: &[u8], count: usize) -> String {
    let text = String::from_utf8_lossy(bytes);
    let lines: Vec<&str> = text.trim_end().lines().collect();
    lines[lines.len().saturating_sub(count)..].join("\n")
}
