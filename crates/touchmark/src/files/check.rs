// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Checks the signatures of one file.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use anyhow::Context;
use serde::Serialize;
use touchmark_enforce::Approval;
use touchmark_sign::certificate::{Certificate, Trust};
use touchmark_sign::cms;
use touchmark_sign::digest::Digest;
use touchmark_sign::elf::ElfError;
use touchmark_sign::statement::{Kind, Statement};

use super::container::{Container, read_attribute, read_detached};
use super::identity::Opened;
use super::place::Place;
use super::scan::{EmbeddedScan, Look, Scan, ScanError};
use super::seal;
use crate::stop::Stop;

/// What the signatures of a file are worth.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Status {
    /// There is a signature, and every one there is holds.
    Valid,
    /// There is none.
    Unsigned,
    /// One does not hold.
    Invalid,
    /// The file could not be read.
    Error,
}

/// What was found in one container.
#[derive(Debug)]
pub(crate) struct Finding {
    /// Where.
    pub(crate) container: Container,
    /// Who signed, or why the signature does not hold.
    pub(crate) outcome: Result<Signer, Flaw>,
}

/// A trusted certificate, by its place among those of [`Trust`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Signer(usize);

impl Signer {
    /// The certificate's SHA-256.
    pub(crate) fn fingerprint(self, trust: &Trust) -> Option<Digest> {
        trust.certificates().get(self.0).map(Certificate::fingerprint)
    }

    /// The certificate's name.
    pub(crate) fn name(self, trust: &Trust) -> String {
        trust.certificates().get(self.0).map(Certificate::subject).unwrap_or_default()
    }
}

/// Why a signature does not hold.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Flaw {
    /// The signature itself.
    #[error(transparent)]
    Signature(#[from] cms::VerifyError),
    /// The embedded signature's frame.
    #[error(transparent)]
    Frame(#[from] ElfError),
    /// The container cannot be read.
    #[error("cannot read the signature: {0}")]
    Read(#[from] io::Error),
}

/// A file that was looked at.
#[derive(Debug)]
pub(crate) struct Checked {
    /// SHA-256 of the whole file, as the kernel computes it; `None` if it has no signature at all.
    pub(crate) whole: Option<Digest>,
    /// The file's size in bytes.
    pub(crate) size: u64,
    /// One for each container that is there: embedded, xattr, detached.
    pub(crate) findings: Vec<Finding>,
}

impl Checked {
    /// The verdict: all signatures that are there must hold.
    pub(crate) fn status(&self) -> Status {
        if self.findings.is_empty() {
            Status::Unsigned
        } else if self.findings.iter().all(|finding| finding.outcome.is_ok()) {
            Status::Valid
        } else {
            Status::Invalid
        }
    }

    /// Whether the signature in this container holds, if there is one.
    pub(crate) fn holds(&self, container: Container) -> Option<bool> {
        self.findings.iter().find(|finding| finding.container == container).map(|finding| finding.outcome.is_ok())
    }

    /// Every flaw, with its container.
    pub(crate) fn reason(&self) -> Option<String> {
        let flaws: Vec<_> = self
            .findings
            .iter()
            .filter_map(|finding| Some(format!("{}: {}", finding.container, finding.outcome.as_ref().err()?)))
            .collect();
        (!flaws.is_empty()).then(|| flaws.join("; "))
    }

    /// The approval of the whole file if the status is valid, else an error with the reason.
    pub(crate) fn approval(&self, trust: &Trust) -> anyhow::Result<Approval> {
        match self.status() {
            Status::Valid => {
                let signer = self.findings.iter().find_map(|finding| finding.outcome.as_ref().ok());
                let digest = self.whole.context("not read")?;
                Ok(approval(digest, signer.copied(), trust))
            }
            Status::Unsigned => anyhow::bail!("not signed"),
            _ => anyhow::bail!("{}", self.reason().unwrap_or_default()),
        }
    }
}

/// Checks every signature of a file, in one pass over it. A file without any is not read.
pub(crate) fn check(place: &Place, trust: &Trust, buffer: &mut [u8], stop: &Stop) -> Result<Checked, ScanError> {
    let opened = Opened::open(place).map_err(ScanError::Open)?;
    let look = Look::at(opened.file.as_fd(), opened.size(), buffer)?;
    let others = [(Container::Xattr, read_attribute(&opened.file)), (Container::Detached, read_detached(place))];
    let mut checked = Checked { whole: None, size: opened.size(), findings: Vec::with_capacity(2) };
    if !look.is_signed() && others.iter().all(|(_, signature)| matches!(signature, Ok(None))) {
        stop.step(checked.size)?;
        return Ok(checked);
    }
    let (whole, embedded) = check_embedded(look.digest(stop)?, trust);
    checked.whole = Some(whole);
    checked.findings.extend(embedded.map(|outcome| Finding { container: Container::Embedded, outcome }));
    let sealed = seal::sealed_digest(&opened.file).unwrap_or_default();
    for (container, signature) in others {
        let outcome = match signature {
            Ok(None) => continue,
            Ok(Some(der)) => verify_other(&der, whole, sealed.filter(|_| container == Container::Xattr), trust),
            Err(error) => Err(error.into()),
        };
        checked.findings.push(Finding { container, outcome });
    }
    Ok(checked)
}

fn approval(digest: Digest, signer: Option<Signer>, trust: &Trust) -> Approval {
    Approval { kind: Kind::File, digest, signer: signer.and_then(|signer| signer.fingerprint(trust)) }
}

/// Checks only the embedded signature, by descriptor alone: the whole file's approval if it holds.
pub(crate) fn check_open(
    file: BorrowedFd<'_>,
    trust: &Trust,
    buffer: &mut [u8],
) -> Result<Option<Approval>, ScanError> {
    let size = rustix::fs::fstat(file).map_err(io::Error::from)?.st_size;
    let look = Look::at(file, u64::try_from(size).unwrap_or(0), buffer)?;
    if !look.is_signed() {
        return Ok(None);
    }
    let (whole, outcome) = check_embedded(look.digest(&Stop::default())?, trust);
    Ok(outcome.and_then(Result::ok).map(|signer| approval(whole, Some(signer), trust)))
}

fn check_embedded(scan: Scan, trust: &Trust) -> (Digest, Option<Result<Signer, Flaw>>) {
    let outcome = match scan.embedded {
        Ok(None) => None,
        Ok(Some(EmbeddedScan { der, content, .. })) => Some(verify(&der, Kind::ElfContent, content, trust)),
        Err(error) => Some(Err(error.into())),
    };
    (scan.whole, outcome)
}

/// A signature beside the file's bytes: over the whole file, or over its fs-verity digest if it is sealed.
fn verify_other(der: &[u8], whole: Digest, sealed: Option<Digest>, trust: &Trust) -> Result<Signer, Flaw> {
    let of_seal = sealed.map(|digest| verify(der, Kind::FsVerity, digest, trust));
    of_seal.and_then(Result::ok).map_or_else(|| verify(der, Kind::File, whole, trust), Ok)
}

fn verify(der: &[u8], kind: Kind, digest: Digest, trust: &Trust) -> Result<Signer, Flaw> {
    let certificate = cms::verify(der, &Statement::new(kind, digest), trust)?;
    // By its place in the list: to write the name out for every file would cost as much as to read the signature.
    let position = trust.certificates().iter().position(|known| std::ptr::eq(known, certificate));
    Ok(Signer(position.unwrap_or_default()))
}
