// SPDX-License-Identifier: GPL-2.0-only
/*
 * Touchmark in the kernel: what may run.
 *
 *   hook                  sleeps  duty
 *   bprm_check_security   yes     the program, each script, each interpreter          -> check_file
 *   mmap_file             yes     PROT_EXEC: libraries, and `ld.so ./program`         -> check_file
 *   file_mprotect         no      a file mapping made executable later                -> verdict only
 *   file_open             no      for writing: drop the verdict
 *   path_truncate         no      truncate by path, which opens nothing: drop the verdict
 *
 * check_file() decides; the hooks are thin. The policy's mode is read at each decision, and in permissive mode no
 * path returns an error.
 */
#include "kernel.h"
#include "abi.h"
#include "maps.h"
#include "verdict.h"
#include "signature.h"
#include "event.h"

char LICENSE[] SEC("license") = "GPL";

static __always_inline bool in_scope(const struct tm_policy *policy, struct inode *inode)
{
	switch (policy->scope) {
	case TM_SCOPE_CGROUP:
		return bpf_get_current_ancestor_cgroup_id(policy->cgroup_level) == policy->scope_id;
	case TM_SCOPE_MOUNT:
		return inode->i_sb->s_dev == policy->scope_id;
	}
	return true;
}

/* The checks that need the digest, in the order of ARCHITECTURE.md's decision list. */
static __always_inline enum tm_reason judge_digest(struct file *file, const struct tm_policy *policy,
						   struct verdict *verdict)
{
	verdict->error = bpf_ima_file_hash(file, verdict->digest.sha256, TM_DIGEST_SIZE);
	count(TM_COUNT_HASHES);
	if (verdict->error != HASH_ALGO_SHA256)
		return TM_DENY_DIGEST;
	verdict->error = 0;
	verdict->has_digest = true;

	if (bpf_map_lookup_elem(&revoked, &verdict->digest))
		return TM_DENY_REVOKED;
	if (bpf_map_lookup_elem(&approved, &verdict->digest))
		return TM_ALLOW_DIGEST;
	verdict->error = verify_signature(file, &verdict->digest, policy->keyring);
	switch (verdict->error) {
	case 0:
		return TM_ALLOW_SIGNATURE;
	case -ENOMEM:
		return TM_DENY_MEMORY;
	case -ENODATA:
	case -EOPNOTSUPP:
	case -EPERM:		/* not a regular file */
		return TM_DENY_UNSIGNED;
	}
	return TM_DENY_SIGNATURE;
}

/* The slow way: once per content and policy generation, where the file system lets a verdict be kept. */
static __noinline int check_uncached(struct file *file, const struct tm_policy *policy, struct verdict *verdict)
{
	struct inode *inode = file->f_inode;
	struct tm_inode *state = NULL;
	__u32 changes = 0;

	if (!may_change_unseen(inode)) {
		/* Without storage (from 7.0 on its allocator may fail for a moment) the verdict is just not kept. */
		state = bpf_inode_storage_get(&inodes, inode, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
		if (state)
			changes = *(volatile __u32 *)&state->changes;
	} else if (!(policy->flags & TM_FLAG_ALLOW_UNCACHEABLE)) {
		return TM_DENY_FILESYSTEM;
	}
	if (may_be_written(inode))
		return TM_DENY_WRITABLE;

	int reason = judge_digest(file, policy, verdict);
	if (reason >= TM_DENY_FIRST)
		return reason;
	if (may_be_written(inode))
		return TM_DENY_WRITABLE;
	if (state)
		state->approved = stamp(policy, changes);
	return reason;
}

/* The policy to judge the file by; NULL if it may go on: nothing is checked here, or its verdict stands. */
static __always_inline const struct tm_policy *policy_to_judge(struct file *file)
{
	const struct tm_policy *policy = active_policy();
	struct inode *inode = file->f_inode;

	if (!policy || policy->mode == TM_MODE_OFF || !in_scope(policy, inode))
		return NULL;
	if (has_verdict(policy, inode)) {
		count(TM_ALLOW_CACHED);
		return NULL;
	}
	return policy;
}

static __always_inline int check_file(struct file *file, enum tm_hook hook)
{
	const struct tm_policy *policy = policy_to_judge(file);
	struct verdict verdict = { .hook = hook };

	if (!policy)
		return 0;
	verdict.reason = check_uncached(file, policy, &verdict);
	return conclude(file, policy, &verdict);
}

SEC("lsm.s/bprm_check_security")
int BPF_PROG(check_exec, struct linux_binprm *bprm)
{
	return check_file(bprm->file, TM_HOOK_EXEC);
}

SEC("lsm.s/mmap_file")
int BPF_PROG(check_mmap, struct file *file, unsigned long requested, unsigned long protection, unsigned long flags)
{
	/* `protection` is what the mapping gets, READ_IMPLIES_EXEC included; anonymous memory has no file. */
	if (!(protection & PROT_EXEC) || !file)
		return 0;
	return check_file(file, TM_HOOK_MMAP);
}

/* The mmap lock is held here, so the file cannot be read: only a verdict that stands already helps. */
SEC("lsm/file_mprotect")
int BPF_PROG(check_mprotect, struct vm_area_struct *vma, unsigned long requested, unsigned long protection)
{
	struct verdict verdict = { .hook = TM_HOOK_MPROTECT, .reason = TM_DENY_UNCHECKED };
	/* Read once: from 7.x on the verifier wants just this pointer to have been compared with NULL. */
	struct file *file = vma->vm_file;
	const struct tm_policy *policy;

	if (!(protection & PROT_EXEC) || (vma->vm_flags & VM_EXEC) || !file)
		return 0;
	policy = policy_to_judge(file);
	return policy ? conclude_without_path(file, policy, &verdict) : 0;
}

SEC("lsm/file_open")
int BPF_PROG(drop_on_open, struct file *file)
{
	if (file->f_mode & FMODE_WRITE)
		drop_verdict(file->f_inode);
	return 0;
}

SEC("lsm/path_truncate")
int BPF_PROG(drop_on_truncate, const struct path *path)
{
	drop_verdict(path->dentry->d_inode);
	return 0;
}
