// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `touchmark sign`: signs files.

use super::changes::{self, Words};
use super::targets::Targets;
use crate::files::container::Container;
use crate::files::mark::Marker;
use crate::files::seal::Sealer;
use crate::keys::KeyArgs;
use crate::stop::Stop;
use crate::{Exit, files};

/// Arguments of `touchmark sign`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
ELF files get a signature inside them and one in the attribute user.touchmark, other files one in the attribute, and \
so do kernel modules that carry the kernel's own signature at their end. \
A signature inside changes the file: a new one takes its place at once, with the same owner, mode, times, \
attributes, access lists and hard links. `touchmark unsign` gives the old bytes back. Signing again replaces \
signatures. What cannot be signed is named, and the rest goes on.

Exit codes: 0 all signed; 1 something could not be signed; 2 wrong usage; 3 could not do it.")]
pub(crate) struct Args {
    #[command(flatten)]
    key: KeyArgs,
    /// Where the signature goes [default: embedded,xattr for ELF files, xattr for others and
    /// for signed kernel modules]
    #[arg(long, value_enum, value_delimiter = ',', value_name = "LIST")]
    container: Vec<Container>,
    /// Seal what was signed in its attribute with fs-verity: it cannot be changed any more, only replaced, and the
    /// kernel decides about it without reading it
    #[arg(long, conflicts_with = "dry_run")]
    seal: bool,
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
    let signed =
        changes::run(&run, args.targets.json, &words, |opened, places, buffer| marker.mark(opened, places, buffer))?;
    if !args.seal {
        return Ok(signed);
    }
    // Files that a signature was put into are new ones, so sealing comes when they are in their places.
    let sealer = Sealer { signer: signer.as_ref(), certificate: &certificate };
    let sealed = changes::run(&run, args.targets.json, &SEAL, |opened, _, _| sealer.seal(opened))?;
    Ok(if signed == Exit::Success { sealed } else { signed })
}

const SIGN: Words =
    Words { verb: "signing", done: "signed", untouched: "unchanged", not_done: "not signed", list: false };
const SEAL: Words = Words { verb: "sealing", done: "sealed", not_done: "not sealed", ..SIGN };
const WOULD_SIGN: Words = Words { verb: "looking", done: "would-sign", list: true, ..SIGN };
