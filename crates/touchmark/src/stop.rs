// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Ctrl-C and its like: the work stops at a safe point, and nothing half-done stays behind. At the same points the work
//! tells how far it is.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

/// The command was told to stop.
#[derive(Debug, thiserror::Error)]
#[error("interrupted; every path holds either the whole old file or the whole new one")]
pub(crate) struct Interrupted;

/// Says whether a signal asked the process to stop. A second one ends it at once.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stop {
    asked: Arc<AtomicBool>,
    bytes: Arc<AtomicU64>,
}

impl Stop {
    /// Takes over SIGINT, SIGTERM and SIGHUP.
    pub(crate) fn on_signals() -> io::Result<Self> {
        let stop = Self::default();
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            // The order matters: the second signal finds the flag already set by the first.
            signal_hook::flag::register_conditional_shutdown(signal, 128 + signal, Arc::clone(&stop.asked))?;
            signal_hook::flag::register(signal, Arc::clone(&stop.asked))?;
        }
        Ok(stop)
    }

    /// Whether to stop.
    pub(crate) fn is_set(&self) -> bool {
        self.asked.load(Ordering::Relaxed)
    }

    /// An error once the process was asked to stop.
    pub(crate) fn check(&self) -> Result<(), Interrupted> {
        if self.is_set() { Err(Interrupted) } else { Ok(()) }
    }

    /// Counts bytes that are done with; an error once the process was asked to stop.
    pub(crate) fn step(&self, bytes: u64) -> Result<(), Interrupted> {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        self.check()
    }

    /// How many bytes were counted.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }
}
