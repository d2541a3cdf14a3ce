/* SPDX-License-Identifier: GPL-2.0-only */
/* Executable memory that is no file's content: anonymous, a memory file, or a file's private copy that was written. */
#ifndef TOUCHMARK_MEMORY_H
#define TOUCHMARK_MEMORY_H

#include "check.h"

/* The policy that has a say about the current process; NULL: it may. */
static __always_inline const struct tm_policy *memory_policy(void)
{
	const struct tm_policy *policy = active_policy();

	if (!policy || policy->mode == TM_MODE_OFF || policy->anonymous == TM_ACTION_ALLOW)
		return NULL;
	return task_in_scope(policy, bpf_get_current_task_btf()) ? policy : NULL;
}

/* `has_role`: the program's content was granted the right to make code. */
static __always_inline int judge_memory(enum tm_hook hook, const struct tm_policy *policy, bool has_role)
{
	struct verdict verdict = { .hook = hook, .reason = TM_DENY_ANONYMOUS, .action = policy->anonymous };

	return has_role ? 0 : conclude_by_program(bpf_get_current_task_btf(), policy, &verdict);
}

static __always_inline int check_mapped_memory(void)
{
	const struct tm_policy *policy = memory_policy();

	if (!policy)
		return 0;
	return judge_memory(TM_HOOK_MMAP, policy, roles_of_sleepable(bpf_get_current_task_btf()) & TM_ROLE_JIT);
}

static __always_inline int check_protected_memory(void)
{
	const struct tm_policy *policy = memory_policy();

	if (!policy)
		return 0;
	return judge_memory(TM_HOOK_MPROTECT, policy, roles_of(bpf_get_current_task_btf()) & TM_ROLE_JIT);
}

/* mmap_file with PROT_EXEC. */
static __always_inline int check_mapping(struct file *file, unsigned long protection, unsigned long flags)
{
	int refused;

	if (!file || is_memory_file(file->f_inode))
		return check_mapped_memory();
	refused = check_file(file, TM_HOOK_MMAP);
	if (refused)
		return refused;
	/* A private copy that is writable and executable at once becomes anything. */
	return protection & PROT_WRITE ? check_mapped_memory() : 0;
}

/*
 * file_mprotect that adds PROT_EXEC, or PROT_WRITE to what has it. The mmap lock is held here, so the file cannot be
 * read: only a verdict that stands already helps.
 */
static __always_inline int check_protection(struct vm_area_struct *vma, unsigned long protection)
{
	struct verdict verdict = {
		.hook = TM_HOOK_MPROTECT, .reason = TM_DENY_UNCHECKED, .action = TM_ACTION_DENY,
	};
	/* Read once: from 7.x on the verifier wants just this pointer to have been compared with NULL. */
	struct file *file = vma->vm_file;
	bool was_executable = vma->vm_flags & VM_EXEC;
	const struct tm_policy *policy;

	if (was_executable && !(protection & PROT_WRITE))
		return 0;
	if (!file || is_memory_file(file->f_inode))
		return was_executable ? 0 : check_protected_memory();
	if (!was_executable) {
		policy = policy_to_judge(file);
		if (policy) {
			int refused = conclude_by_name(file->f_path.dentry, policy, &verdict);

			if (refused)
				return refused;
		}
	}
	/* anon_vma: pages of the mapping were written, and are the file's no more. */
	return vma->anon_vma || protection & PROT_WRITE ? check_protected_memory() : 0;
}

#endif
