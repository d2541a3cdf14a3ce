// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Keeps a child process: reads what it writes, and never lets it outlive us.
//!
//! The child is started with `setpriv --pdeathsig`, which counts from the death of the *thread* that started it. So one
//! thread of its own starts it and waits for it.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read};
use std::os::fd::OwnedFd;
use std::process::{ChildStderr, ChildStdout, Command};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

/// How much of the console is kept, in bytes.
const CONSOLE: usize = 8 << 10;

/// A line that the child wrote to its standard output.
#[derive(Debug)]
pub(crate) struct Line(pub(crate) String);

/// A child and the threads around it.
#[derive(Debug)]
pub(crate) struct Keeper {
    process: OwnedFd,
    lines: Receiver<Line>,
    ended: Receiver<()>,
    console: Arc<Mutex<VecDeque<u8>>>,
    threads: Vec<JoinHandle<()>>,
}

impl Keeper {
    /// Starts the command; its standard output and error are pipes.
    pub(crate) fn start(mut command: Command) -> Result<Self> {
        let (started, start) = mpsc::channel();
        let (end, ended) = mpsc::channel();
        let waiter = std::thread::spawn(move || {
            let mut child = match command.spawn() {
                Ok(child) => child,
                Err(error) => return drop(started.send(Err(anyhow!(error).context("setpriv could not be started")))),
            };
            let pipes = child.stdout.take().zip(child.stderr.take());
            let process = i32::try_from(child.id()).ok().and_then(Pid::from_raw).context("a child without an id");
            let process = process.and_then(|pid| Ok(pidfd_open(pid, PidfdFlags::empty())?));
            let _ = started.send(process.and_then(|process| Ok((process, pipes.context("a child without pipes")?))));
            let _ = child.wait();
            let _ = end.send(());
        });
        let (process, (stdout, stderr)) = start.recv().context("the keeper of the machine ended")??;
        let (line, lines) = mpsc::channel();
        let console = Arc::new(Mutex::new(VecDeque::new()));
        let tail = Arc::clone(&console);
        let threads = vec![
            waiter,
            std::thread::spawn(move || read_lines(stdout, &line)),
            std::thread::spawn(move || read_console(stderr, &tail)),
        ];
        Ok(Self { process, lines, ended, console, threads })
    }

    /// What the child writes to its standard output; ends when it does.
    pub(crate) fn lines(&self) -> &Receiver<Line> {
        &self.lines
    }

    /// The end of what it wrote to its standard error.
    pub(crate) fn console(&self) -> String {
        let mut kept = self.console.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(kept.make_contiguous()).trim_end().replace('\r', "")
    }

    /// Waits for its end.
    pub(crate) fn wait(&self, deadline: Duration) -> Result<()> {
        self.ended.recv_timeout(deadline).with_context(|| format!("it still runs after {} s", deadline.as_secs()))
    }

    /// Ends it.
    pub(crate) fn kill(&self) {
        // It may have ended already.
        let _ = pidfd_send_signal(&self.process, Signal::KILL);
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.kill();
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

fn read_lines(stdout: ChildStdout, to: &Sender<Line>) {
    let mut reader = BufReader::new(stdout);
    let mut line = Vec::new();
    while reader.read_until(b'\n', &mut line).is_ok_and(|length| length > 0) {
        if to.send(Line(String::from_utf8_lossy(&line).into_owned())).is_err() {
            return;
        }
        line.clear();
    }
}

/// Keeps the end of the console; with `TOUCHMARK_VM_CONSOLE=1` it is shown as it comes.
fn read_console(mut stderr: ChildStderr, kept: &Mutex<VecDeque<u8>>) {
    let show = std::env::var_os("TOUCHMARK_VM_CONSOLE").is_some_and(|value| value == "1");
    let mut buffer = [0; 1024];
    while let Ok(length @ 1..) = stderr.read(&mut buffer) {
        if show {
            eprint!("{}", String::from_utf8_lossy(&buffer[..length]));
        }
        let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.extend(&buffer[..length]);
        let excess = kept.len().saturating_sub(CONSOLE);
        kept.drain(..excess);
    }
}
