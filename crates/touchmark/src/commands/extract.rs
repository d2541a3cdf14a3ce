// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `touchmark extract`: a signature of a file, as DER, or the statement that it signs.

use std::fs::File;
use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;

use anyhow::{Context, anyhow};

use crate::Exit;
use crate::exit::UsageError;
use crate::files::container::Container;
use crate::files::signatures::Signatures;
use crate::text::printable;

/// Arguments of `touchmark extract`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
The signature is detached CMS over the 48 bytes of a statement, which --statement writes. So it can be checked without \
touchmark:

  touchmark extract --container xattr --out signature.der FILE
  touchmark extract --container xattr --statement --out statement FILE
  openssl cms -verify -binary -inform DER -in signature.der -content statement \\
      -certfile cert.pem -nointern -noverify -out /dev/null

Exit codes: 0 done; 1 there is no such signature; 2 wrong usage; 3 could not do it.")]
pub(crate) struct Args {
    /// The file
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Which signature
    #[arg(long, value_enum)]
    container: Container,
    /// Write the statement, made from the file as it is now, instead of the signature
    #[arg(long)]
    statement: bool,
    /// Where to write [default: standard output, if it is no terminal]
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    if args.out.is_none() && io::stdout().is_terminal() {
        return Err(UsageError(
            "expected --out FILE: the signature is binary, and standard output is a terminal".to_owned(),
        )
        .into());
    }
    let found = Signatures::read(&args.file).with_context(|| args.file.display().to_string())?;
    let Some((_, outcome)) = found.all.into_iter().find(|(container, _)| *container == args.container) else {
        eprintln!("touchmark: {}: no {} signature", printable(&args.file), args.container);
        return Ok(Exit::Findings);
    };
    let signature = outcome.map_err(|error| anyhow!("{}: {error}", args.file.display()))?;
    let bytes = if args.statement { signature.statement.encode().to_vec() } else { signature.der };
    match &args.out {
        Some(path) => File::create(path)
            .and_then(|mut file| file.write_all(&bytes))
            .with_context(|| format!("cannot write {}", path.display()))?,
        None => io::stdout().lock().write_all(&bytes)?,
    }
    Ok(Exit::Success)
}
