// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Memory for keys and passphrases that stays out of swap, core dumps and children, and is wiped when it is done with.

mod error;
mod fork;
mod pool;
mod process;
mod region;

use std::fmt;
use std::io::Read;
use std::ops::{Deref, DerefMut};
use std::str::FromStr;
use std::sync::atomic::{AtomicU8, Ordering};

use zeroize::Zeroize;

pub use error::SecretError;
pub use process::{Protection, protect_process};
pub use region::Kind;
pub(crate) use region::page_size;

use pool::Slot;

/// Which memory secrets get in this process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum Policy {
    /// Hidden where the kernel offers it and the machine cannot hibernate anyway, else locked.
    #[default]
    Auto,
    /// `memfd_secret`: keeps the machine from hibernating while there is a secret.
    Hidden,
    /// Locked anonymous memory. A hibernating machine writes it to disk like all else.
    Locked,
    /// Not even locked.
    Unlocked,
}

/// The policy in force, as a number.
static POLICY: AtomicU8 = AtomicU8::new(Policy::Auto as u8);

impl Policy {
    /// All, in the order of their numbers.
    pub const ALL: [Self; 4] = [Self::Auto, Self::Hidden, Self::Locked, Self::Unlocked];

    /// Makes it count for the secrets made from now on in this process.
    pub fn enter_into_force(self) {
        POLICY.store(self as u8, Ordering::Relaxed);
    }

    /// The word on the command line.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Hidden => "hidden",
            Self::Locked => "locked",
            Self::Unlocked => "unlocked",
        }
    }

    /// The kind of memory that follows on this machine.
    #[must_use]
    pub fn kind(self) -> Kind {
        match self {
            Self::Hidden => Kind::Hidden,
            Self::Locked => Kind::Locked,
            Self::Unlocked => Kind::Unlocked,
            Self::Auto if process::has_secretmem() && !process::machine_can_hibernate() => Kind::Hidden,
            Self::Auto => Kind::Locked,
        }
    }

    fn in_force() -> Self {
        Self::ALL[usize::from(POLICY.load(Ordering::Relaxed)) % Self::ALL.len()]
    }
}

impl FromStr for Policy {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, Self::Err> {
        let found = Self::ALL.into_iter().find(|policy| policy.word() == word);
        found.ok_or_else(|| format!("expected auto, hidden, locked or unlocked, found `{word}`"))
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

/// Bytes that nobody else is to see.
///
/// They are wiped when this is dropped. In a forked child they read as zeros; a [`Kind::Hidden`] secret is not mapped
/// there at all, and reading it ends the child with a signal.
pub struct Secret {
    slot: Slot,
    length: usize,
}

impl Secret {
    /// Copies `bytes`, which stay where they are: wipe them.
    ///
    /// # Errors
    /// There is no memory of the kind that the policy in force asks for.
    pub fn copy_of(bytes: &[u8]) -> Result<Self, SecretError> {
        Self::copy_into(Policy::in_force().kind(), bytes)
    }

    /// Takes a string over, and wipes it.
    ///
    /// # Errors
    /// As [`Secret::copy_of`]; the string is wiped all the same.
    pub fn from_string(mut text: String) -> Result<Self, SecretError> {
        let secret = Self::copy_of(text.as_bytes());
        text.zeroize();
        secret
    }

    /// Reads to the end, without a buffer in between; at most `most` bytes.
    ///
    /// # Errors
    /// There is no memory, reading fails, or there are more bytes.
    pub fn read_from(mut reader: impl Read, most: usize) -> Result<Self, SecretError> {
        let kind = Policy::in_force().kind();
        let mut secret = Self { slot: Slot::take(kind, 1)?, length: 0 };
        loop {
            if secret.length == secret.slot.size {
                secret.grow(kind)?;
            }
            let length = secret.length;
            let read = match reader.read(&mut secret.room()[length..]) {
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
                outcome => outcome.map_err(SecretError::Read)?,
            };
            secret.length += read;
            if secret.length > most {
                return Err(SecretError::TooLong { most });
            }
            if read == 0 {
                return Ok(secret);
            }
        }
    }

    /// Keeps the first `length` bytes and wipes the others.
    pub fn truncate(&mut self, length: usize) {
        if length < self.length {
            self[length..].zeroize();
            self.length = length;
        }
    }

    fn copy_into(kind: Kind, bytes: &[u8]) -> Result<Self, SecretError> {
        let mut secret = Self { slot: Slot::take(kind, bytes.len())?, length: bytes.len() };
        secret.copy_from_slice(bytes);
        Ok(secret)
    }

    /// Moves to a larger slot; the smaller one is wiped as it is given back.
    fn grow(&mut self, kind: Kind) -> Result<(), SecretError> {
        let mut larger = Self { slot: Slot::take(kind, self.slot.size * 2)?, length: self.length };
        larger.copy_from_slice(self);
        *self = larger;
        Ok(())
    }

    /// The whole slot.
    fn room(&mut self) -> &mut [u8] {
        // SAFETY: the slot is initialised memory that is ours alone.
        unsafe { std::slice::from_raw_parts_mut(self.slot.start.as_ptr(), self.slot.size) }
    }
}

impl Deref for Secret {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: the slot is initialised memory that is ours alone, and `length` is not more than its size.
        unsafe { std::slice::from_raw_parts(self.slot.start.as_ptr(), self.length) }
    }
}

impl DerefMut for Secret {
    fn deref_mut(&mut self) -> &mut [u8] {
        let length = self.length;
        &mut self.room()[..length]
    }
}

/// The length only.
impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Secret({} bytes)", self.length)
    }
}

#[cfg(test)]
mod tests;
