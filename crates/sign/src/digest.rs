// SPDX-License-Identifier: Apache-2.0 OR MIT
//! SHA-256, the one digest of files.

use std::fmt;
use std::str::FromStr;

use aws_lc_rs::digest::{Context, SHA256};

/// The size of a digest in bytes.
pub const DIGEST_SIZE: usize = 32;

/// A SHA-256 digest.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest([u8; DIGEST_SIZE]);

impl Digest {
    /// The digest of `bytes`.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        let mut hasher = Hasher::new();
        hasher.update(bytes);
        hasher.finish()
    }

    /// The digest as bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8; DIGEST_SIZE] {
        &self.0
    }
}

impl From<[u8; DIGEST_SIZE]> for Digest {
    fn from(bytes: [u8; DIGEST_SIZE]) -> Self {
        Self(bytes)
    }
}

impl AsRef<[u8]> for Digest {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Digest({self})")
    }
}

/// Text that is no digest.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected 64 hexadecimal digits, found `{0}`")]
pub struct ParseDigestError(String);

impl FromStr for Digest {
    type Err = ParseDigestError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let error = || ParseDigestError(text.chars().take(80).collect());
        let digits = text.as_bytes();
        if digits.len() != 2 * DIGEST_SIZE {
            return Err(error());
        }
        let nibble = |digit: u8| (digit as char).to_digit(16).and_then(|value| u8::try_from(value).ok());
        let mut bytes = [0; DIGEST_SIZE];
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
            *byte = nibble(pair[0]).ok_or_else(error)? << 4 | nibble(pair[1]).ok_or_else(error)?;
        }
        Ok(Self(bytes))
    }
}

/// Hashes a stream. A clone goes on from the same point, so one pass can give the digests of a prefix and of the whole.
#[derive(Clone)]
pub struct Hasher(Context);

impl Hasher {
    /// Nothing hashed yet.
    #[must_use]
    pub fn new() -> Self {
        Self(Context::new(&SHA256))
    }

    /// Adds `bytes`.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// The digest of everything added.
    #[must_use]
    pub fn finish(self) -> Digest {
        let mut bytes = [0; DIGEST_SIZE];
        bytes.copy_from_slice(self.0.finish().as_ref());
        Digest(bytes)
    }
}

impl Default for Hasher {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_answer_and_text_form() {
        let text = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(Digest::of(b"abc").to_string(), text);
        assert_eq!(text.parse(), Ok(Digest::of(b"abc")));
        for bad in ["", "ba78", &text[1..], &text.replace('b', "g"), &format!("{text}00"), &"é".repeat(32)] {
            assert!(bad.parse::<Digest>().is_err(), "{bad}");
        }
    }

    #[test]
    fn a_clone_goes_on_alone() {
        let mut whole = Hasher::new();
        whole.update(b"ab");
        let prefix = whole.clone().finish();
        whole.update(b"c");
        assert_eq!((prefix, whole.finish()), (Digest::of(b"ab"), Digest::of(b"abc")));
    }
}
