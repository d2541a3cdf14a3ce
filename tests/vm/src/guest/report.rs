// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Sending events to the host.

use std::fs::File;
use std::io::Write;
use std::sync::Mutex;

use anyhow::{Context, Result};
use serde::Serialize;
use touchmark_vm::protocol::Event;

/// The second serial port, which the host reads.
const PORT: &str = "/dev/ttyS1";
/// Where a trial's process puts the values it reports, one JSON array a line.
pub(crate) const DATA: &str = "/run/touchmark-vm/data";

/// Sends an event. What goes wrong is written to the console: there is nobody else to tell.
pub(crate) fn send(event: &Event) {
    static OPEN: Mutex<Option<File>> = Mutex::new(None);
    let sent = (|| -> Result<()> {
        let mut port = OPEN.lock().ok().context("a thread panicked while it sent an event")?;
        if port.is_none() {
            *port = Some(File::options().write(true).open(PORT)?);
        }
        let mut line = serde_json::to_vec(event)?;
        line.push(b'\n');
        Ok(port.as_mut().context("the port is open")?.write_all(&line)?)
    })();
    if let Err(error) = sent {
        eprintln!("touchmark-vm-guest: {event:?} could not be sent: {error:#}");
    }
}

/// Reports a value from a trial to the host.
pub(crate) fn value(key: &str, value: impl Serialize) -> Result<()> {
    let line = serde_json::to_string(&(key, value))?;
    writeln!(File::options().append(true).create(true).open(DATA)?, "{line}").context("the value cannot be kept")
}
