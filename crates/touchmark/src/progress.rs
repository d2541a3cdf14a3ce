// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How far a long run is: a bar with rate and remaining time on a terminal, else a plain line now and then.

use std::io::{self, IsTerminal};
use std::sync::{Arc, Condvar, Mutex, OnceLock, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use indicatif::{HumanBytes, ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::files::walk::{Found, Selection};
use crate::stop::Stop;

/// Short runs show nothing.
const SHOW_AFTER: Duration = Duration::from_secs(1);
/// How often the bar moves.
const MOVE_EVERY: Duration = Duration::from_millis(200);
/// How often a plain line is written.
const LINE_EVERY: Duration = Duration::from_secs(10);

const BAR: &str = "{msg} [{bar:30}] {bytes}/{total_bytes}, {bytes_per_sec}, {eta} left";
const NO_TOTAL: &str = "{msg} {bytes}, {bytes_per_sec}";

/// Shows how far the work is, from a thread of its own: one large file must not stop the bar.
pub(crate) struct Progress {
    shared: Arc<Shared>,
    watcher: Option<JoinHandle<()>>,
    bytes: u64,
}

struct Shared {
    verb: &'static str,
    selection: Selection,
    /// Counts what was read.
    stop: Stop,
    started: Instant,
    bar: OnceLock<ProgressBar>,
    over: Mutex<bool>,
    ended: Condvar,
}

impl Progress {
    /// Nothing done yet. `verb` says what is done to the files, as in `signing`; `stop` counts the bytes.
    pub(crate) fn new(verb: &'static str, selection: &Selection, stop: &Stop) -> Self {
        let shared = Arc::new(Shared {
            verb,
            // Only counted: nothing is removed.
            selection: Selection { tidy: false, ..selection.clone() },
            stop: stop.clone(),
            started: Instant::now(),
            bar: OnceLock::new(),
            over: Mutex::new(false),
            ended: Condvar::new(),
        });
        let watched = Arc::clone(&shared);
        Self { shared, watcher: Some(thread::spawn(move || watched.watch())), bytes: 0 }
    }

    /// One more file is done, of that size.
    pub(crate) fn add(&mut self, size: u64) {
        self.bytes += size;
    }

    /// Whether the bar is on the terminal.
    pub(crate) fn is_shown(&self) -> bool {
        self.shared.bar.get().is_some()
    }

    /// Does something with the terminal while the bar is out of the way.
    pub(crate) fn around<T>(&self, act: impl FnOnce() -> T) -> T {
        match self.shared.bar.get() {
            Some(bar) => bar.suspend(act),
            None => act(),
        }
    }

    /// Takes the bar away and writes the summary, with size and time, to standard error.
    pub(crate) fn end(mut self, summary: &str) {
        self.stop_watching();
        let seconds = self.shared.started.elapsed().as_secs_f64();
        eprintln!("touchmark: {summary} ({} in {seconds:.1} s)", HumanBytes(self.bytes));
    }

    fn stop_watching(&mut self) {
        *self.shared.over.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.shared.ended.notify_all();
        if let Some(watcher) = self.watcher.take() {
            // It panics only if the terminal does; the work is done.
            let _ = watcher.join();
        }
        if let Some(bar) = self.shared.bar.get() {
            bar.finish_and_clear();
        }
    }
}

impl Drop for Progress {
    /// An error ends the run: its message must not stand behind a bar.
    fn drop(&mut self) {
        self.stop_watching();
    }
}

impl Shared {
    fn watch(&self) {
        let terminal = io::stderr().is_terminal();
        let mut patience = if terminal { SHOW_AFTER } else { LINE_EVERY };
        while !self.wait(patience) {
            if terminal {
                let bar = self.bar.get_or_init(|| self.show());
                bar.set_position(self.stop.bytes());
                patience = MOVE_EVERY;
            } else {
                eprintln!("touchmark: {} ... {}", self.verb, self.so_far());
            }
        }
    }

    /// Whether the run ended meanwhile.
    fn wait(&self, patience: Duration) -> bool {
        let over = self.over.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.ended.wait_timeout_while(over, patience, |over| !*over);
        *waited.unwrap_or_else(PoisonError::into_inner).0
    }

    fn so_far(&self) -> String {
        let bytes = self.stop.bytes();
        let rate = u128::from(bytes) * 1000 / self.started.elapsed().as_millis().max(1);
        format!("{}, {}/s", HumanBytes(bytes), HumanBytes(u64::try_from(rate).unwrap_or(u64::MAX)))
    }

    fn show(&self) -> ProgressBar {
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr())
            .with_message(self.verb)
            .with_elapsed(self.started.elapsed());
        let style = |bar: &ProgressBar, template| {
            if let Ok(style) = ProgressStyle::with_template(template) {
                bar.set_style(style);
            }
        };
        style(&bar, NO_TOTAL);
        let (counted, selection) = (bar.clone(), self.selection.clone());
        // Not joined: when the run ends first, nobody needs the total.
        thread::spawn(move || {
            let total = total(&selection);
            style(&counted, BAR);
            counted.set_length(total);
        });
        bar
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
