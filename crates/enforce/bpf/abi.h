/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 OR MIT */
/*
 * What the BPF programs and user space agree on: the maps' keys and values, the events, the numbers.
 * src/abi.rs mirrors this file; both sides assert the sizes, and a test compares every number.
 * Change TM_ABI_VERSION with any change here: it keeps a new daemon from misreading old pinned maps.
 */
#ifndef TOUCHMARK_ABI_H
#define TOUCHMARK_ABI_H

#define TM_ABI_VERSION 1

#define TM_DIGEST_SIZE 32
#define TM_COMM_SIZE 16
#define TM_PATH_SIZE 1024
/* A detached CMS signature of ours by an RSA-4096 key is about 700 bytes; the issuer's name may be long. */
#define TM_SIGNATURE_MAX 2048

/* The signed statement (docs/formats.md): a fixed header, then the digest. */
#define TM_STATEMENT_SIZE 48
#define TM_STATEMENT_VERSION 1
#define TM_KIND_FILE 1

/* What a decision to deny does. */
enum tm_mode {
	TM_MODE_OFF = 0,	/* nothing is checked */
	TM_MODE_PERMISSIVE = 1,	/* everything is checked and reported, nothing is blocked */
	TM_MODE_ENFORCE = 2,
};

/* Whose executions are checked. */
enum tm_scope {
	TM_SCOPE_ALL = 0,
	TM_SCOPE_CGROUP = 1,	/* scope_id: the cgroup's id; its descendants are included */
	TM_SCOPE_MOUNT = 2,	/* scope_id: the file system's device number, as the kernel encodes it */
};

/* Policy switches. */
enum tm_policy_flag {
	TM_FLAG_ALLOW_UNCACHEABLE = 1,	/* network, FUSE and stacked file systems: hash at every use, instead of deny */
	TM_FLAG_LOG_ALLOWED = 2,	/* an event also for what was allowed after a check (never for cached verdicts) */
};

/* Which hook asked. */
enum tm_hook {
	TM_HOOK_EXEC = 1,	/* bprm_check_security: programs, scripts, their interpreters */
	TM_HOOK_MMAP = 2,	/* mmap_file with PROT_EXEC: libraries, the dynamic linker's arguments */
	TM_HOOK_MPROTECT = 3,	/* file_mprotect adding PROT_EXEC to a file mapping */
};

/*
 * How a decision came about, and the index of its counter. The reasons to deny start at TM_DENY_FIRST.
 */
enum tm_reason {
	TM_ALLOW_CACHED = 0,	/* the verdict was in the inode's storage */
	TM_ALLOW_DIGEST = 1,	/* the digest is in the approved map */
	TM_ALLOW_SIGNATURE = 2,	/* the user.touchmark signature verified */

	TM_DENY_UNSIGNED = 3,	/* digest not approved, no signature the kernel can check */
	TM_DENY_SIGNATURE = 4,	/* there is a signature, and it is not one of this content by a trusted key */
	TM_DENY_REVOKED = 5,
	TM_DENY_WRITABLE = 6,	/* open for writing, or mapped shared and writable */
	TM_DENY_FILESYSTEM = 7,	/* content can change unseen, and the policy says no */
	TM_DENY_DIGEST = 8,	/* the kernel gave no SHA-256 of the file */
	TM_DENY_UNCHECKED = 9,	/* mprotect of a file that was never checked: it cannot be hashed at that point */
	TM_DENY_MEMORY = 10,	/* no memory for the check */

	TM_REASONS = 11,
};
#define TM_DENY_FIRST TM_DENY_UNSIGNED

/* Counters beside those of the reasons. */
enum tm_counter {
	TM_COUNT_HASHES = TM_REASONS,	/* files hashed */
	TM_COUNT_VERDICTS_DROPPED,	/* cached verdicts dropped because the file may change */
	TM_COUNT_EVENTS_LOST,		/* no room in the ring buffer */
	TM_COUNT_PERMITTED,		/* decisions to deny that permissive mode let through */
	TM_COUNTERS,
};

/* One policy. Two lie in the map `policies`; the map `active` says which one counts, so a change is atomic. */
struct tm_policy {
	__u32 abi_version;
	__u32 generation;	/* never 0; a verdict of another generation does not count */
	__u8 mode;		/* enum tm_mode */
	__u8 scope;		/* enum tm_scope */
	__u16 cgroup_level;	/* depth of the scope's cgroup below the root */
	__u32 flags;		/* enum tm_policy_flag */
	__u64 scope_id;
	__u64 enforce_until_ns;	/* CLOCK_BOOTTIME; from then on as permissive (--trial). 0: for good */
	__s32 keyring;		/* serial of the keyring with the trusted certificates; 0: none */
	__u32 reserved;
};

/* Key of the maps `approved` and `revoked`. */
struct tm_digest {
	__u8 sha256[TM_DIGEST_SIZE];
};

/* Value of the map `approved`: which policy generation's certificates vouched for it is for user space to know. */
struct tm_approval {
	__u64 since_ns;		/* CLOCK_BOOTTIME */
};

/* Inode storage. */
struct tm_inode {
	__u64 approved;		/* stamp of the policy generation and the change counter it was approved at; 0: not */
	__u32 changes;		/* rises whenever the content may change from here on */
	__u32 reserved;
};

/* A decision, as it goes through the ring buffer `events`. */
struct tm_event {
	__u64 time_ns;		/* CLOCK_BOOTTIME */
	__u64 inode;
	__u32 device;		/* kernel encoding: major << 20 | minor */
	__u32 pid;		/* process (thread group) in the initial pid namespace */
	__u32 parent;
	__u32 uid;
	__s32 error;		/* detail of the reason: a negative errno, or 0 */
	__u8 hook;		/* enum tm_hook */
	__u8 reason;		/* enum tm_reason */
	__u8 blocked;		/* 1: the operation failed; 0: it went on */
	__u8 has_digest;
	__u8 digest[TM_DIGEST_SIZE];
	char comm[TM_COMM_SIZE];
	__u32 path_is_name;	/* 1: only the last component could be had */
	__u32 path_len;		/* without the NUL; 0: unknown */
	char path[TM_PATH_SIZE];
};

_Static_assert(sizeof(struct tm_policy) == 40, "abi");
_Static_assert(sizeof(struct tm_digest) == 32, "abi");
_Static_assert(sizeof(struct tm_approval) == 8, "abi");
_Static_assert(sizeof(struct tm_inode) == 16, "abi");
_Static_assert(sizeof(struct tm_event) == 96 + TM_PATH_SIZE, "abi");

#endif
