// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `touchmark unsign`: takes signatures off files.

use super::changes::{self, Words};
use super::targets::Targets;
use crate::files::container::Container;
use crate::files::unmark::Unmarker;
use crate::stop::Stop;
use crate::{Exit, files};

/// Arguments of `touchmark unsign`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
A file that was signed inside gets the bytes back that it had before. Other signatures of it speak of the signed \
file, and are removed with it.

Exit codes: 0 done; 1 something could not be done; 2 wrong usage; 3 could not do it.")]
pub(crate) struct Args {
    /// Which signatures to remove [default: all]
    #[arg(long, value_enum, value_delimiter = ',', value_name = "LIST")]
    container: Vec<Container>,
    /// Only say what would be done
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    targets: Targets,
}

const UNSIGN: Words =
    Words { verb: "unsigning", done: "unsigned", untouched: "unchanged", not_done: "not done", list: false };
const WOULD_UNSIGN: Words = Words { verb: "looking", done: "would-unsign", list: true, ..UNSIGN };

pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    let selection = args.targets.selection(!args.dry_run)?;
    let stop = Stop::on_signals()?;
    files::raise_open_files();
    let unmarker = Unmarker { containers: &args.container, dry_run: args.dry_run, stop: &stop };
    let words = if args.dry_run { WOULD_UNSIGN } else { UNSIGN };
    let run = files::edit::Run { selection: &selection, jobs: args.targets.jobs(), stop: &stop };
    changes::run(&run, args.targets.json, &words, |opened, places, buffer| unmarker.unmark(opened, places, buffer))
}
