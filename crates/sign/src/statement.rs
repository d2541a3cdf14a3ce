// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The one message that is ever signed: what kind of thing a digest is of, and the digest.
//!
//! The kernel's BPF programs build the same bytes (`crates/enforce/bpf/signature.h`).

use crate::digest::{DIGEST_SIZE, Digest};

/// The size of an encoded statement in bytes.
pub const STATEMENT_SIZE: usize = 48;

const MAGIC: &[u8; 8] = b"touchmrk";
const VERSION: u8 = 1;
/// SHA-256 among the kernel's `HASH_ALGO_*` (uapi/linux/hash_info.h).
const HASH_SHA256: u8 = 4;
const HEADER_SIZE: usize = STATEMENT_SIZE - DIGEST_SIZE;
/// [`DIGEST_SIZE`] as the field holds it.
const DIGEST_SIZE_BYTE: u8 = 32;
const _: () = assert!(DIGEST_SIZE_BYTE as usize == DIGEST_SIZE);

/// What a digest is of. A signature over one kind never passes for another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// A whole file.
    File = 1,
    /// The part of an ELF file that an embedded signature covers.
    ElfContent = 2,
    /// The fs-verity digest of a sealed file.
    FsVerity = 3,
    /// A manifest.
    Manifest = 4,
    /// A revocation list.
    Revocation = 5,
    /// A policy.
    Policy = 6,
}

impl Kind {
    const ALL: [Self; 6] =
        [Self::File, Self::ElfContent, Self::FsVerity, Self::Manifest, Self::Revocation, Self::Policy];
}

/// A kind and a digest, as they are signed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Statement {
    /// What the digest is of.
    pub kind: Kind,
    /// The digest.
    pub digest: Digest,
}

/// Bytes that are no statement.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected a statement with {field} {expected}, found {found}")]
pub struct StatementError {
    field: &'static str,
    expected: String,
    found: String,
}

impl Statement {
    /// States that `digest` is of a `kind` of thing.
    #[must_use]
    pub fn new(kind: Kind, digest: Digest) -> Self {
        Self { kind, digest }
    }

    /// The bytes that are signed.
    #[must_use]
    pub fn encode(&self) -> [u8; STATEMENT_SIZE] {
        let mut bytes = [0; STATEMENT_SIZE];
        bytes[..8].copy_from_slice(MAGIC);
        bytes[8..12].copy_from_slice(&[VERSION, self.kind as u8, HASH_SHA256, DIGEST_SIZE_BYTE]);
        bytes[HEADER_SIZE..].copy_from_slice(self.digest.as_ref());
        bytes
    }

    /// Reads what [`Statement::encode`] wrote; every byte is checked.
    ///
    /// # Errors
    /// The field that is wrong, with what was expected and found.
    pub fn decode(bytes: &[u8]) -> Result<Self, StatementError> {
        let wrong = |field, expected: &dyn ToString, found: &dyn ToString| StatementError {
            field,
            expected: expected.to_string(),
            found: found.to_string(),
        };
        let whole: &[u8; STATEMENT_SIZE] =
            bytes.try_into().map_err(|_| wrong("size", &STATEMENT_SIZE, &bytes.len()))?;
        if &whole[..8] != MAGIC {
            return Err(wrong("magic", &"touchmrk", &whole[..8].escape_ascii()));
        }
        let kind = Kind::ALL.into_iter().find(|kind| *kind as u8 == whole[9]);
        let kind = kind.ok_or_else(|| wrong("kind", &"1 to 6", &whole[9]))?;
        let mut digest = [0; DIGEST_SIZE];
        digest.copy_from_slice(&whole[HEADER_SIZE..]);
        let statement = Self::new(kind, Digest::from(digest));
        if statement.encode() != *whole {
            return Err(wrong(
                "version, hash, digest size and reserved bytes",
                &"1, 4 (sha256), 32 and zeros",
                &whole[8..HEADER_SIZE].escape_ascii(),
            ));
        }
        Ok(statement)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_decodes_to_itself() {
        for kind in Kind::ALL {
            let statement = Statement::new(kind, Digest::of(b"x"));
            assert_eq!(Statement::decode(&statement.encode()), Ok(statement));
        }
    }

    #[test]
    fn any_changed_header_byte_is_refused_or_another_kind() {
        let bytes = Statement::new(Kind::File, Digest::of(b"x")).encode();
        for at in 0..HEADER_SIZE {
            for value in 0..=u8::MAX {
                let mut changed = bytes;
                changed[at] = value;
                let decoded = Statement::decode(&changed);
                let may_decode = value == bytes[at] || (at == 9 && (1..=6).contains(&value));
                assert_eq!(decoded.is_ok(), may_decode, "byte {at} = {value}");
            }
        }
        assert!(Statement::decode(&bytes[1..]).is_err());
        assert!(Statement::decode(&[]).unwrap_err().to_string().contains("size 48, found 0"));
    }
}
