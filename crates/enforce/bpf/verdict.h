/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What is kept in an inode's storage, and when it counts.
 *
 * A check takes time, and a writer may come while it lasts. So the storage carries a counter that every would-be
 * writer raises, and the verdict carries the counter's value from before the file was hashed: whichever of the two
 * is stored last, a verdict over old content never matches. A writer also clears the verdict, so that a counter
 * that went all the way round does not revive it. The digest is kept beside it in the same way: unlike the verdict it
 * outlives a change of policy, and tells what role a running program has.
 */
#ifndef TOUCHMARK_VERDICT_H
#define TOUCHMARK_VERDICT_H

#include "maps.h"

static __always_inline __u64 stamp(const struct tm_policy *policy, __u32 changes)
{
	return (__u64)policy->generation << 32 | changes;
}

static __always_inline bool has_verdict(const struct tm_policy *policy, const struct tm_inode *state)
{
	return state->approved == stamp(policy, state->changes);
}

static __always_inline bool knows_digest(const struct tm_inode *state)
{
	return state->known && state->known == state->changes + 1;
}

/* The digest of the content as it was when the counter stood at `changes`. */
static __always_inline void keep_digest(struct tm_inode *state, const struct tm_key *key, __u32 changes)
{
	if (knows_digest(state) || state->changes != changes)
		return;
	state->key = *key;
	state->known = changes + 1;
}

static __always_inline void drop_verdict(struct tm_inode *state, enum tm_counter why)
{
	__sync_fetch_and_add(&state->changes, 1);
	if (state->approved) {
		state->approved = 0;
		count(why);
	}
}

/* memfd_create(), System V shared memory, MAP_HUGETLB: on tmpfs or hugetlbfs, under no name. */
static __always_inline bool is_memory_file(struct inode *inode)
{
	unsigned long magic = inode->i_sb->s_magic;

	return inode->i_nlink == 0 && (magic == TMPFS_MAGIC || magic == HUGETLBFS_MAGIC);
}

/* Whoever made a memory file may write to it, and i_writecount knows nothing of that; seals are for good. */
static __always_inline bool is_open_memory_file(struct inode *inode)
{
	const unsigned int all = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE;
	struct shmem_inode_info *memory;

	if (!is_memory_file(inode))
		return false;
	if (inode->i_sb->s_magic != TMPFS_MAGIC)
		return true;
	memory = container_of(inode, struct shmem_inode_info, vfs_inode);
	return (BPF_CORE_READ(memory, seals) & all) != all;
}

/*
 * The kernel raises i_writecount before it calls file_open, and lowers it when the last writer's struct file goes,
 * which a shared mapping keeps alive. Kernels 6.11 and 6.12 do not refuse a write to a running program; this does
 * not rely on that.
 */
static __always_inline bool may_be_written(struct inode *inode)
{
	return inode->i_writecount.counter > 0 || inode->i_mapping->i_mmap_writable.counter > 0 ||
	       is_open_memory_file(inode);
}

/* Longer than the way from mmap_file to the mapping in the tree; 64 ms at 250 Hz. */
#define MAPPING_JIFFIES 16

/*
 * Whether approved content may be mapped executable now. The tree of mappings cannot be searched from here, so any
 * mapping counts; and one that was allowed a moment ago may not be in the tree yet.
 */
static __always_inline bool may_be_mapped(struct inode *inode, const struct tm_inode *state)
{
	return inode->i_mapping->i_mmap.rb_root.rb_node || bpf_jiffies64() - state->used < MAPPING_JIFFIES;
}

#endif
