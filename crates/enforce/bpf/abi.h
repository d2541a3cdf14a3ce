/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 OR MIT */
/*
 * What the BPF programs and user space agree on: the maps' keys and values, the events, the numbers.
 * src/abi.rs mirrors this file; both sides assert the sizes, and a test compares every number.
 * Change TM_ABI_VERSION with any change here: it keeps a new daemon from misreading old pinned maps.
 */
#ifndef TOUCHMARK_ABI_H
#define TOUCHMARK_ABI_H

#define TM_ABI_VERSION 3

#define TM_DIGEST_SIZE 32
#define TM_COMM_SIZE 16
#define TM_PATH_SIZE 1024
/* A detached CMS signature of ours by an RSA-4096 key is about 700 bytes; the issuer's name may be long. */
#define TM_SIGNATURE_MAX 2048

/* The signed statement (docs/formats.md): a fixed header, then the digest. */
#define TM_STATEMENT_SIZE 48
#define TM_STATEMENT_VERSION 1
#define TM_KIND_FILE 1
#define TM_KIND_FSVERITY 3
/* Not a statement's kind: in the map `revoked`, the id of a signature (docs/formats.md, "Revocation list"). */
#define TM_KIND_SIGNATURE 256

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
	TM_FLAG_LOG_ALLOWED = 1,	/* an event also for what was allowed after a check (never for cached verdicts) */
	TM_FLAG_REFUSE_WRITABLE = 2,	/* what is open for writing, or mapped shared and writable, does not run */
	TM_FLAG_PROTECT_MAPPED = 4,	/* what is mapped executable is not opened for writing */
	TM_FLAG_GUARD = 8,		/* pins, maps, programs and daemon are Touchmark's own to change */
	TM_FLAG_LOCK = 16,		/* for user space: only a signed order weakens the policy */
};

/* What happens to an operation that is a matter of taste. */
enum tm_action {
	TM_ACTION_ALLOW = 0,
	TM_ACTION_LOG = 1,	/* it goes on, and an event tells */
	TM_ACTION_DENY = 2,
};

/* How files of a file system are treated. */
enum tm_filesystem {
	TM_FS_CACHE = 1,	/* all changes pass the hooks: a verdict is kept */
	TM_FS_HASH = 2,		/* it can change unseen: hashed at every use */
	TM_FS_DENY = 3,		/* nothing on it runs */
};

/* Key of the map `filesystems`: super_block.s_magic, or this and the major number of the device that holds it. */
#define TM_FS_BY_MAJOR (1ULL << 32)

/* What a program may do beyond the rules, or may not do. Granted by its content, in the map `roles`. */
enum tm_role {
	TM_ROLE_JIT = 1,		/* may make anonymous memory executable */
	TM_ROLE_DEBUGGER = 2,		/* may trace and write into other processes */
	TM_ROLE_INTERPRETER = 4,	/* is started by the #! line of an approved script, or not at all */
	TM_ROLE_STEER = 8,		/* Touchmark's own: may write the maps and remove the pins */
	TM_ROLE_DAEMON = 16,		/* Touchmark's daemon: nobody else may signal it */
};

/* Which hook asked. */
enum tm_hook {
	TM_HOOK_EXEC = 1,	/* bprm_check_security: programs, scripts, their interpreters */
	TM_HOOK_MMAP = 2,	/* mmap_file with PROT_EXEC: libraries, the dynamic linker's arguments, anonymous memory */
	TM_HOOK_MPROTECT = 3,	/* file_mprotect adding PROT_EXEC */
	TM_HOOK_CHECK = 4,	/* bprm_creds_for_exec with AT_EXECVE_CHECK: an interpreter asks about a script */
	TM_HOOK_READ = 5,	/* kernel_read_file, kernel_load_data: modules, firmware, kexec images */
	TM_HOOK_OPEN = 6,	/* file_open for writing, path_truncate */
	TM_HOOK_PTRACE = 7,	/* ptrace_access_check, ptrace_traceme */
	TM_HOOK_UNLINK = 8,	/* inode_unlink, inode_rename of a pin */
	TM_HOOK_UMOUNT = 9,	/* sb_umount of a mount that the pins live on */
	TM_HOOK_BPF = 10,	/* bpf_map, bpf_prog: a descriptor of what is ours */
	TM_HOOK_KILL = 11,	/* task_kill of the daemon */
	TM_HOOK_LOCKDOWN = 12,	/* locked_down: ways around the kernel's own protection */
	TM_HOOK_PRCTL = 14,	/* task_prctl: a process that names another file as its program */
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
	TM_DENY_REVOKED = 5,	/* the content or its signature is on the revocation list */
	TM_DENY_WRITABLE = 6,	/* open for writing, or mapped shared and writable */
	TM_DENY_FILESYSTEM = 7,	/* on a file system that the policy refuses */
	TM_DENY_DIGEST = 8,	/* the kernel gave no SHA-256 of the file */
	TM_DENY_UNCHECKED = 9,	/* mprotect of a file that was never checked: it cannot be hashed at that point */
	TM_DENY_MEMORY = 10,	/* no memory for the check */
	TM_DENY_ANONYMOUS = 11,	/* executable memory that is no file's content */
	TM_DENY_TRACED = 12,	/* the program would start under a tracer */
	TM_DENY_PTRACE = 13,	/* tracing, or reading and writing another process's memory */
	TM_DENY_PROCESS_MEMORY = 14,	/* /proc/PID/mem opened for writing */
	TM_DENY_INTERPRETER = 15,	/* an interpreter started by hand */
	TM_DENY_BUFFER = 16,	/* code for the kernel that comes from memory, not from a file */
	TM_DENY_MAPPED = 17,	/* opening for writing what is mapped executable */
	TM_DENY_GUARDED = 18,	/* changing what is Touchmark's own */
	TM_DENY_LOCKED = 19,	/* what kernel lockdown would refuse */

	TM_REASONS = 20,
};
#define TM_DENY_FIRST TM_DENY_UNSIGNED

/* Counters beside those of the reasons. */
enum tm_counter {
	TM_COUNT_HASHES = TM_REASONS,	/* files hashed */
	TM_COUNT_SEALED,		/* fs-verity digests taken instead */
	TM_COUNT_DROPPED_OPEN,		/* verdicts dropped because the file was opened for writing */
	TM_COUNT_DROPPED_TRUNCATE,	/* because it was truncated by path */
	TM_COUNT_DROPPED_XATTR,		/* because its signature was changed */
	TM_COUNT_DROPPED_POLICY,	/* because a policy or a revocation list came since */
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
	__u8 anonymous;		/* enum tm_action: executable memory that is no file's content */
	__u8 ptrace;		/* enum tm_action: writing into other processes */
	__u8 buffers;		/* enum tm_action: code for the kernel from memory */
	__u8 filesystems;	/* enum tm_filesystem: those without a block device that the map does not name */
	__u64 revocations;	/* version of the revocation list in force; 0: none */
	__u8 state[TM_DIGEST_SIZE];	/* SHA-256 of the daemon's state file, which root could replace */
};

/* Key of the maps `approved`, `revoked` and `roles`: what was signed, so that kinds are never confused. */
struct tm_key {
	__u32 kind;
	__u8 id[TM_DIGEST_SIZE];
};

/* Value of the map `approved`. */
struct tm_approval {
	__u64 since_ns;		/* CLOCK_BOOTTIME */
	__u8 signer[TM_DIGEST_SIZE];	/* SHA-256 of the certificate that vouched for it; zeros: unknown */
	__u8 signature[TM_DIGEST_SIZE];	/* id of the signature by which it did; zeros: unknown */
};

/* Inode storage. */
struct tm_inode {
	__u64 approved;		/* stamp of the policy generation and the change counter it was approved at; 0: not */
	__u32 changes;		/* rises whenever the content may change from here on */
	__u32 known;		/* `changes` when the key below was taken, plus 1; 0: never */
	__u64 used;		/* jiffies when the verdict was last asked for */
	struct tm_key key;	/* the content's digest */
	__u32 reserved;
};

/* Key of the map `guarded`. */
enum tm_guarded_kind {
	TM_GUARDED_MAP = 1,	/* id: the map's */
	TM_GUARDED_PROGRAM = 2,	/* id: the program's */
	TM_GUARDED_PIN = 3,	/* device and inode number, in the BPF file system */
	TM_GUARDED_MOUNT = 4,	/* id: the mount's */
	TM_GUARDED_FILESYSTEM = 5,	/* device of the BPF file system with the pins */
};

struct tm_guarded {
	__u32 kind;		/* enum tm_guarded_kind */
	__u32 device;		/* kernel encoding; 0 but for pins and file systems */
	__u64 id;
};

/* A decision, as it goes through the ring buffer `events`. */
struct tm_event {
	__u64 time_ns;		/* CLOCK_BOOTTIME */
	__u64 inode;
	__u32 device;		/* kernel encoding: major << 20 | minor */
	__u32 pid;		/* process (thread group) in the initial pid namespace */
	__u32 parent;
	__u32 uid;
	__u32 target;		/* the process that was acted on; 0: none */
	__s32 error;		/* detail of the reason: a negative errno, or 0 */
	__u8 hook;		/* enum tm_hook */
	__u8 reason;		/* enum tm_reason */
	__u8 blocked;		/* 1: the operation failed; 0: it went on */
	__u8 has_digest;
	__u32 digest_kind;	/* TM_KIND_FILE or TM_KIND_FSVERITY */
	__u8 digest[TM_DIGEST_SIZE];
	char comm[TM_COMM_SIZE];
	__u32 path_is_name;	/* 1: only the last component could be had */
	__u32 path_len;		/* without the NUL; 0: unknown */
	char path[TM_PATH_SIZE];
};

_Static_assert(sizeof(struct tm_policy) == 80, "abi");
_Static_assert(sizeof(struct tm_key) == 36, "abi");
_Static_assert(sizeof(struct tm_approval) == 72, "abi");
_Static_assert(sizeof(struct tm_inode) == 64, "abi");
_Static_assert(sizeof(struct tm_guarded) == 16, "abi");
_Static_assert(sizeof(struct tm_event) == 104 + TM_PATH_SIZE, "abi");

#endif
