/* SPDX-License-Identifier: GPL-2.0-only */
/* The decision about a file: the list in ARCHITECTURE.md, "The decision". */
#ifndef TOUCHMARK_CHECK_H
#define TOUCHMARK_CHECK_H

#include "filesystem.h"
#include "signature.h"
#include "event.h"

/* include/uapi/linux/fsverity.h: struct fsverity_digest, and the first algorithm. */
struct verity_digest {
	__u16 algorithm;
	__u16 size;
	__u8 bytes[TM_DIGEST_SIZE];
};
#define FS_VERITY_HASH_ALG_SHA256 1

static __noinline int measure_sealed(struct file *file, struct tm_key *key)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct scratch *scratch = take_scratch(task);
	struct verity_digest *measured;
	struct bpf_dynptr into;
	int ret;

	if (!scratch)
		return -ENOMEM;
	measured = (struct verity_digest *)scratch->signature;
	bpf_dynptr_from_mem(scratch->signature, sizeof(*measured), 0, &into);
	ret = bpf_get_fsverity_digest(file, &into);
	if (ret >= 0)
		ret = measured->algorithm == FS_VERITY_HASH_ALG_SHA256 ? 0 : -EOPNOTSUPP;
	__builtin_memcpy(key->id, measured->bytes, TM_DIGEST_SIZE);
	bpf_task_storage_delete(&scratches, task);
	return ret;
}

/* The kernel vouches for the content of a sealed file with every page it reads, so its digest is there already. */
static __always_inline bool sealed_digest(struct file *file, struct tm_key *key)
{
	if (!kernel_has.signatures || !(file->f_inode->i_flags & S_VERITY) || measure_sealed(file, key))
		return false;
	key->kind = TM_KIND_FSVERITY;
	count(TM_COUNT_SEALED);
	return true;
}

/* 0, or what the kernel said instead of SHA-256. */
static __always_inline int whole_digest(struct file *file, struct tm_key *key)
{
	int found = bpf_ima_file_hash(file, key->id, TM_DIGEST_SIZE);

	count(TM_COUNT_HASHES);
	if (found != HASH_ALGO_SHA256)
		return found < 0 ? found : -EOPNOTSUPP;
	key->kind = TM_KIND_FILE;
	return 0;
}

/* By one digest of the content. */
static __noinline int judge_key(struct file *file, const struct tm_policy *policy, struct verdict *verdict)
{
	if (bpf_map_lookup_elem(&revoked, &verdict->key))
		return TM_DENY_REVOKED;
	if (bpf_map_lookup_elem(&approved, &verdict->key))
		return TM_ALLOW_DIGEST;
	verdict->error = verify_signature(file, &verdict->key, policy->keyring);
	switch (verdict->error) {
	case 0:
		return TM_ALLOW_SIGNATURE;
	case -ENOMEM:
		return TM_DENY_MEMORY;
	case -EKEYREVOKED:
		return TM_DENY_REVOKED;
	case -ENODATA:
	case -EOPNOTSUPP:
	case -EPERM:		/* not a regular file */
		return TM_DENY_UNSIGNED;
	}
	return TM_DENY_SIGNATURE;
}

/* A sealed file may still be approved by what its whole content hashes to: it is read then, once. */
static __always_inline int judge_content(struct file *file, const struct tm_policy *policy, struct verdict *verdict,
					 struct tm_inode *state, __u32 changes)
{
	int reason;

	if (sealed_digest(file, &verdict->key)) {
		reason = judge_key(file, policy, verdict);
		if (reason < TM_DENY_FIRST || reason == TM_DENY_REVOKED) {
			if (state)
				keep_digest(state, &verdict->key, changes);
			return reason;
		}
	}
	verdict->key.kind = 0;
	verdict->error = whole_digest(file, &verdict->key);
	if (verdict->error)
		return TM_DENY_DIGEST;
	if (state)
		keep_digest(state, &verdict->key, changes);
	return judge_key(file, policy, verdict);
}

/* The slow way: once per content and policy generation, where the file system lets a verdict be kept. */
static __noinline int check_uncached(struct file *file, const struct tm_policy *policy, struct verdict *verdict)
{
	bool refuse_writable = policy->flags & TM_FLAG_REFUSE_WRITABLE;
	struct inode *inode = file->f_inode;
	enum tm_filesystem treated = treatment(policy, inode);
	struct tm_inode *state = NULL;
	__u32 changes = 0;
	int reason;

	if (treated == TM_FS_DENY)
		return TM_DENY_FILESYSTEM;
	if (treated == TM_FS_CACHE) {
		/* Without storage (from 7.0 on its allocator may fail for a moment) the verdict is just not kept. */
		state = bpf_inode_storage_get(&inodes, inode, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
		if (state)
			changes = *(volatile __u32 *)&state->changes;
	}
	if (may_be_written(inode)) {
		if (refuse_writable)
			return TM_DENY_WRITABLE;
		state = NULL;
	}
	reason = judge_content(file, policy, verdict, state, changes);
	if (reason >= TM_DENY_FIRST)
		return reason;
	if (may_be_written(inode))
		return refuse_writable ? TM_DENY_WRITABLE : reason;
	if (state) {
		if (state->approved && state->approved >> 32 != policy->generation)
			count(TM_COUNT_DROPPED_POLICY);
		state->used = bpf_jiffies64();
		state->approved = stamp(policy, changes);
	}
	return reason;
}

/* The policy to judge the file by; NULL if it may go on: nothing is checked here, or its verdict stands. */
static __always_inline const struct tm_policy *policy_to_judge(struct file *file)
{
	const struct tm_policy *policy = active_policy();
	struct inode *inode = file->f_inode;
	struct tm_inode *state;

	if (!policy || policy->mode == TM_MODE_OFF || !file_in_scope(policy, inode))
		return NULL;
	state = bpf_inode_storage_get(&inodes, inode, 0, 0);
	if (state && has_verdict(policy, state)) {
		state->used = bpf_jiffies64();
		count(TM_ALLOW_CACHED);
		return NULL;
	}
	return policy;
}

static __always_inline int check_file(struct file *file, enum tm_hook hook)
{
	const struct tm_policy *policy = policy_to_judge(file);
	struct verdict verdict = { .hook = hook, .action = TM_ACTION_DENY };

	if (!policy)
		return 0;
	verdict.reason = check_uncached(file, policy, &verdict);
	return conclude(file, policy, &verdict);
}

#endif
