// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `touchmark sign`: signs files.

use super::changes::{self, Words};
use super::targets::Targets;
use crate::files::container::Container;
use crate::files::mark::Marker;
use crate::keys::KeyArgs;
use crate::stop::Stop;
use crate::{Exit, files};

/// Arguments of `touchmark sign`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
ELF files get a signature inside them and one in the attribute user.touchmark, other files one in the attribute. \
A signature inside changes the file: a new one takes its place at once, with the same owner, mode, times, \
attributes, access lists and hard links. `touchmark unsign` gives the old bytes back. Signing again replaces \
signatures. What cannot be signed is named, and the rest goes on.

Exit codes: 0 all signed; 1 something could not be signed; 2 wrong usage; 3 could not do it.")]
pub(crate) struct Args {
    #[command(flatten)]
    key: KeyArgs,
    /// Where the signature goes [default: embedded,xattr for ELF files, xattr for others]
    #[arg(long, value_enum, value_delimiter = ',', value_name = "LIST")]
    container: Vec<Container>,
    /// Only say what would be done
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    targets: Targets,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    let selection = args.targets.selection(!args.dry_run)?;
    let (signer, certificate) = args.key.open()?;
    let stop = Stop::on_signals()?;
    files::raise_open_files();
    let marker = Marker {
        signer: signer.as_ref(),
        certificate: &certificate,
        containers: &args.container,
        dry_run: args.dry_run,
        stop: &stop,
    };
    let words = if args.dry_run { WOULD_SIGN } else { SIGN };
    let run = files::edit::Run { selection: &selection, jobs: args.targets.jobs(), stop: &stop };
    changes::run(&run, args.targets.json, &words, |opened, places, buffer| marker.mark(opened, places, buffer))
}

const SIGN: Words =
    Words { verb: "signing", done: "signed", untouched: "unchanged", not_done: "not signed", list: false };
const WOULD_SIGN: Words = Words { verb: "looking", done: "would-sign", list: true, ..SIGN };
