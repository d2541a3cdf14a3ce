// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `touchmark verify`: checks the signatures of files.

use std::io;
use std::path::{Path, PathBuf};

use serde::Serialize;
use touchmark_sign::certificate::Trust;

use super::targets::Targets;
use crate::authority::Authority;
use crate::files::check::{Checked, Status, check};
use crate::files::container::Container;
use crate::files::scan::{BUFFER, ScanError};
use crate::files::walk::Found;
use crate::files::{self, ordered};
use crate::progress::Progress;
use crate::report::{self, Lines};
use crate::stop::Stop;
use crate::text::PathText;
use crate::{Exit, keys, revocations};

/// Arguments of `touchmark verify`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
A file is valid if it has a signature and every signature it has holds: the one inside it (ELF), the one in its \
attribute user.touchmark, the one in FILE.touchmark beside it; and if nothing of it is revoked. Only what is not valid is named; --verbose names all. \
In folders, FIFOs, sockets and devices are left alone.

Exit codes: 0 all valid; 1 something is unsigned, invalid, revoked or unreadable; 2 wrong usage; 3 could not do it.")]
pub(crate) struct Args {
    /// Trust signatures by this certificate (PEM, may hold several)
    #[arg(long, value_name = "FILE", required = true)]
    cert: Vec<PathBuf>,
    /// Respect this revocation list, signed by one of the certificates [default: this machine's, if so signed]
    #[arg(long, value_name = "FILE")]
    revocations: Option<PathBuf>,
    /// Name the valid files, too
    #[arg(short, long)]
    verbose: bool,
    #[command(flatten)]
    targets: Targets,
}

/// One line of `--json`.
#[derive(Debug, Serialize)]
struct Line {
    #[serde(flatten)]
    path: PathText,
    status: Status,
    /// Why it is not valid.
    reason: Option<String>,
    /// The containers that are there, separated by commas.
    container: Option<String>,
    /// Who signed, if the status is valid.
    signer: Option<String>,
    /// Each container by itself.
    containers: Vec<ContainerLine>,
}

#[derive(Debug, Serialize)]
struct ContainerLine {
    container: Container,
    status: Status,
    reason: Option<String>,
    signer: Option<String>,
}

#[derive(Default)]
struct Counts {
    valid: u64,
    unsigned: u64,
    invalid: u64,
    revoked: u64,
    errors: u64,
    skipped: u64,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    let authority =
        revocations::for_verification(Trust::new(keys::read_certificates(&args.cert)?), args.revocations.as_deref())?;
    let selection = args.targets.selection(false)?;
    let stop = Stop::on_signals()?;
    files::raise_open_files();
    let mut lines = Lines::new(args.targets.json, Progress::new("verifying", &selection, &stop));
    let mut counts = Counts::default();
    let found = selection.walk().take_while(|_| !stop.is_set());
    let look = |buffer: &mut Vec<u8>, found| match found {
        Found::File(place) => {
            let outcome = check(&place, &authority, buffer, &stop);
            Some((place.path(), outcome))
        }
        Found::Skipped(..) => None,
        Found::Failed(path, error) => Some((path, Err(ScanError::Open(error)))),
    };
    let tell = |seen: Option<(PathBuf, Result<Checked, ScanError>)>| -> anyhow::Result<()> {
        let Some((path, outcome)) = seen else {
            counts.skipped += 1;
            return Ok(());
        };
        let status = outcome.as_ref().map_or(Status::Error, Checked::status);
        *counts.of(status) += 1;
        lines.progress.add(outcome.as_ref().map_or(0, |checked| checked.size));
        if status != Status::Valid || args.verbose || args.targets.json {
            Line::new(&path, &outcome, &authority).write(&path, &mut lines)?;
        }
        Ok(())
    };
    ordered::run(args.targets.jobs(), found, || vec![0; BUFFER], look, tell)?;
    stop.check()?;
    lines.end(&counts.summary())?;
    Ok(if counts.unsigned + counts.invalid + counts.revoked + counts.errors == 0 {
        Exit::Success
    } else {
        Exit::Findings
    })
}

impl Line {
    fn new(path: &Path, outcome: &Result<Checked, ScanError>, authority: &Authority) -> Self {
        match outcome {
            Ok(checked) => Self::of_file(path, checked, authority),
            Err(error) => Self {
                path: PathText::new(path),
                status: Status::Error,
                reason: Some(error.to_string()),
                container: None,
                signer: None,
                containers: Vec::new(),
            },
        }
    }

    fn of_file(path: &Path, checked: &Checked, authority: &Authority) -> Self {
        let containers: Vec<_> = checked
            .findings
            .iter()
            .map(|finding| ContainerLine {
                container: finding.container,
                status: finding.status(),
                reason: finding.outcome.as_ref().err().map(ToString::to_string),
                signer: finding.outcome.as_ref().ok().map(|signer| signer.name(authority)),
            })
            .collect();
        let names: Vec<_> = containers.iter().map(|line| line.container.to_string()).collect();
        let status = checked.status();
        Self {
            path: PathText::new(path),
            status,
            reason: if status == Status::Unsigned { Some("not signed".to_owned()) } else { checked.reason() },
            container: (!names.is_empty()).then(|| names.join(",")),
            signer: containers.first().filter(|_| status == Status::Valid).and_then(|line| line.signer.clone()),
            containers,
        }
    }

    /// As JSON or for people, as `lines` was told.
    fn write(&self, path: &Path, lines: &mut Lines) -> io::Result<()> {
        lines.object(self)?;
        let reason = self.reason.as_deref().unwrap_or_default();
        let text = match self.status {
            Status::Valid => {
                let part = |part: &Option<String>| part.clone().unwrap_or_default();
                format!("valid: {}, {}", part(&self.container), part(&self.signer))
            }
            Status::Unsigned => "unsigned".to_owned(),
            Status::Invalid => format!("invalid: {reason}"),
            // The reason begins with the same word, or with the container.
            Status::Revoked => format!("revoked: {}", reason.strip_prefix("revoked: ").unwrap_or(reason)),
            Status::Error => format!("error: {reason}"),
        };
        lines.line(path, &text)
    }
}

impl Counts {
    fn of(&mut self, status: Status) -> &mut u64 {
        match status {
            Status::Valid => &mut self.valid,
            Status::Unsigned => &mut self.unsigned,
            Status::Invalid => &mut self.invalid,
            Status::Revoked => &mut self.revoked,
            Status::Error => &mut self.errors,
        }
    }

    fn summary(&self) -> String {
        let Self { valid, unsigned, invalid, revoked, errors, skipped } = self;
        let total = report::files(valid + unsigned + invalid + revoked + errors);
        let mut text = format!("{total}: {valid} valid");
        for (number, word) in [
            (unsigned, "unsigned"),
            (invalid, "invalid"),
            (revoked, "revoked"),
            (errors, "not readable"),
            (skipped, "left alone"),
        ] {
            if *number > 0 {
                text.push_str(&format!(", {number} {word}"));
            }
        }
        text
    }
}
