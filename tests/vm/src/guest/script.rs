// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Running a command of the disk with its output streamed to the host, or a shell on the console.

use std::fs::File;
use std::io::Read;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use anyhow::{Context, Result};
use touchmark_vm::protocol::Event;

use crate::report;

/// Runs a command; its output and errors go to the host in the order written.
pub(crate) fn run(command: &[String]) -> Result<()> {
    let (program, arguments) = command.split_first().context("an empty command")?;
    let (reader, writer) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
    let mut child = Command::new(program)
        .args(arguments)
        .current_dir("/root")
        .stdin(Stdio::null())
        .stdout(writer.try_clone()?)
        .stderr(writer)
        .spawn()
        .with_context(|| format!("{program} could not be started"))?;
    let (end, ended) = mpsc::channel();
    std::thread::spawn(move || {
        stream(File::from(reader));
        let _ = end.send(());
    });
    let status = child.wait()?;
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal)).unwrap_or(1);
    // Daemons that the command left behind keep the pipe open for ever: what it wrote itself is through by then.
    let _ = ended.recv_timeout(Duration::from_secs(1));
    report::send(&Event::Exit { code });
    Ok(())
}

/// A shell on the console until it ends.
pub(crate) fn shell() -> Result<()> {
    let console = || File::options().read(true).write(true).open("/dev/ttyS0");
    Command::new("setsid")
        .args(["--ctty", "--wait", "bash", "--login"])
        .current_dir("/root")
        .stdin(console()?)
        .stdout(console()?)
        .stderr(console()?)
        .status()
        .context("the shell could not be started")?;
    Ok(())
}

/// Sends what comes as it comes; only the first bytes of a character wait for its others.
fn stream(mut from: File) {
    let mut pending = Vec::new();
    let mut buffer = [0; 4096];
    while let Ok(length @ 1..) = from.read(&mut buffer) {
        pending.extend_from_slice(&buffer[..length]);
        let whole = match std::str::from_utf8(&pending) {
            Err(error) if error.error_len().is_none() => error.valid_up_to(),
            _ => pending.len(),
        };
        let text = String::from_utf8_lossy(&pending[..whole]).into_owned();
        pending.drain(..whole);
        if !text.is_empty() {
            report::send(&Event::Output { text });
        }
    }
}
