// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The mirror of `bpf/abi.h`: what the BPF programs and user space agree on. The tests hold the two together.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// `TM_ABI_VERSION`.
pub(crate) const ABI_VERSION: u32 = 3;
/// `TM_PATH_SIZE`, the longest path an event carries, its NUL included.
pub(crate) const PATH_SIZE: usize = 1024;
/// `TM_KIND_SIGNATURE`.
pub(crate) const KIND_SIGNATURE: u32 = 256;

/// `enum tm_policy_flag`.
pub(crate) mod flag {
    pub(crate) const LOG_ALLOWED: u32 = 1;
    pub(crate) const REFUSE_WRITABLE: u32 = 2;
    pub(crate) const PROTECT_MAPPED: u32 = 4;
    pub(crate) const GUARD: u32 = 8;
    pub(crate) const LOCK: u32 = 16;
}

/// `enum tm_guarded_kind`.
pub(crate) mod guarded {
    pub(crate) const MAP: u32 = 1;
    pub(crate) const PROGRAM: u32 = 2;
    pub(crate) const PIN: u32 = 3;
    pub(crate) const MOUNT: u32 = 4;
    pub(crate) const FILESYSTEM: u32 = 5;
}

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
    pub(crate) anonymous: u8,
    pub(crate) ptrace: u8,
    pub(crate) buffers: u8,
    pub(crate) filesystems: u8,
    pub(crate) revocations: u64,
    pub(crate) state: [u8; 32],
}

/// `struct tm_key`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(crate) struct RawKey {
    pub(crate) kind: u32,
    pub(crate) id: [u8; 32],
}

/// `struct tm_approval`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(crate) struct RawApproval {
    pub(crate) since_ns: u64,
    pub(crate) signer: [u8; 32],
    pub(crate) signature: [u8; 32],
}

/// `struct tm_inode`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(crate) struct RawInode {
    pub(crate) approved: u64,
    pub(crate) changes: u32,
    pub(crate) known: u32,
    pub(crate) used: u64,
    pub(crate) key: RawKey,
    pub(crate) reserved: u32,
}

/// `struct tm_guarded`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(crate) struct RawGuarded {
    pub(crate) kind: u32,
    pub(crate) device: u32,
    pub(crate) id: u64,
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
    pub(crate) target: u32,
    pub(crate) error: i32,
    pub(crate) hook: u8,
    pub(crate) reason: u8,
    pub(crate) blocked: u8,
    pub(crate) has_digest: u8,
    pub(crate) digest_kind: u32,
    pub(crate) digest: [u8; 32],
    pub(crate) comm: [u8; 16],
    pub(crate) path_is_name: u32,
    pub(crate) path_len: u32,
    pub(crate) path: [u8; PATH_SIZE],
}

const _: () = assert!(size_of::<RawPolicy>() == 80);
const _: () = assert!(size_of::<RawKey>() == 36);
const _: () = assert!(size_of::<RawApproval>() == 72);
const _: () = assert!(size_of::<RawInode>() == 64);
const _: () = assert!(size_of::<RawGuarded>() == 16);
const _: () = assert!(size_of::<RawEvent>() == 104 + PATH_SIZE);

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
    /// What happens to an operation that is a matter of taste.
    Action {
        /// It goes on.
        Allow = 0, "TM_ACTION_ALLOW", "allow";
        /// It goes on, and an event tells.
        Log = 1, "TM_ACTION_LOG", "log";
        /// It is refused.
        Deny = 2, "TM_ACTION_DENY", "deny";
    }
}

abi_enum! {
    /// How the files of a file system are treated.
    Treatment {
        /// All changes pass the kernel's hooks, so a verdict is kept.
        Cache = 1, "TM_FS_CACHE", "cache";
        /// It can change unseen, so a file is hashed at every use.
        Hash = 2, "TM_FS_HASH", "hash";
        /// Nothing on it runs.
        Deny = 3, "TM_FS_DENY", "deny";
    }
}

abi_enum! {
    /// What a program may do beyond the rules, or may not do.
    Role {
        /// It may make anonymous memory executable.
        Jit = 1, "TM_ROLE_JIT", "jit";
        /// It may trace and write into other processes.
        Debugger = 2, "TM_ROLE_DEBUGGER", "debugger";
        /// It is started by the `#!` line of an approved script, or not at all.
        Interpreter = 4, "TM_ROLE_INTERPRETER", "interpreter";
        /// Touchmark's own: it may change what is guarded.
        Steer = 8, "TM_ROLE_STEER", "steer";
        /// Touchmark's daemon: nobody else may signal it.
        Daemon = 16, "TM_ROLE_DAEMON", "daemon";
    }
}

abi_enum! {
    /// The hook that asked for a decision.
    Hook {
        /// `bprm_check_security`: a program, a script or its interpreter.
        Exec = 1, "TM_HOOK_EXEC", "exec";
        /// `mmap_file`: a file mapped executable, such as a library, or anonymous memory.
        Mmap = 2, "TM_HOOK_MMAP", "mmap";
        /// `file_mprotect`: a mapping made executable later.
        Mprotect = 3, "TM_HOOK_MPROTECT", "mprotect";
        /// `bprm_creds_for_exec` with `AT_EXECVE_CHECK`: an interpreter asks about a script.
        Check = 4, "TM_HOOK_CHECK", "check";
        /// `kernel_read_file` and `kernel_load_data`: modules, firmware, kexec images.
        Read = 5, "TM_HOOK_READ", "read";
        /// `file_open` for writing and `path_truncate`.
        Open = 6, "TM_HOOK_OPEN", "open";
        /// `ptrace_access_check` and `ptrace_traceme`.
        Ptrace = 7, "TM_HOOK_PTRACE", "ptrace";
        /// `inode_unlink` and `inode_rename` of a pin.
        Unlink = 8, "TM_HOOK_UNLINK", "unlink";
        /// `sb_umount` of a mount that the pins live on.
        Umount = 9, "TM_HOOK_UMOUNT", "umount";
        /// `bpf_map` and `bpf_prog`: a descriptor of what is Touchmark's.
        Bpf = 10, "TM_HOOK_BPF", "bpf";
        /// `task_kill` of the daemon.
        Kill = 11, "TM_HOOK_KILL", "kill";
        /// `locked_down`: ways into the running kernel.
        Lockdown = 12, "TM_HOOK_LOCKDOWN", "lockdown";
        /// `task_prctl`: a process that names another file as its program.
        Prctl = 14, "TM_HOOK_PRCTL", "prctl";
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
        /// The content or its signature is on the revocation list.
        Revoked = 5, "TM_DENY_REVOKED", "revoked";
        /// Open for writing, or mapped shared and writable.
        Writable = 6, "TM_DENY_WRITABLE", "open-for-writing";
        /// On a file system that the policy refuses.
        Filesystem = 7, "TM_DENY_FILESYSTEM", "untrusted-filesystem";
        /// The kernel gave no SHA-256 digest.
        NoDigest = 8, "TM_DENY_DIGEST", "no-digest";
        /// Made executable by mprotect without ever having been checked.
        Unchecked = 9, "TM_DENY_UNCHECKED", "unchecked-mprotect";
        /// No memory for the check.
        NoMemory = 10, "TM_DENY_MEMORY", "no-memory";
        /// Executable memory that is no file's content.
        Anonymous = 11, "TM_DENY_ANONYMOUS", "anonymous";
        /// The program would start under a tracer.
        Traced = 12, "TM_DENY_TRACED", "traced";
        /// Tracing, or another process's memory.
        Ptrace = 13, "TM_DENY_PTRACE", "ptrace";
        /// `/proc/PID/mem` opened for writing.
        ProcessMemory = 14, "TM_DENY_PROCESS_MEMORY", "process-memory";
        /// An interpreter started by hand.
        DirectInterpreter = 15, "TM_DENY_INTERPRETER", "direct-interpreter";
        /// Code for the kernel that comes from memory, not from a file.
        KernelBuffer = 16, "TM_DENY_BUFFER", "kernel-buffer";
        /// Opening for writing what is mapped executable.
        Mapped = 17, "TM_DENY_MAPPED", "mapped";
        /// Changing what is Touchmark's own.
        Guarded = 18, "TM_DENY_GUARDED", "guarded";
        /// What kernel lockdown would refuse.
        Locked = 19, "TM_DENY_LOCKED", "locked";
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
    pub(crate) const HASHES: u32 = 20;
    pub(crate) const SEALED: u32 = 21;
    pub(crate) const DROPPED_OPEN: u32 = 22;
    pub(crate) const DROPPED_TRUNCATE: u32 = 23;
    pub(crate) const DROPPED_XATTR: u32 = 24;
    pub(crate) const DROPPED_POLICY: u32 = 25;
    pub(crate) const EVENTS_LOST: u32 = 26;
    pub(crate) const PERMITTED: u32 = 27;
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
        let mirrored =
            [Mode::C_NAMES, Action::C_NAMES, Treatment::C_NAMES, Role::C_NAMES, Hook::C_NAMES, Reason::C_NAMES]
                .concat();
        for (name, number) in &mirrored {
            assert_eq!(header.get(*name), Some(&u64::from(*number)), "{name}");
        }
        assert_eq!(header["TM_REASONS"], Reason::ALL.len() as u64);
        assert_eq!(header["TM_ABI_VERSION"], u64::from(ABI_VERSION));
        assert_eq!(header["TM_PATH_SIZE"], PATH_SIZE as u64);
        assert_eq!(header["TM_KIND_SIGNATURE"], u64::from(KIND_SIGNATURE));
        for (name, number) in [
            ("TM_FLAG_LOG_ALLOWED", flag::LOG_ALLOWED),
            ("TM_FLAG_REFUSE_WRITABLE", flag::REFUSE_WRITABLE),
            ("TM_FLAG_PROTECT_MAPPED", flag::PROTECT_MAPPED),
            ("TM_FLAG_GUARD", flag::GUARD),
            ("TM_FLAG_LOCK", flag::LOCK),
            ("TM_GUARDED_MAP", guarded::MAP),
            ("TM_GUARDED_PROGRAM", guarded::PROGRAM),
            ("TM_GUARDED_PIN", guarded::PIN),
            ("TM_GUARDED_MOUNT", guarded::MOUNT),
            ("TM_GUARDED_FILESYSTEM", guarded::FILESYSTEM),
            ("TM_COUNT_HASHES", counter::HASHES),
            ("TM_COUNT_SEALED", counter::SEALED),
            ("TM_COUNT_DROPPED_OPEN", counter::DROPPED_OPEN),
            ("TM_COUNT_DROPPED_TRUNCATE", counter::DROPPED_TRUNCATE),
            ("TM_COUNT_DROPPED_XATTR", counter::DROPPED_XATTR),
            ("TM_COUNT_DROPPED_POLICY", counter::DROPPED_POLICY),
            ("TM_COUNT_EVENTS_LOST", counter::EVENTS_LOST),
            ("TM_COUNT_PERMITTED", counter::PERMITTED),
        ] {
            assert_eq!(header.get(name), Some(&u64::from(number)), "{name}");
        }
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
