// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What `touchmark revoke` is to take back, as named on its command line.

use std::fs::File;
use std::io::Read;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use anyhow::Context;
use touchmark_sign::certificate::Certificate;
use touchmark_sign::cms;
use touchmark_sign::digest::Digest;
use touchmark_sign::revocation::Target;

use crate::files::identity::Opened;
use crate::files::place::Place;
use crate::files::scan::{BUFFER, scan};
use crate::files::seal::sealed_digest;
use crate::keys;
use crate::stop::Stop;

/// The prefix of a digest that is one of a sealed file.
const SEALED: &str = "fs-verity:";

/// What is revoked.
#[derive(Debug, clap::Args)]
#[group(id = "Targets", multiple = true)]
pub(crate) struct Targets {
    /// Revoke this content, wherever it lies (signed anew inside, a program is other content)
    #[arg(long, value_name = "FILE")]
    file: Vec<PathBuf>,
    /// Revoke one signature: a file that holds it (`touchmark extract` writes one), or its id (`touchmark inspect`)
    #[arg(long, value_name = "FILE|ID")]
    signature: Vec<PathBuf>,
    /// Revoke a certificate (PEM, the first in it), or the one with this SHA-256 fingerprint
    #[arg(long, value_name = "FILE|FINGERPRINT")]
    certificate: Vec<PathBuf>,
    /// Revoke the content with this SHA-256 or, as fs-verity:DIGEST, this seal
    #[arg(long, value_name = "DIGEST", value_parser = parse_digest)]
    digest: Vec<Target>,
}

impl Targets {
    /// All of them, read.
    pub(crate) fn read(&self) -> anyhow::Result<Vec<Target>> {
        let mut all = self.digest.clone();
        for path in &self.file {
            of_file(path, &mut all).with_context(|| path.display().to_string())?;
        }
        for name in &self.signature {
            all.push(match by_text(name) {
                Some(id) => Target::Signature(*id.as_bytes()),
                None => of_signature(name).with_context(|| name.display().to_string())?,
            });
        }
        for name in &self.certificate {
            all.push(Target::Certificate(match by_text(name) {
                Some(fingerprint) => fingerprint,
                None => Certificate::fingerprint(&keys::read_certificate(name)?),
            }));
        }
        Ok(all)
    }
}

/// The whole content and, if the file is sealed, the seal.
fn of_file(path: &Path, all: &mut Vec<Target>) -> anyhow::Result<()> {
    let opened = Opened::open(&Place::resolve(path)?)?;
    let scan = scan(opened.file.as_fd(), opened.size(), &mut vec![0; BUFFER], &Stop::default())?;
    all.push(Target::File(scan.whole));
    all.extend(sealed_digest(&opened.file)?.map(Target::FsVerity));
    Ok(())
}

fn of_signature(path: &Path) -> anyhow::Result<Target> {
    let mut der = Vec::new();
    File::open(path)?.take(cms::MAX_SIZE as u64 + 1).read_to_end(&mut der)?;
    Ok(Target::Signature(cms::signature_id(&der)?))
}

/// 32 bytes written as digits, which no sensible file is called.
fn by_text(name: &Path) -> Option<Digest> {
    name.to_str()?.parse().ok()
}

fn parse_digest(text: &str) -> Result<Target, String> {
    let sealed = text.strip_prefix(SEALED);
    let digest = sealed.unwrap_or(text).parse::<Digest>().map_err(|error| error.to_string())?;
    Ok(if sealed.is_some() { Target::FsVerity(digest) } else { Target::File(digest) })
}
