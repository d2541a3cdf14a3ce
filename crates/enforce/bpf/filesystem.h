/* SPDX-License-Identifier: GPL-2.0-only */
/* Which file systems let a verdict be kept. */
#ifndef TOUCHMARK_FILESYSTEM_H
#define TOUCHMARK_FILESYSTEM_H

#include "maps.h"

/* What the map says about this kind of file system or device; 0: nothing. */
static __always_inline __u8 named(__u64 key)
{
	__u8 *found = bpf_map_lookup_elem(&filesystems, &key);

	return found ? *found : 0;
}

/*
 * The map names the exceptions, network, stacked and clustered file systems among them; user space fills it. What it
 * does not name is kept if the file system needs a block device, and treated as the policy says if not: the author of
 * the next network file system will not ask us.
 */
static __always_inline enum tm_filesystem treatment(const struct tm_policy *policy, struct inode *inode)
{
	struct super_block *sb = inode->i_sb;
	__u8 found = named(sb->s_magic);

	if (!found)
		found = named(TM_FS_BY_MAJOR | sb->s_dev >> 20);
	/* A user who mounts a stacked file system for himself writes to what is mapped of it, below and unseen. */
	if (found == TM_FS_HASH && BPF_CORE_READ(sb, s_user_ns, level))
		return TM_FS_DENY;
	if (found)
		return found;
	return sb->s_type->fs_flags & FS_REQUIRES_DEV ? TM_FS_CACHE : policy->filesystems;
}

#endif
