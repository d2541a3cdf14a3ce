// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `touchmark inspect`: the signatures that a file has, without checking them.

use std::io::{self, Write};
use std::path::PathBuf;

use anyhow::Context;
use serde::Serialize;
use touchmark_sign::cms::{SignatureInfo, signature_id};
use touchmark_sign::digest::Digest;
use touchmark_sign::statement::{Kind, Statement};

use crate::Exit;
use crate::files::container::Container;
use crate::files::signatures::{Signature, Signatures};
use crate::text::{PathText, printable};

/// Arguments of `touchmark inspect`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Nothing is checked against a certificate; `touchmark verify` does that.

Exit codes: 0 signed; 1 not signed, or a signature that cannot be read; 2 wrong usage; 3 could not do it.")]
pub(crate) struct Args {
    /// The file
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// One JSON object
    #[arg(long)]
    json: bool,
}

/// What a file has.
#[derive(Debug, Serialize)]
struct Inspection {
    #[serde(flatten)]
    path: PathText,
    /// Of the whole file, in bytes.
    size: u64,
    /// Of the whole file.
    sha256: String,
    signatures: Vec<Line>,
}

/// One signature. What cannot be read is left out, and `error` says why.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "kebab-case")]
struct Line {
    container: String,
    /// What the signed statement is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    kind: Option<&'static str>,
    /// The digest in the statement that fits the file as it is now.
    #[serde(skip_serializing_if = "Option::is_none")]
    digest: Option<String>,
    /// How many bytes of the file are covered, from its start.
    #[serde(skip_serializing_if = "Option::is_none")]
    covered: Option<u64>,
    /// The size of the signature, DER, in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    size: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    algorithm: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    issuer: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    serial: Option<String>,
    /// By which the signature can be revoked.
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    let found = Signatures::read(&args.file).with_context(|| args.file.display().to_string())?;
    let inspection = Inspection {
        path: PathText::new(&args.file),
        size: found.size,
        sha256: found.whole.to_string(),
        signatures: found.all.iter().map(|(container, outcome)| describe(*container, outcome)).collect(),
    };
    let mut out = io::stdout().lock();
    if args.json {
        serde_json::to_writer(&mut out, &inspection)?;
        writeln!(out)?;
    } else {
        inspection.print(&mut out, &args.file)?;
    }
    let whole = !inspection.signatures.is_empty() && inspection.signatures.iter().all(|line| line.error.is_none());
    Ok(if whole { Exit::Success } else { Exit::Findings })
}

fn describe(container: Container, outcome: &Result<Signature, String>) -> Line {
    let line = Line { container: container.to_string(), ..Line::default() };
    let signature = match outcome {
        Ok(signature) => signature,
        Err(error) => return Line { error: Some(error.clone()), ..line },
    };
    let Statement { kind, digest } = signature.statement;
    let line = Line {
        kind: Some(kind_name(kind)),
        digest: Some(digest.to_string()),
        covered: Some(signature.covered),
        size: Some(signature.der.len()),
        ..line
    };
    match SignatureInfo::parse(&signature.der) {
        Ok(info) => Line {
            algorithm: Some(info.algorithm()),
            issuer: Some(info.issuer()),
            serial: Some(info.serial()),
            id: signature_id(&signature.der).ok().map(|id| Digest::from(id).to_string()),
            ..line
        },
        Err(error) => Line { error: Some(error.to_string()), ..line },
    }
}

fn kind_name(kind: Kind) -> &'static str {
    match kind {
        Kind::File => "file",
        Kind::ElfContent => "elf-content",
        Kind::FsVerity => "fs-verity",
        Kind::Manifest => "manifest",
        Kind::Revocation => "revocation",
        Kind::Policy => "policy",
    }
}

impl Inspection {
    fn print(&self, out: &mut impl Write, path: &PathBuf) -> io::Result<()> {
        writeln!(out, "{}", printable(path))?;
        writeln!(out, "  size       {} bytes", self.size)?;
        writeln!(out, "  sha256     {}", self.sha256)?;
        if self.signatures.is_empty() {
            writeln!(out, "  not signed")?;
        }
        for line in &self.signatures {
            writeln!(out, "{}", line.container)?;
            let numbers = [("covers", line.covered), ("signature", line.size.map(|size| size as u64))];
            let texts = [
                ("issuer", line.issuer.as_deref()),
                ("serial", line.serial.as_deref()),
                ("id", line.id.as_deref()),
                ("algorithm", line.algorithm),
                ("statement", line.kind),
                ("digest", line.digest.as_deref()),
                ("error", line.error.as_deref()),
            ];
            for (name, value) in texts {
                if let Some(value) = value {
                    writeln!(out, "  {name:<10} {}", printable(value))?;
                }
            }
            for (name, value) in numbers {
                if let Some(value) = value {
                    writeln!(out, "  {name:<10} {value} bytes")?;
                }
            }
        }
        Ok(())
    }
}
