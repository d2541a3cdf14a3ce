// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What `sign` and `unsign` have in common: the run over the files and the report.

use std::path::Path;

use crate::Exit;
use crate::files::edit::{self, Edited, Report, Run};
use crate::files::identity::Opened;
use crate::files::place::Place;
use crate::progress::Progress;
use crate::report::{self, EditedLine, Lines};
use crate::text::PathText;

/// How the command speaks of its work.
pub(super) struct Words {
    /// On the progress bar.
    pub(super) verb: &'static str,
    /// The status of a file that was changed.
    pub(super) done: &'static str,
    /// The status of a file that needed nothing.
    pub(super) untouched: &'static str,
    /// What the summary calls files that failed.
    pub(super) not_done: &'static str,
    /// Whether to list the files that succeed for people, too.
    pub(super) list: bool,
}

#[derive(Default)]
struct Counts {
    done: u64,
    untouched: u64,
    failed: u64,
    skipped: u64,
    /// Of those done.
    modules: u64,
}

/// Does the work and reports it.
pub(super) fn run(
    run: &Run<'_>,
    json: bool,
    words: &Words,
    work: impl Fn(&Opened, &[Place], &mut [u8]) -> Edited + Sync,
) -> anyhow::Result<Exit> {
    let mut lines = Lines::new(json, Progress::new(words.verb, run.selection, run.stop));
    let mut counts = Counts::default();
    edit::run(run, work, |report| tell(&report, words, &mut counts, &mut lines))?;
    lines.end(&counts.summary(words))?;
    Ok(if counts.failed == 0 { Exit::Success } else { Exit::Findings })
}

fn tell(report: &Report<'_>, words: &Words, counts: &mut Counts, lines: &mut Lines) -> anyhow::Result<()> {
    let (path, status, edited, reason): (&Path, _, _, _) = match report {
        Report::Edited(path, edited) => {
            lines.progress.add(edited.size);
            let status = match (edited.reason(), edited.containers.is_empty()) {
                (Some(_), _) => "error",
                (None, true) => words.untouched,
                (None, false) => words.done,
            };
            (path, status, Some(*edited), edited.reason())
        }
        Report::Skipped(path, reason) => (path, "skipped", None, Some(reason.clone())),
        Report::Failed(path, error) => (path, "error", None, Some(error.to_string())),
    };
    let containers = edited.map_or(&[][..], |edited| &edited.containers);
    *counts.of(status, words) += 1;
    counts.modules += u64::from(edited.is_some_and(|edited| edited.signed_module && status == words.done));
    lines.object(&EditedLine { path: PathText::new(path), status, containers, reason: reason.clone() })?;
    match reason {
        Some(reason) if status == "error" => lines.failure(path, &reason),
        None if words.list && status == words.done => {
            let names: Vec<_> = containers.iter().map(ToString::to_string).collect();
            lines.line(path, &format!("{}: {}", words.done, names.join(", ")))?;
        }
        _ => {}
    }
    Ok(())
}

impl Counts {
    fn of(&mut self, status: &str, words: &Words) -> &mut u64 {
        match status {
            "error" => &mut self.failed,
            "skipped" => &mut self.skipped,
            status if status == words.untouched => &mut self.untouched,
            _ => &mut self.done,
        }
    }

    fn summary(&self, words: &Words) -> String {
        let Self { done, untouched, failed, skipped, modules } = self;
        let mut text = format!("{}: {done} {}", report::files(done + untouched + failed), words.done);
        for (number, word) in [(untouched, words.untouched), (failed, words.not_done), (skipped, "left alone")] {
            if *number > 0 {
                text.push_str(&format!(", {number} {word}"));
            }
        }
        if *modules > 0 {
            text.push_str(&format!(" ({modules} kernel modules, not inside, to keep the kernel's own signature)"));
        }
        text
    }
}
