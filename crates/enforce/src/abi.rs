// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The mirror of `bpf/abi.h`: what the BPF programs and user space agree on. The tests hold the two together.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// `TM_ABI_VERSION`.
pub(crate) const ABI_VERSION: u32 = 1;
/// `TM_PATH_SIZE`, the longest path an event carries, its NUL included.
pub(crate) const PATH_SIZE: usize = 1024;

/// `TM_FLAG_ALLOW_UNCACHEABLE`.
pub(crate) const FLAG_ALLOW_UNCACHEABLE: u32 = 1;
/// `TM_FLAG_LOG_ALLOWED`.
pub(crate) const FLAG_LOG_ALLOWED: u32 = 2;

/// `struct tm_policy`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(crate) struct RawPolicy {
    pub(crate) abi_version: u32,
    pub(crate) generation: u32,
    pub(crate) mode: u8,
    pub(crate) scope: u8,
    pub(crate) cgroup_level: u16,
    pub(crate) flags: u32,
    pub(crate) scope_id: u64,
    pub(crate) enforce_until_ns: u64,
    pub(crate) keyring: i32,
    pub(crate) reserved: u32,
}

/// `struct tm_event`.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(crate) struct RawEvent {
    pub(crate) time_ns: u64,
    pub(crate) inode: u64,
    pub(crate) device: u32,
    pub(crate) pid: u32,
    pub(crate) parent: u32,
    pub(crate) uid: u32,
    pub(crate) error: i32,
    pub(crate) hook: u8,
    pub(crate) reason: u8,
    pub(crate) blocked: u8,
    pub(crate) has_digest: u8,
    pub(crate) digest: [u8; 32],
    pub(crate) comm: [u8; 16],
    pub(crate) path_is_name: u32,
    pub(crate) path_len: u32,
    pub(crate) path: [u8; PATH_SIZE],
}

const _: () = assert!(size_of::<RawPolicy>() == 40);
const _: () = assert!(size_of::<RawEvent>() == 96 + PATH_SIZE);

/// Declares an enum that mirrors one of `abi.h`: numbers, checked conversion, the words shown to people.
macro_rules! abi_enum {
    ($(#[$doc:meta])* $name:ident { $($(#[$vdoc:meta])* $variant:ident = $number:literal, $c:literal, $word:literal;)+ }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u8)]
        pub enum $name { $($(#[$vdoc])* $variant = $number,)+ }

        impl $name {
            /// All of them, in the order of their numbers.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// The number in `abi.h`; `None` for one this version does not know.
            #[must_use]
            pub fn from_number(number: u8) -> Option<Self> {
                match number { $($number => Some(Self::$variant),)+ _ => None }
            }

            /// The word used on the command line, in messages and in JSON.
            #[must_use]
            pub fn word(self) -> &'static str {
                match self { $(Self::$variant => $word,)+ }
            }

            #[cfg(test)]
            const C_NAMES: &'static [(&'static str, u8)] = &[$(($c, $number)),+];
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result { f.pad(self.word()) }
        }

        impl std::str::FromStr for $name {
            type Err = String;

            fn from_str(word: &str) -> Result<Self, Self::Err> {
                Self::ALL.iter().copied().find(|value| value.word() == word).ok_or_else(|| {
                    let words: Vec<_> = Self::ALL.iter().map(|value| value.word()).collect();
                    format!("expected one of {}, found `{word}`", words.join(", "))
                })
            }
        }
    };
}

abi_enum! {
    /// What a decision to deny does.
    Mode {
        /// Nothing is checked.
        Off = 0, "TM_MODE_OFF", "off";
        /// Everything is checked and reported, nothing is blocked.
        Permissive = 1, "TM_MODE_PERMISSIVE", "permissive";
        /// What is not approved is blocked.
        Enforce = 2, "TM_MODE_ENFORCE", "enforce";
    }
}

abi_enum! {
    /// The hook that asked for a decision.
    Hook {
        /// `bprm_check_security`: a program, a script or its interpreter.
        Exec = 1, "TM_HOOK_EXEC", "exec";
        /// `mmap_file`: a file mapped executable, such as a library.
        Mmap = 2, "TM_HOOK_MMAP", "mmap";
        /// `file_mprotect`: a file mapping made executable later.
        Mprotect = 3, "TM_HOOK_MPROTECT", "mprotect";
    }
}

abi_enum! {
    /// How a decision came about.
    Reason {
        /// The verdict was known.
        Cached = 0, "TM_ALLOW_CACHED", "cached";
        /// The digest is approved.
        ApprovedDigest = 1, "TM_ALLOW_DIGEST", "approved-digest";
        /// The signature in the xattr verified.
        ValidSignature = 2, "TM_ALLOW_SIGNATURE", "valid-signature";
        /// Neither approved nor signed.
        Unsigned = 3, "TM_DENY_UNSIGNED", "unsigned";
        /// Signed, but not this content or not by a trusted key.
        BadSignature = 4, "TM_DENY_SIGNATURE", "bad-signature";
        /// The digest is revoked.
        Revoked = 5, "TM_DENY_REVOKED", "revoked";
        /// Open for writing, or mapped shared and writable.
        Writable = 6, "TM_DENY_WRITABLE", "open-for-writing";
        /// On a file system that can change unseen, which the policy refuses.
        Filesystem = 7, "TM_DENY_FILESYSTEM", "untrusted-filesystem";
        /// The kernel gave no SHA-256 digest.
        NoDigest = 8, "TM_DENY_DIGEST", "no-digest";
        /// Made executable by mprotect without ever having been checked.
        Unchecked = 9, "TM_DENY_UNCHECKED", "unchecked-mprotect";
        /// No memory for the check.
        NoMemory = 10, "TM_DENY_MEMORY", "no-memory";
    }
}

impl Reason {
    /// Whether the decision was to allow.
    #[must_use]
    pub fn allows(self) -> bool {
        self < Self::Unsigned
    }
}

/// Indices of the counters that follow those of the reasons.
pub(crate) mod counter {
    pub(crate) const HASHES: u32 = 11;
    pub(crate) const VERDICTS_DROPPED: u32 = 12;
    pub(crate) const EVENTS_LOST: u32 = 13;
    pub(crate) const PERMITTED: u32 = 14;
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    /// Reads `#define NAME NUMBER` and the enumerators of the header, as the compiler numbers them.
    fn header_numbers() -> HashMap<String, u64> {
        let header = include_str!("../bpf/abi.h");
        let mut numbers: HashMap<String, u64> = HashMap::new();
        let mut next = 0;
        for line in header.lines().map(str::trim) {
            if let Some(definition) = line.strip_prefix("#define ") {
                let mut words = definition.split_whitespace();
                if let (Some(name), Some(Ok(number))) = (words.next(), words.next().map(str::parse)) {
                    numbers.insert(name.to_owned(), number);
                }
            } else if line.starts_with("enum ") {
                next = 0;
            } else if let Some((name, _)) = line.split_once(',').filter(|_| line.starts_with("TM_")) {
                let (name, number) = match name.split_once(" = ") {
                    Some((name, value)) => (name, value.parse().unwrap_or_else(|_| numbers[value])),
                    None => (name, next),
                };
                numbers.insert(name.to_owned(), number);
                next = number + 1;
            }
        }
        numbers
    }

    #[test]
    fn numbers_are_those_of_the_header() {
        let header = header_numbers();
        let mirrored = [Mode::C_NAMES, Hook::C_NAMES, Reason::C_NAMES].concat();
        for (name, number) in &mirrored {
            assert_eq!(header.get(*name), Some(&u64::from(*number)), "{name}");
        }
        assert_eq!(header["TM_REASONS"], Reason::ALL.len() as u64);
        assert_eq!(header["TM_ABI_VERSION"], u64::from(ABI_VERSION));
        assert_eq!(header["TM_PATH_SIZE"], PATH_SIZE as u64);
        assert_eq!(header["TM_FLAG_ALLOW_UNCACHEABLE"], u64::from(FLAG_ALLOW_UNCACHEABLE));
        assert_eq!(header["TM_FLAG_LOG_ALLOWED"], u64::from(FLAG_LOG_ALLOWED));
        assert_eq!(header["TM_COUNT_HASHES"], u64::from(counter::HASHES));
        assert_eq!(header["TM_COUNT_VERDICTS_DROPPED"], u64::from(counter::VERDICTS_DROPPED));
        assert_eq!(header["TM_COUNT_EVENTS_LOST"], u64::from(counter::EVENTS_LOST));
        assert_eq!(header["TM_COUNT_PERMITTED"], u64::from(counter::PERMITTED));
    }

    #[test]
    fn the_first_reason_to_deny_is_unsigned() {
        let allowing = Reason::ALL.iter().filter(|reason| reason.allows()).count();
        assert_eq!(allowing, Reason::Unsigned as usize);
    }

    #[test]
    fn words_convert_back() {
        for mode in Mode::ALL {
            assert_eq!(mode.word().parse(), Ok(*mode));
        }
        assert!("strict".parse::<Mode>().unwrap_err().contains("permissive"));
    }
}
