/* SPDX-License-Identifier: GPL-2.0-only */
/* What else is asked when a program starts, beside whether its file is approved. */
#ifndef TOUCHMARK_PROGRAM_H
#define TOUCHMARK_PROGRAM_H

#include "check.h"
#include "process.h"

static __always_inline bool has_own_name(struct file *file)
{
	char name[10] = {};

	bpf_probe_read_kernel(name, 9, BPF_CORE_READ(file, f_path.dentry, d_name.name));
	return bpf_strncmp(name, 9, "touchmark") == 0;
}

/* The digest of a file that may be out of scope, as it is needed to tell a program's role; NULL: it cannot be had. */
static __always_inline struct tm_inode *learn_digest(struct file *file)
{
	const struct tm_policy *policy = active_policy();
	struct tm_inode *state;
	struct tm_key key = {};
	__u32 changes;

	/* A role is for content that cannot change unseen. */
	if (!policy || treatment(policy, file->f_inode) != TM_FS_CACHE)
		return NULL;
	state = bpf_inode_storage_get(&inodes, file->f_inode, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!state || knows_digest(state))
		return state;
	changes = *(volatile __u32 *)&state->changes;
	if (may_be_written(file->f_inode) || whole_digest(file, &key))
		return NULL;
	keep_digest(state, &key, changes);
	return state;
}

/*
 * Touchmark's own programs are known by their digest even where nothing is checked, and under any name once they are
 * known. Under a guard what they may do is theirs alone: the dynamic linker takes no LD_PRELOAD or LD_AUDIT for them,
 * and a tracer that was there before, which the kernel asks about no more, keeps them from starting.
 */
static __always_inline int check_own(struct linux_binprm *bprm)
{
	struct verdict verdict = { .hook = TM_HOOK_EXEC, .reason = TM_DENY_TRACED, .action = TM_ACTION_DENY };
	struct task_struct *task = bpf_get_current_task_btf();
	const struct tm_policy *policy = active_policy();

	/* Before there is a guard, too: the daemon starts while the policy is still off. */
	if (has_own_name(bprm->file))
		learn_digest(bprm->file);
	if (!guards(policy) || !(roles_of_inode(bprm->file->f_inode) & TM_ROLES_OWN))
		return 0;
	bpf_bprm_opts_set(bprm, BPF_F_BPRM_SECUREEXEC);
	if (!task->ptrace || roles_of_tracer(task) & TM_ROLES_OWN)
		return 0;
	return conclude(bprm->file, policy, &verdict);
}

/* `touchmark enforce` maps the programs that it gives a role. Where nothing is checked, as for a debugger that works
 * on a scope from outside, they are known by that. */
static __always_inline void recognize_shown(struct file *file)
{
	const struct tm_policy *policy = active_policy();

	if (!policy || policy->mode == TM_MODE_OFF || file_in_scope(policy, file->f_inode))
		return;
	if (roles_of_sleepable(bpf_get_current_task_btf()) & TM_ROLE_STEER)
		learn_digest(file);
}

/* A tracer that was there before the program could write into it. The kernel asks nobody again at exec. */
static __always_inline int check_tracer(struct linux_binprm *bprm, const struct tm_policy *policy)
{
	struct verdict verdict = { .hook = TM_HOOK_EXEC, .reason = TM_DENY_TRACED, .action = policy->ptrace };
	struct task_struct *task = bpf_get_current_task_btf();

	if (!task->ptrace || policy->ptrace == TM_ACTION_ALLOW)
		return 0;
	if (roles_of_tracer(task) & TM_ROLE_DEBUGGER)
		return 0;
	return conclude(bprm->file, policy, &verdict);
}

/* `interp` is another string than `filename` once a script or binfmt_misc has put an interpreter in its place. */
static __always_inline int check_direct(struct linux_binprm *bprm, const struct tm_policy *policy)
{
	struct verdict verdict = { .hook = TM_HOOK_EXEC, .reason = TM_DENY_INTERPRETER, .action = TM_ACTION_DENY };

	if (bprm->interp != bprm->filename || !(roles_of_inode(bprm->file->f_inode) & TM_ROLE_INTERPRETER))
		return 0;
	return conclude(bprm->file, policy, &verdict);
}

static __always_inline int check_start(struct linux_binprm *bprm)
{
	const struct tm_policy *policy;
	int refused = check_file(bprm->file, TM_HOOK_EXEC);

	if (!refused)
		refused = check_own(bprm);
	if (refused)
		return refused;
	policy = active_policy();
	if (!policy || policy->mode == TM_MODE_OFF || !file_in_scope(policy, bprm->file->f_inode))
		return 0;
	refused = check_tracer(bprm, policy);
	return refused ? refused : check_direct(bprm, policy);
}

/* The dynamic linker, started as a program, maps its argument: that starts an interpreter by hand, too. */
static __always_inline int check_mapped_interpreter(struct file *file)
{
	struct verdict verdict = { .hook = TM_HOOK_MMAP, .reason = TM_DENY_INTERPRETER, .action = TM_ACTION_DENY };
	struct task_struct *task = bpf_get_current_task_btf();
	const struct tm_policy *policy = active_policy();
	struct inode *inode = file->f_inode;

	if (!policy || policy->mode == TM_MODE_OFF || !file_in_scope(policy, inode))
		return 0;
	if (!(roles_of_inode(inode) & TM_ROLE_INTERPRETER) || program_of(task) == inode)
		return 0;
	return conclude(file, policy, &verdict);
}

#endif
