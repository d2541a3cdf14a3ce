/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The verdict in an inode's storage, and when it counts.
 *
 * A check takes time, and a writer may come while it lasts. So the storage carries a counter that every would-be
 * writer raises, and the verdict carries the counter's value from before the file was hashed: whichever of the two
 * is stored last, a verdict over old content never matches. A writer also clears the verdict, so that a counter
 * that went all the way round does not revive it.
 */
#ifndef TOUCHMARK_VERDICT_H
#define TOUCHMARK_VERDICT_H

#include "maps.h"

static __always_inline __u64 stamp(const struct tm_policy *policy, __u32 changes)
{
	return (__u64)policy->generation << 32 | changes;
}

static __always_inline bool has_verdict(const struct tm_policy *policy, struct inode *inode)
{
	struct tm_inode *state = bpf_inode_storage_get(&inodes, inode, 0, 0);

	return state && state->approved == stamp(policy, state->changes);
}

static __always_inline void drop_verdict(struct inode *inode)
{
	struct tm_inode *state = bpf_inode_storage_get(&inodes, inode, 0, 0);

	if (!state)
		return;
	__sync_fetch_and_add(&state->changes, 1);
	if (state->approved) {
		state->approved = 0;
		count(TM_COUNT_VERDICTS_DROPPED);
	}
}

/*
 * The kernel raises i_writecount before it calls file_open, and lowers it when the last writer's struct file goes,
 * which a shared mapping keeps alive. Kernels 6.11 and 6.12 do not refuse a write to a running program; this does
 * not rely on that.
 */
static __always_inline bool may_be_written(struct inode *inode)
{
	return inode->i_writecount.counter > 0 || inode->i_mapping->i_mmap_writable.counter > 0;
}

/* File systems whose content can change without passing our hooks: uapi/linux/magic.h and the file systems' own. */
static __always_inline bool may_change_unseen(struct inode *inode)
{
	switch (inode->i_sb->s_magic) {
	case 0x6969:		/* NFS */
	case 0x65735546:	/* FUSE, virtio-fs */
	case 0xff534d42:	/* CIFS */
	case 0xfe534d42:	/* SMB2 */
	case 0x517b:		/* SMB */
	case 0x01021997:	/* 9P */
	case 0x00c36400:	/* Ceph */
	case 0x5346414f:	/* AFS */
	case 0x6b414653:	/* AFS, kernel's own */
	case 0x73757245:	/* Coda */
	case 0x01161970:	/* GFS2: another node may write */
	case 0x7461636f:	/* OCFS2 */
	case 0x0bd00bd0:	/* Lustre */
	case 0x47504653:	/* GPFS */
	case 0x19830326:	/* FhGFS, BeeGFS */
	case 0x786f4256:	/* VirtualBox shared folders */
	case 0x794c7630:	/* overlayfs: a layer may be written below it */
	case 0xf15f:		/* eCryptfs, likewise */
		return true;
	}
	return false;
}

#endif
