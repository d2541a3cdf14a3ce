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

/*
 * /proc/sys/kernel/ftrace_enabled: 0 takes the jumps out of the kernel that BPF programs are called by, and tells
 * nobody.
 */
static __always_inline int check_kernel_switch(struct file *file)
{
	struct verdict verdict = { .hook = TM_HOOK_OPEN, .reason = TM_DENY_GUARDED, .action = TM_ACTION_DENY };
	const struct tm_policy *policy = active_policy();
	char name[15] = {};

	if (!guards(policy))
		return 0;
	bpf_probe_read_kernel(name, sizeof(name), BPF_CORE_READ(file, f_path.dentry, d_name.name));
	return bpf_strncmp(name, sizeof(name), "ftrace_enabled") ? 0 : conclude(file, policy, &verdict);
}

/*
 * Programs that could answer in the place of ours: those that change what a kernel function returns, and others at the
 * hooks that say who gets a descriptor (before 6.12 such a program may return 1, which ends the list and refuses
 * nothing).
 */
static __always_inline int check_load(int command, union bpf_attr *attribute)
{
	struct verdict verdict = { .hook = TM_HOOK_BPF, .reason = TM_DENY_GUARDED, .action = TM_ACTION_DENY };
	struct task_struct *task = bpf_get_current_task_btf();
	const struct tm_policy *policy = active_policy();
	__u32 type = attribute->prog_type, at = attribute->attach_btf_id;

	if (command != BPF_PROG_LOAD || !guards(policy) || roles_of(task) & TM_ROLES_OWN)
		return 0;
	if (type == BPF_PROG_TYPE_TRACING && attribute->expected_attach_type == BPF_MODIFY_RETURN)
		return conclude_by_program(task, policy, &verdict);
	if (type == BPF_PROG_TYPE_LSM && (at == kernel_has.map_hook || at == kernel_has.program_hook))
		return conclude_by_program(task, policy, &verdict);
	return 0;
}

/* A process that names another file as its program would have that one's role: it is as good as writing into that. */
static __always_inline int check_new_name(int option, unsigned long what)
{
	struct verdict verdict = { .hook = TM_HOOK_PRCTL, .reason = TM_DENY_GUARDED, .action = TM_ACTION_DENY };
	struct task_struct *task = bpf_get_current_task_btf();
	const struct tm_policy *policy = active_policy();

	if (option != PR_SET_MM || (what != PR_SET_MM_EXE_FILE && what != PR_SET_MM_MAP))
		return 0;
	if (!policy || policy->mode == TM_MODE_OFF || roles_of(task) & TM_ROLE_DEBUGGER)
		return 0;
	if (!guards(policy) && (policy->ptrace == TM_ACTION_ALLOW || !task_in_scope(policy, task)))
		return 0;
	return conclude_by_program(task, policy, &verdict);
}

#endif
