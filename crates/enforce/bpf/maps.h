/* SPDX-License-Identifier: GPL-2.0-only */
/* The maps, each pinned by the loader under its name, and the small functions that read and write them. */
#ifndef TOUCHMARK_MAPS_H
#define TOUCHMARK_MAPS_H

#include "kernel.h"
#include "abi.h"

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 2);
	__type(key, __u32);
	__type(value, struct tm_policy);
} policies SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} active SEC(".maps");

/* Verdicts live and die with the kernel's inode: no size to choose, nothing to evict. */
struct {
	__uint(type, BPF_MAP_TYPE_INODE_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct tm_inode);
} inodes SEC(".maps");

#define HASH_MAP(name, entries, key_type, value_type)		\
	struct {						\
		__uint(type, BPF_MAP_TYPE_HASH);		\
		__uint(map_flags, BPF_F_NO_PREALLOC);		\
		__uint(max_entries, entries);			\
		__type(key, key_type);				\
		__type(value, value_type);			\
	} name SEC(".maps")

HASH_MAP(approved, 262144, struct tm_key, struct tm_approval);
HASH_MAP(revoked, 65536, struct tm_key, __u64);		/* since when, CLOCK_BOOTTIME */
HASH_MAP(roles, 1024, struct tm_key, __u32);		/* enum tm_role, or-ed */
HASH_MAP(filesystems, 256, __u64, __u8);		/* enum tm_filesystem */
HASH_MAP(guarded, 256, struct tm_guarded, __u8);

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, TM_COUNTERS);
	__type(key, __u32);
	__type(value, __u64);
} counters SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 20);
} events SEC(".maps");

/*
 * Room for one signature check. It is too large for the stack, and a per-CPU buffer would be overwritten when the
 * check sleeps; so it belongs to the task, and only while the check lasts.
 */
struct scratch {
	__u8 statement[TM_STATEMENT_SIZE];
	__u8 signature[TM_SIGNATURE_MAX];
	struct tm_key id;	/* of the signature */
	__u32 at;		/* the walk through the signature: cms.h */
	__u32 end;
	__u32 bad;
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct scratch);
} scratches SEC(".maps");

/* Its allocator never waits and may fail for a moment; a refusal for that would be a false one. */
static __always_inline struct scratch *take_scratch(struct task_struct *task)
{
	struct scratch *scratch = NULL;

	for (int tries = 0; tries < 8 && !scratch; tries++)
		scratch = bpf_task_storage_get(&scratches, task, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	return scratch;
}

static __always_inline const struct tm_policy *active_policy(void)
{
	__u32 key = 0;
	__u32 *slot = bpf_map_lookup_elem(&active, &key);

	if (!slot)
		return NULL;
	key = *slot & 1;
	return bpf_map_lookup_elem(&policies, &key);
}

static __always_inline void count(__u32 counter)
{
	__u64 *value = bpf_map_lookup_elem(&counters, &counter);

	/* Atomic, because a sleepable program can be preempted by another on the same CPU. */
	if (value)
		__sync_fetch_and_add(value, 1);
}

#endif
