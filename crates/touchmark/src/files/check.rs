// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Checks the signatures of one file.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use anyhow::Context;
use serde::Serialize;
use touchmark_enforce::Approval;
use touchmark_sign::certificate::Certificate;
use touchmark_sign::cms;
use touchmark_sign::digest::Digest;
use touchmark_sign::elf::ElfError;
use touchmark_sign::statement::{Kind, Statement};

use super::container::{Container, read_attribute, read_detached};
use super::identity::Opened;
use super::place::Place;
use super::scan::{EmbeddedScan, Look, Scan, ScanError};
use super::seal::sealed_digest;
use crate::authority::{Authority, Doubt, Revoked};
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
    /// The file, one of its signatures or that one's certificate is on the revocation list.
    Revoked,
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

impl Finding {
    /// The container by itself.
    pub(crate) fn status(&self) -> Status {
        match self.outcome {
            Ok(_) => Status::Valid,
            Err(Flaw::Signature(Doubt::Revoked(_))) => Status::Revoked,
            Err(_) => Status::Invalid,
        }
    }
}

/// A signature that counts, and by whom.
#[derive(Debug)]
pub(crate) struct Signer {
    /// The certificate, by its place among those of [`Authority::certificates`].
    position: usize,
    der: Vec<u8>,
}

impl Signer {
    /// The certificate's name.
    pub(crate) fn name(&self, authority: &Authority) -> String {
        self.certificate(authority).map(Certificate::subject).unwrap_or_default()
    }

    fn certificate<'a>(&self, authority: &'a Authority) -> Option<&'a Certificate> {
        authority.certificates().get(self.position)
    }

    /// What the kernel is to be told of the file: it falls with the signature or the certificate.
    fn approval(&self, whole: Digest, authority: &Authority) -> anyhow::Result<Approval> {
        let certificate = self.certificate(authority).context("no signer")?;
        Ok(Approval {
            digest: whole,
            kind: Kind::File,
            signer: Some(certificate.fingerprint()),
            signature: Some(cms::signature_id(&self.der)?),
        })
    }
}

/// Why a signature does not hold.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Flaw {
    /// The signature itself.
    #[error(transparent)]
    Signature(#[from] Doubt),
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
    /// SHA-256 of the whole file, as the kernel computes it; `None` if it was not read, because it has no signature.
    pub(crate) whole: Option<Digest>,
    /// What the revocation list says of the file's content.
    pub(crate) revoked: Option<Revoked>,
    /// The file's size in bytes.
    pub(crate) size: u64,
    /// One for each container that is there: embedded, xattr, detached.
    pub(crate) findings: Vec<Finding>,
}

impl Checked {
    /// The verdict: all signatures that are there must hold, and nothing be revoked.
    pub(crate) fn status(&self) -> Status {
        let any = |status| self.findings.iter().any(|finding| finding.status() == status);
        if self.revoked.is_some() || any(Status::Revoked) {
            Status::Revoked
        } else if self.findings.is_empty() {
            Status::Unsigned
        } else if any(Status::Invalid) {
            Status::Invalid
        } else {
            Status::Valid
        }
    }

    /// Whether the file is of no use any more: it is revoked itself, or it was signed, and only revocations keep its
    /// signatures from counting. One that counts is enough.
    pub(crate) fn is_withdrawn(&self) -> bool {
        let counts = self.findings.iter().any(|finding| finding.outcome.is_ok());
        self.revoked.is_some() || (self.status() == Status::Revoked && !counts)
    }

    /// Whether the signature in this container holds, if there is one.
    pub(crate) fn holds(&self, container: Container) -> Option<bool> {
        self.findings.iter().find(|finding| finding.container == container).map(|finding| finding.outcome.is_ok())
    }

    /// Every flaw, with its container.
    pub(crate) fn reason(&self) -> Option<String> {
        let flaw = |finding: &Finding| Some(format!("{}: {}", finding.container, finding.outcome.as_ref().err()?));
        let of_file = self.revoked.as_ref().map(ToString::to_string);
        let flaws: Vec<_> = of_file.into_iter().chain(self.findings.iter().filter_map(flaw)).collect();
        (!flaws.is_empty()).then(|| flaws.join("; "))
    }

    /// What the kernel is to be told if the status is valid, else an error with the reason.
    pub(crate) fn approval(&self, authority: &Authority) -> anyhow::Result<Approval> {
        match self.status() {
            Status::Valid => {
                let signer = self.findings.iter().find_map(|finding| finding.outcome.as_ref().ok());
                signer.context("no signer")?.approval(self.whole.context("not read")?, authority)
            }
            Status::Unsigned => anyhow::bail!("not signed"),
            _ => anyhow::bail!("{}", self.reason().unwrap_or_default()),
        }
    }
}

/// Checks every signature of a file, in one pass over it. A file without any is not read, unless the revocation list may
/// speak of it.
pub(crate) fn check(
    place: &Place,
    authority: &Authority,
    buffer: &mut [u8],
    stop: &Stop,
) -> Result<Checked, ScanError> {
    let opened = Opened::open(place).map_err(ScanError::Open)?;
    let others = vec![(Container::Xattr, read_attribute(&opened.file)), (Container::Detached, read_detached(place))];
    examine(&opened, others, authority, buffer, stop)
}

/// Checks what an open file has with it, which needs no path: the embedded signature and the one in its attribute.
pub(crate) fn check_opened(opened: &Opened, authority: &Authority, buffer: &mut [u8]) -> Result<Checked, ScanError> {
    let others = vec![(Container::Xattr, read_attribute(&opened.file))];
    examine(opened, others, authority, buffer, &Stop::default())
}

/// The largest file whose embedded signature is checked while an exec waits, in bytes. A sparse file costs nothing to
/// make and may be of terabytes: to read it would occupy the daemon for hours, and all other execs would wait. The
/// largest program that we know of has an eighth of this.
const EMBEDDED_MAX: u64 = 1 << 30;

/// Checks only the embedded signature, by descriptor alone: what the kernel is to be told if it holds. A file of more
/// than [`EMBEDDED_MAX`] is not read.
pub(crate) fn check_embedded(
    file: BorrowedFd<'_>,
    authority: &Authority,
    buffer: &mut [u8],
) -> anyhow::Result<Option<Approval>> {
    let size = rustix::fs::fstat(file).map_err(io::Error::from)?.st_size;
    let size = u64::try_from(size).unwrap_or(0);
    if size > EMBEDDED_MAX {
        return Ok(None);
    }
    let look = Look::at(file, size, buffer)?;
    if !look.is_signed() {
        return Ok(None);
    }
    match embedded(look.digest(&Stop::default())?, authority) {
        (whole, Some(Ok(signer))) if authority.revoked_file(whole).is_none() => {
            signer.approval(whole, authority).map(Some)
        }
        _ => Ok(None),
    }
}

fn examine(
    opened: &Opened,
    others: Vec<(Container, io::Result<Option<Vec<u8>>>)>,
    authority: &Authority,
    buffer: &mut [u8],
    stop: &Stop,
) -> Result<Checked, ScanError> {
    let look = Look::at(opened.file.as_fd(), opened.size(), buffer)?;
    let mut checked =
        Checked { whole: None, revoked: None, size: opened.size(), findings: Vec::with_capacity(others.len()) };
    let is_signed = look.is_signed() || others.iter().any(|(_, signature)| !matches!(signature, Ok(None)));
    if !is_signed && !authority.revokes_files() {
        stop.step(checked.size)?;
        return Ok(checked);
    }
    let (whole, outcome) = embedded(look.digest(stop)?, authority);
    checked.whole = Some(whole);
    let sealed = sealed_digest(&opened.file).unwrap_or_default();
    checked.revoked = authority.revoked_file(whole).or_else(|| authority.revoked_seal(sealed?));
    checked.findings.extend(outcome.map(|outcome| Finding { container: Container::Embedded, outcome }));
    for (container, signature) in others {
        let outcome = match signature {
            Ok(None) => continue,
            Ok(Some(der)) => verify_other(der, whole, sealed.filter(|_| container == Container::Xattr), authority),
            Err(error) => Err(error.into()),
        };
        checked.findings.push(Finding { container, outcome });
    }
    Ok(checked)
}

fn embedded(scan: Scan, authority: &Authority) -> (Digest, Option<Result<Signer, Flaw>>) {
    let outcome = match scan.embedded {
        Ok(None) => None,
        Ok(Some(EmbeddedScan { der, content, .. })) => Some(verify(der, Kind::ElfContent, content, authority)),
        Err(error) => Some(Err(error.into())),
    };
    (scan.whole, outcome)
}

/// A signature beside the file's bytes: over the whole file, or over its fs-verity digest if it is sealed.
fn verify_other(der: Vec<u8>, whole: Digest, sealed: Option<Digest>, authority: &Authority) -> Result<Signer, Flaw> {
    match sealed.map(|digest| verify(der.clone(), Kind::FsVerity, digest, authority)) {
        Some(Err(Flaw::Signature(Doubt::Signature(_)))) | None => verify(der, Kind::File, whole, authority),
        Some(of_seal) => of_seal,
    }
}

fn verify(der: Vec<u8>, kind: Kind, digest: Digest, authority: &Authority) -> Result<Signer, Flaw> {
    let certificate = authority.verify(&der, &Statement::new(kind, digest))?;
    // By its place in the list: to write the name out for every file would cost as much as to read the signature.
    let position = authority.certificates().iter().position(|known| std::ptr::eq(known, certificate));
    Ok(Signer { position: position.unwrap_or_default(), der })
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};
    use std::os::unix::fs::FileExt;
    use std::time::{Duration, Instant};

    use touchmark_sign::elf::embed::Plan;

    use super::super::scan::{BUFFER, Source};
    use super::*;

    /// Takes hours if the file is read.
    #[test]
    fn an_absurdly_large_file_does_not_hold_up_an_exec() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("program");
        fs::copy("/bin/true", &path).unwrap();
        let size = 1 << 40;
        let file = File::options().read(true).write(true).open(&path).unwrap();
        file.set_len(size).unwrap();
        let head = fs::read("/bin/true").unwrap();
        let plan = Plan::new(&Source::new(file.as_fd(), size, &head).unwrap(), size, 600).unwrap();
        file.write_all_at(&plan.appended, size).unwrap();
        let end = plan.finish(&[0x30; 500]).unwrap();
        file.write_all_at(&end, size + plan.appended.len() as u64).unwrap();
        let mut buffer = vec![0; BUFFER];
        let size = file.metadata().unwrap().len();
        assert!(Look::at(file.as_fd(), size, &mut buffer).unwrap().is_signed());

        let begin = Instant::now();
        assert!(check_embedded(file.as_fd(), &Authority::default(), &mut buffer).unwrap().is_none());
        assert!(begin.elapsed() < Duration::from_secs(10));
    }
}
