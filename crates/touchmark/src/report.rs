// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Lines about files: for people, or JSON, one object a line.

use std::io::{self, BufWriter, StdoutLock, Write};
use std::path::Path;

use serde::Serialize;

use crate::files::container::Container;
use crate::progress::Progress;
use crate::text::{PathText, printable};

/// Writes what is found to standard output, around the progress bar.
pub(crate) struct Lines {
    json: bool,
    out: BufWriter<StdoutLock<'static>>,
    /// What shows how far the command is.
    pub(crate) progress: Progress,
}

impl Lines {
    /// JSON, or lines for people.
    pub(crate) fn new(json: bool, progress: Progress) -> Self {
        Self { json, out: BufWriter::new(io::stdout().lock()), progress }
    }

    /// Writes a JSON object, if JSON is wanted.
    pub(crate) fn object(&mut self, object: &impl Serialize) -> io::Result<()> {
        if !self.json {
            return Ok(());
        }
        serde_json::to_writer(&mut self.out, object)?;
        self.out.write_all(b"\n")?;
        self.settle()
    }

    /// Writes a line for people to standard output, if no JSON is wanted.
    pub(crate) fn line(&mut self, path: &Path, text: &str) -> io::Result<()> {
        if self.json {
            return Ok(());
        }
        writeln!(self.out, "{}: {}", printable(path), printable(text))?;
        self.settle()
    }

    /// Names a failure on standard error; JSON has it in the object.
    pub(crate) fn failure(&mut self, path: &Path, text: &str) {
        if !self.json {
            self.progress.around(|| eprintln!("touchmark: {}: {}", printable(path), printable(text)));
        }
    }

    /// Writes out what is still in memory, and the summary to standard error.
    pub(crate) fn end(mut self, summary: &str) -> io::Result<()> {
        self.out.flush()?;
        self.progress.end(summary);
        Ok(())
    }

    /// With a bar on the terminal lines cannot wait: it is hidden while they are written.
    fn settle(&mut self) -> io::Result<()> {
        if self.progress.is_shown() { self.progress.around(|| self.out.flush()) } else { Ok(()) }
    }
}

/// The JSON object of a file that was, or was to be, changed.
#[derive(Debug, Serialize)]
pub(crate) struct EditedLine<'a> {
    #[serde(flatten)]
    pub(crate) path: PathText,
    pub(crate) status: &'a str,
    /// The containers that were filled, or emptied.
    pub(crate) containers: &'a [Container],
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) reason: Option<String>,
}

/// `1 file`, `2 files`.
pub(crate) fn files(number: u64) -> String {
    if number == 1 { "1 file".to_owned() } else { format!("{number} files") }
}
