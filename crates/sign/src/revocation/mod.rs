// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Revocation lists: what must not count any more, though it was signed. A text that people can read, with a version
//! that only rises, signed like everything else. Format: `docs/formats.md`, "Revocation list".

mod reason;
mod signed;
mod text;

use std::collections::BTreeMap;
use std::fmt;

use crate::certificate::{Certificate, Trust};
use crate::cms::{SignError, VerifyError};
use crate::digest::{DIGEST_SIZE, Digest};
use crate::key::Signer;

pub use reason::{MAX_REASON, Reason};
pub use signed::SignedList;

/// The most entries of a list.
pub const MAX_ENTRIES: usize = 64 * 1024;
/// The largest list, in bytes, its signature included.
pub const MAX_SIZE: usize = 16 << 20;

/// What an entry takes back. The order is that of the lines in the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Target {
    /// A certificate, by its fingerprint, and with it all that it vouched for.
    Certificate(Digest),
    /// Every file with this SHA-256.
    File(Digest),
    /// Every sealed file with this fs-verity digest.
    FsVerity(Digest),
    /// One signature, by its id ([`crate::cms::signature_id`]).
    Signature([u8; DIGEST_SIZE]),
}

/// A list, its signature aside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RevocationList {
    /// From 1; of two lists the one with the higher version counts.
    pub version: u64,
    /// When it was made, in seconds since 1970, UTC. For people: nothing is decided by it.
    pub issued: u64,
    /// What is taken back, and why.
    pub entries: BTreeMap<Target, Reason>,
}

/// What can be wrong with a revocation list.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RevocationError {
    /// A line is not what it should be.
    #[error("line {line}: expected {expected}, found `{found}`")]
    Line {
        /// From 1.
        line: usize,
        /// What belongs there.
        expected: &'static str,
        /// What is there, cut short.
        found: String,
    },
    /// Something else is not as the one encoding wants it.
    #[error("expected {expected}, found {found}")]
    Malformed {
        /// What belongs there.
        expected: &'static str,
        /// What is there.
        found: String,
    },
    /// It is larger than anyone reads.
    #[error("expected a revocation list of at most {expected} {unit}, found {found}")]
    TooLarge {
        /// The bound.
        expected: usize,
        /// Of what.
        unit: &'static str,
        /// How many there are.
        found: usize,
    },
    /// A reason that cannot be written down.
    #[error("expected a reason of 1 to {MAX_REASON} bytes, found {0}")]
    Reason(usize),
    /// The signer is on the list.
    #[error("expected a list signed by a certificate that it does not revoke, found {0} on it")]
    RevokesItself(String),
    /// It cannot be signed.
    #[error(transparent)]
    Sign(#[from] SignError),
    /// The signature does not count.
    #[error(transparent)]
    Verify(#[from] VerifyError),
}

impl RevocationList {
    /// Signs the list: the whole text, as it is stored and given away.
    ///
    /// # Errors
    /// It is too large, its version or time has no text, it revokes the certificate, or the key refuses.
    pub fn sign(&self, signer: &dyn Signer, certificate: &Certificate) -> Result<String, RevocationError> {
        signed::sign(self, signer, certificate)
    }

    /// Reads a signed list and checks its signature: by a trusted certificate that the list itself does not revoke.
    ///
    /// # Errors
    /// It is not a list in the one encoding, or the signature does not count.
    pub fn verify(bytes: &[u8], trust: &Trust) -> Result<Self, RevocationError> {
        let signed = SignedList::parse(bytes)?;
        signed.verify(trust)?;
        Ok(signed.list)
    }

    /// Why this is revoked; `None` if it is not.
    #[must_use]
    pub fn reason(&self, target: &Target) -> Option<&Reason> {
        self.entries.get(target)
    }

    /// Why this certificate is revoked; `None` if it is not.
    #[must_use]
    pub fn certificate_reason(&self, certificate: &Certificate) -> Option<&Reason> {
        self.reason(&Target::Certificate(certificate.fingerprint()))
    }

    /// The certificates that the list leaves.
    #[must_use]
    pub fn remaining(&self, trust: &Trust) -> Trust {
        let left = trust.certificates().iter().filter(|certificate| self.certificate_reason(certificate).is_none());
        Trust::new(left.cloned().collect())
    }
}

impl Target {
    /// The word that its lines begin with.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match self {
            Self::Certificate(_) => "certificate",
            Self::File(_) => "file",
            Self::FsVerity(_) => "fs-verity",
            Self::Signature(_) => "signature",
        }
    }

    /// The 32 bytes that say which.
    #[must_use]
    pub fn id(&self) -> Digest {
        match self {
            Self::Certificate(digest) | Self::File(digest) | Self::FsVerity(digest) => *digest,
            Self::Signature(id) => Digest::from(*id),
        }
    }

    fn by_word(word: &str, id: Digest) -> Option<Self> {
        Some(match word {
            "certificate" => Self::Certificate(id),
            "file" => Self::File(id),
            "fs-verity" => Self::FsVerity(id),
            "signature" => Self::Signature(*id.as_bytes()),
            _ => return None,
        })
    }
}

impl fmt::Display for Target {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} {}", self.word(), self.id())
    }
}
