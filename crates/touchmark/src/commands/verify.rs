// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `touchmark verify`: checks the signatures of files.

use std::path::{Path, PathBuf};

use serde::Serialize;
use touchmark_sign::certificate::Trust;

use super::targets::Targets;
use crate::files::check::{Checked, Status, check};
use crate::files::container::Container;
use crate::files::scan::{BUFFER, ScanError};
use crate::files::walk::Found;
use crate::files::{self, ordered};
use crate::progress::Progress;
use crate::report::{self, Lines};
use crate::stop::Stop;
use crate::text::PathText;
use crate::{Exit, keys};

/// Arguments of `touchmark verify`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
A file is valid if it has a signature and every signature it has holds: the one inside it (ELF), the one in its \
attribute user.touchmark, the one in FILE.touchmark beside it. Only what is not valid is named; --verbose names all. \
In folders, FIFOs, sockets and devices are left alone.

Exit codes: 0 all valid; 1 something is unsigned, invalid or unreadable; 2 wrong usage; 3 could not do it.")]
pub(crate) struct Args {
    /// Trust signatures by this certificate (PEM, may hold several)
    #[arg(long, value_name = "FILE", required = true)]
    cert: Vec<PathBuf>,
    /// Name the valid files, too
    #[arg(short, long)]
    verbose: bool,
    #[command(flatten)]
    targets: Targets,
}

/// One line of `--json`.
#[derive(Debug, Serialize)]
struct Line<'a> {
    #[serde(flatten)]
    path: PathText,
    status: Status,
    /// Why it is not valid.
    reason: Option<String>,
    /// The containers that are there, separated by commas.
    container: Option<String>,
    /// Who signed, if the status is valid.
    signer: Option<&'a str>,
    /// Each container by itself.
    containers: Vec<ContainerLine<'a>>,
}

#[derive(Debug, Serialize)]
struct ContainerLine<'a> {
    container: Container,
    status: Status,
    reason: Option<String>,
    signer: Option<&'a str>,
}

#[derive(Default)]
struct Counts {
    valid: u64,
    unsigned: u64,
    invalid: u64,
    errors: u64,
    skipped: u64,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    let trust = Trust::new(keys::read_certificates(&args.cert)?);
    let selection = args.targets.selection(false)?;
    let stop = Stop::on_signals()?;
    files::raise_open_files();
    let mut lines = Lines::new(args.targets.json, Progress::new("verifying", &selection));
    let mut counts = Counts::default();
    let found = selection.walk().take_while(|_| !stop.is_set());
    let look = |buffer: &mut Vec<u8>, found| match found {
        Found::File(place) => {
            let outcome = check(&place, &trust, buffer, &stop);
            Some((place.path(), outcome))
        }
        Found::Skipped(..) => None,
        Found::Failed(path, error) => Some((path, Err(ScanError::Open(error)))),
    };
    ordered::run(
        args.targets.jobs(),
        found,
        || vec![0; BUFFER],
        look,
        |seen| match seen {
            Some((path, outcome)) => tell(&path, &outcome, args.verbose, &mut counts, &mut lines),
            None => {
                counts.skipped += 1;
                anyhow::Ok(())
            }
        },
    )?;
    stop.check()?;
    lines.end(&counts.summary())?;
    Ok(if counts.unsigned + counts.invalid + counts.errors == 0 { Exit::Success } else { Exit::Findings })
}

fn tell(
    path: &Path,
    outcome: &Result<Checked, ScanError>,
    verbose: bool,
    counts: &mut Counts,
    lines: &mut Lines,
) -> anyhow::Result<()> {
    let line = match outcome {
        Ok(checked) => describe(path, checked),
        Err(error) => Line::error(path, error),
    };
    *counts.of(line.status) += 1;
    lines.progress.add(outcome.as_ref().map_or(0, |checked| checked.size));
    lines.object(&line)?;
    match (line.status, &line.reason) {
        (Status::Valid, _) if verbose => {
            lines.line(
                path,
                &format!("valid: {}, {}", line.container.unwrap_or_default(), line.signer.unwrap_or_default()),
            )?;
        }
        (Status::Valid, _) => {}
        (Status::Unsigned, _) => lines.line(path, "unsigned")?,
        (Status::Invalid, reason) => {
            lines.line(path, &format!("invalid: {}", reason.as_deref().unwrap_or_default()))?
        }
        (Status::Error, reason) => lines.line(path, &format!("error: {}", reason.as_deref().unwrap_or_default()))?,
    }
    Ok(())
}

fn describe<'a>(path: &Path, checked: &'a Checked) -> Line<'a> {
    let containers: Vec<_> = checked
        .findings
        .iter()
        .map(|finding| ContainerLine {
            container: finding.container,
            status: if finding.outcome.is_ok() { Status::Valid } else { Status::Invalid },
            reason: finding.outcome.as_ref().err().map(ToString::to_string),
            signer: finding.outcome.as_deref().ok(),
        })
        .collect();
    let names: Vec<_> = containers.iter().map(|line| line.container.to_string()).collect();
    let status = checked.status();
    Line {
        path: PathText::new(path),
        status,
        reason: if status == Status::Unsigned { Some("not signed".to_owned()) } else { checked.reason() },
        container: (!names.is_empty()).then(|| names.join(",")),
        signer: if status == Status::Valid { containers.first().and_then(|line| line.signer) } else { None },
        containers,
    }
}

impl Line<'_> {
    fn error(path: &Path, error: &ScanError) -> Self {
        Self {
            path: PathText::new(path),
            status: Status::Error,
            reason: Some(error.to_string()),
            container: None,
            signer: None,
            containers: Vec::new(),
        }
    }
}

impl Counts {
    fn of(&mut self, status: Status) -> &mut u64 {
        match status {
            Status::Valid => &mut self.valid,
            Status::Unsigned => &mut self.unsigned,
            Status::Invalid => &mut self.invalid,
            Status::Error => &mut self.errors,
        }
    }

    fn summary(&self) -> String {
        let Self { valid, unsigned, invalid, errors, skipped } = self;
        let total = report::files(valid + unsigned + invalid + errors);
        let mut text = format!("{total}: {valid} valid");
        for (number, word) in
            [(unsigned, "unsigned"), (invalid, "invalid"), (errors, "not readable"), (skipped, "left alone")]
        {
            if *number > 0 {
                text.push_str(&format!(", {number} {word}"));
            }
        }
        text
    }
}
