// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How far a long run is: a bar with rate and remaining time on a terminal, else a plain line now and then.

use std::io::{self, IsTerminal};
use std::thread;
use std::time::{Duration, Instant};

use indicatif::{HumanBytes, ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::files::walk::{Found, Selection};

/// Short runs show nothing.
const SHOW_AFTER: Duration = Duration::from_secs(1);
/// How often a plain line is written.
const LINE_EVERY: Duration = Duration::from_secs(10);

const BAR: &str = "{msg} [{bar:30}] {bytes}/{total_bytes}, {bytes_per_sec}, {eta} left";
const NO_TOTAL: &str = "{msg} {bytes}, {bytes_per_sec}";

/// Counts files and bytes, and shows them.
pub(crate) struct Progress {
    verb: &'static str,
    selection: Selection,
    started: Instant,
    last_line: Instant,
    files: u64,
    bytes: u64,
    terminal: bool,
    bar: Option<ProgressBar>,
}

impl Progress {
    /// Nothing done yet. `verb` says what is done to the files, as in `signing`.
    pub(crate) fn new(verb: &'static str, selection: &Selection) -> Self {
        let now = Instant::now();
        Self {
            verb,
            // Only counted: nothing is removed.
            selection: Selection { tidy: false, ..selection.clone() },
            started: now,
            last_line: now,
            files: 0,
            bytes: 0,
            terminal: io::stderr().is_terminal(),
            bar: None,
        }
    }

    /// One more file, of that size.
    pub(crate) fn add(&mut self, size: u64) {
        self.files += 1;
        self.bytes += size;
        match &self.bar {
            Some(bar) => bar.set_position(self.bytes),
            None if self.terminal && self.started.elapsed() >= SHOW_AFTER => self.show(),
            None if !self.terminal && self.last_line.elapsed() >= LINE_EVERY => {
                self.last_line = Instant::now();
                eprintln!("touchmark: {} ... {}", self.verb, self.so_far());
            }
            None => {}
        }
    }

    /// Whether the bar is on the terminal.
    pub(crate) fn is_shown(&self) -> bool {
        self.bar.is_some()
    }

    /// Does something with the terminal while the bar is out of the way.
    pub(crate) fn around<T>(&self, act: impl FnOnce() -> T) -> T {
        match &self.bar {
            Some(bar) => bar.suspend(act),
            None => act(),
        }
    }

    /// Takes the bar away and writes the summary, with size and time, to standard error.
    pub(crate) fn end(self, summary: &str) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
        let seconds = self.started.elapsed().as_secs_f64();
        eprintln!("touchmark: {summary} ({} in {seconds:.1} s)", HumanBytes(self.bytes));
    }

    fn so_far(&self) -> String {
        let rate = self.bytes as f64 / self.started.elapsed().as_secs_f64();
        // A rate is shown with three digits.
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturates, and is never negative")]
        let rate = HumanBytes(rate as u64);
        format!("{}, {}, {rate}/s", crate::report::files(self.files), HumanBytes(self.bytes))
    }

    fn show(&mut self) {
        let bar =
            ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr()).with_elapsed(self.started.elapsed());
        bar.set_message(self.verb);
        if let Ok(style) = ProgressStyle::with_template(NO_TOTAL) {
            bar.set_style(style);
        }
        bar.set_position(self.bytes);
        bar.enable_steady_tick(Duration::from_millis(200));
        let (counted, selection) = (bar.clone(), self.selection.clone());
        // Not joined: when the run ends first, nobody needs the total.
        thread::spawn(move || {
            counted.set_length(total(&selection));
            if let Ok(style) = ProgressStyle::with_template(BAR) {
                counted.set_style(style);
            }
        });
        self.bar = Some(bar);
    }
}

/// The size of all files, in bytes, without opening them.
fn total(selection: &Selection) -> u64 {
    let size = |found| match found {
        Found::File(place) => place.stat().map_or(0, |stat| u64::try_from(stat.st_size).unwrap_or(0)),
        _ => 0,
    };
    selection.walk().map(size).sum()
}
