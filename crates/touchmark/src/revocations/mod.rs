// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The revocation list of this machine: kept on disk, checked when it is read, handed to the kernel.

pub(crate) mod running;
pub(crate) mod store;

use std::fs::File;
use std::io::Read;
use std::path::Path;

use anyhow::Context;
use touchmark_enforce::{Enforcement, Revocations, Revoked};
use touchmark_sign::certificate::{Certificate, Trust};
use touchmark_sign::revocation::{MAX_SIZE, RevocationList, SignedList, Target};

use crate::authority::Authority;
use crate::text::printable;
use store::{Store, StoreError};

/// These certificates, less what this machine's list revokes. `enforcement`: what is loaded, whose version counts too.
pub(crate) fn in_force(certificates: Vec<Certificate>, enforcement: Option<&Enforcement>) -> anyhow::Result<Authority> {
    let trust = Trust::new(certificates);
    let floor = enforcement.map_or(Ok(0), Enforcement::revocation_version)?;
    let list = Store::system().load(&trust, floor)?;
    Ok(Authority::new(trust, list))
}

/// For commands that were told whom to trust: the list named, or this machine's if one of them signed it.
pub(crate) fn for_verification(trust: Trust, named: Option<&Path>) -> anyhow::Result<Authority> {
    let list = if let Some(path) = named {
        Some(RevocationList::verify(&read(path)?, &trust).with_context(|| path.display().to_string())?)
    } else {
        match Store::system().load(&trust, 0) {
            Err(error @ StoreError::Foreign { .. }) => {
                eprintln!("touchmark: warning: {}; the list is not respected", printable(error.to_string()));
                None
            }
            other => other?,
        }
    };
    Ok(Authority::new(trust, list))
}

/// Reads a list in a file; its signature is still to be checked.
pub(crate) fn read_list(path: &Path) -> anyhow::Result<(Vec<u8>, SignedList)> {
    let bytes = read(path)?;
    let signed = SignedList::parse(&bytes).with_context(|| path.display().to_string())?;
    Ok((bytes, signed))
}

/// The list in the kernel's terms.
pub(crate) fn for_kernel(list: &RevocationList) -> Revocations {
    let entries = list.entries.keys().filter_map(|target| match target {
        Target::File(digest) => Some(Revoked::File(*digest)),
        Target::FsVerity(digest) => Some(Revoked::FsVerity(*digest)),
        Target::Signature(id) => Some(Revoked::Signature(*id)),
        Target::Certificate(_) => None,
    });
    let certificates = list.entries.keys().filter_map(|target| match target {
        Target::Certificate(fingerprint) => Some(*fingerprint),
        _ => None,
    });
    Revocations { version: list.version, entries: entries.collect(), certificates: certificates.collect() }
}

fn read(path: &Path) -> anyhow::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)
        .and_then(|file| file.take(MAX_SIZE as u64 + 1).read_to_end(&mut bytes))
        .with_context(|| format!("cannot read {}", path.display()))?;
    Ok(bytes)
}
