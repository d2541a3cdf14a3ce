/* SPDX-License-Identifier: GPL-2.0-only */
/* Those who may change a file that was approved: its verdict falls, or they are refused while it is mapped. */
#ifndef TOUCHMARK_WRITER_H
#define TOUCHMARK_WRITER_H

#include "event.h"

/* Whether the writer must be told that the text is busy. */
static __always_inline const struct tm_policy *protecting_policy(struct inode *inode, const struct tm_inode *state)
{
	const struct tm_policy *policy = active_policy();

	if (!policy || policy->mode == TM_MODE_OFF || !(policy->flags & TM_FLAG_PROTECT_MAPPED))
		return NULL;
	return has_verdict(policy, state) && may_be_mapped(inode, state) ? policy : NULL;
}

static __always_inline int check_writer(struct inode *inode, struct file *file, struct dentry *entry,
					enum tm_counter why)
{
	struct verdict verdict = { .hook = TM_HOOK_OPEN, .reason = TM_DENY_MAPPED, .action = TM_ACTION_DENY };
	struct tm_inode *state = bpf_inode_storage_get(&inodes, inode, 0, 0);
	const struct tm_policy *policy;
	int refused = 0;

	if (!state)
		return 0;
	policy = protecting_policy(inode, state);
	if (policy)
		refused = file ? conclude(file, policy, &verdict) : conclude_by_name(entry, policy, &verdict);
	if (!refused)
		drop_verdict(state, why);
	return refused;
}

/* For a change of the signature: nothing is refused, it is asked for anew. */
static __always_inline void forget_signature(struct dentry *entry, const char *name)
{
	struct inode *inode = entry->d_inode;
	struct tm_inode *state;
	char read[16] = {};

	bpf_probe_read_kernel_str(read, sizeof(read), name);
	if (!inode || bpf_strncmp(read, sizeof(read), "user.touchmark"))
		return;
	state = bpf_inode_storage_get(&inodes, inode, 0, 0);
	if (state)
		drop_verdict(state, TM_COUNT_DROPPED_XATTR);
}

#endif
