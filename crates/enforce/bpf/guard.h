/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What is Touchmark's own: its maps, programs and pins, and the mounts that those live on. Touchmark's own programs,
 * known by their digest, may change them; nobody else may, root included. Other people's BPF is not concerned.
 */
#ifndef TOUCHMARK_GUARD_H
#define TOUCHMARK_GUARD_H

#include "process.h"

/* The policy under which this is refused; NULL: it is not guarded, or the one who asks is one of us. */
static __always_inline const struct tm_policy *guarding_policy(__u32 kind, __u32 device, __u64 id)
{
	struct tm_guarded key = { .kind = kind, .device = device, .id = id };
	const struct tm_policy *policy = active_policy();

	if (!guards(policy) || !bpf_map_lookup_elem(&guarded, &key))
		return NULL;
	return roles_of(bpf_get_current_task_btf()) & TM_ROLES_OWN ? NULL : policy;
}

static __always_inline int check_descriptor(__u32 kind, __u32 id)
{
	struct verdict verdict = { .hook = TM_HOOK_BPF, .reason = TM_DENY_GUARDED, .action = TM_ACTION_DENY };
	const struct tm_policy *policy = guarding_policy(kind, 0, id);

	return policy ? conclude_by_program(bpf_get_current_task_btf(), policy, &verdict) : 0;
}

static __always_inline int check_pin(struct dentry *entry)
{
	struct verdict verdict = { .hook = TM_HOOK_UNLINK, .reason = TM_DENY_GUARDED, .action = TM_ACTION_DENY };
	struct inode *inode = entry->d_inode;
	const struct tm_policy *policy;

	if (!inode || inode->i_sb->s_magic != BPF_FS_MAGIC)
		return 0;
	policy = guarding_policy(TM_GUARDED_PIN, inode->i_sb->s_dev, inode->i_ino);
	return policy ? conclude_by_name(entry, policy, &verdict) : 0;
}

/* The pins live as long as the file system is mounted somewhere; whoever detaches a mount above takes it along. */
static __always_inline int check_unmount(struct vfsmount *mounted)
{
	struct verdict verdict = { .hook = TM_HOOK_UMOUNT, .reason = TM_DENY_GUARDED, .action = TM_ACTION_DENY };
	struct mount *mount = (void *)mounted - __builtin_preserve_field_info(((struct mount *)0)->mnt,
									      BPF_FIELD_BYTE_OFFSET);
	const struct tm_policy *policy = guarding_policy(TM_GUARDED_MOUNT, 0, BPF_CORE_READ(mount, mnt_id));

	return policy ? conclude_by_program(bpf_get_current_task_btf(), policy, &verdict) : 0;
}

#endif
