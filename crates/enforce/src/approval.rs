// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Contents that user space vouches for, and contents and signatures that are revoked, as keys of the kernel's maps.

use touchmark_sign::digest::Digest;
use touchmark_sign::statement::Kind;

use crate::abi::{KIND_SIGNATURE, RawApproval, RawKey};
use crate::policy::boot_time_ns;

/// A content that may run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Approval {
    /// What the digest is of: [`Kind::File`] or [`Kind::FsVerity`].
    pub kind: Kind,
    /// The digest.
    pub digest: Digest,
    /// SHA-256 of the certificate whose signature vouches for it: if it is revoked, the approval falls.
    pub signer: Option<Digest>,
    /// The id of that signature: if it is revoked, the approval falls as well.
    pub signature: Option<[u8; 32]>,
}

/// What may not run any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Revoked {
    /// A whole file, by its SHA-256.
    File(Digest),
    /// A sealed file, by its fs-verity digest.
    FsVerity(Digest),
    /// What this signature vouches for, by the signature's id (docs/formats.md, "Revocation list").
    Signature([u8; 32]),
}

/// A revocation list, as the kernel's side needs it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Revocations {
    /// Rises with each list.
    pub version: u64,
    /// What may not run.
    pub entries: Vec<Revoked>,
    /// SHA-256 of revoked certificates: what was approved by their word falls.
    pub certificates: Vec<Digest>,
}

impl Approval {
    pub(crate) fn to_raw(self) -> (RawKey, RawApproval) {
        let signer = self.signer.map_or([0; 32], |signer| bytes(&signer));
        (
            key(self.kind, &self.digest),
            RawApproval { since_ns: boot_time_ns(), signer, signature: self.signature.unwrap_or_default() },
        )
    }
}

impl Revoked {
    /// The id, if this is a signature.
    pub(crate) fn signature(&self) -> Option<[u8; 32]> {
        match self {
            Self::Signature(id) => Some(*id),
            Self::File(_) | Self::FsVerity(_) => None,
        }
    }

    pub(crate) fn to_raw(self) -> RawKey {
        match self {
            Self::File(digest) => key(Kind::File, &digest),
            Self::FsVerity(digest) => key(Kind::FsVerity, &digest),
            Self::Signature(id) => RawKey { kind: KIND_SIGNATURE, id },
        }
    }
}

/// The key of a content.
pub(crate) fn key(kind: Kind, digest: &Digest) -> RawKey {
    RawKey { kind: u32::from(kind as u8), id: bytes(digest) }
}

pub(crate) fn bytes(digest: &Digest) -> [u8; 32] {
    let mut bytes = [0; 32];
    bytes.copy_from_slice(digest.as_ref());
    bytes
}
