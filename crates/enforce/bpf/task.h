/* SPDX-License-Identifier: GPL-2.0-only */
/* Which program a process runs, what role that program has, and whether the policy is about it. */
#ifndef TOUCHMARK_TASK_H
#define TOUCHMARK_TASK_H

#include "verdict.h"

/* The inode of the program; NULL for kernel threads. */
static __always_inline struct inode *program_of(struct task_struct *task)
{
	struct mm_struct *mm = task->mm;
	struct file *program;

	if (!mm)
		return NULL;
	program = mm->exe_file;
	return program ? program->f_inode : NULL;
}

static __always_inline __u32 roles_by_key(const struct tm_key *key)
{
	__u32 *found = bpf_map_lookup_elem(&roles, key);

	return found ? *found : 0;
}

static __always_inline __u32 roles_of_inode(struct inode *inode)
{
	struct tm_inode *state = bpf_inode_storage_get(&inodes, inode, 0, 0);

	return state && knows_digest(state) ? roles_by_key(&state->key) : 0;
}

/* For programs that do not sleep; they run in an RCU section. */
static __always_inline __u32 roles_of(struct task_struct *task)
{
	struct inode *program = program_of(task);

	return program ? roles_of_inode(program) : 0;
}

/* For programs that sleep: from 6.2 on the verifier wants the section to be explicit. */
static __always_inline __u32 roles_of_sleepable(struct task_struct *task)
{
	__u32 found;

	if (!kernel_has.rcu)
		return roles_of(task);
	bpf_rcu_read_lock();
	found = roles_of(task);
	bpf_rcu_read_unlock();
	return found;
}

/* Of the process that traces `task`, for programs that sleep. */
static __always_inline __u32 roles_of_tracer(struct task_struct *task)
{
	struct task_struct *tracer;
	__u32 found = 0;

	if (!kernel_has.rcu)
		return roles_of(task->parent);
	tracer = bpf_task_from_pid(BPF_CORE_READ(task, parent, tgid));
	if (tracer) {
		found = roles_of_sleepable(tracer);
		bpf_task_release(tracer);
	}
	return found;
}

static __always_inline bool in_cgroup(struct task_struct *task, const struct tm_policy *policy)
{
	struct cgroup *group = BPF_CORE_READ(task, cgroups, dfl_cgrp), *ancestor = NULL;
	int level = policy->cgroup_level;

	if (!group || BPF_CORE_READ(group, level) < level)
		return false;
	bpf_core_read(&ancestor, sizeof(ancestor), &group->ancestors[level]);
	return ancestor && BPF_CORE_READ(ancestor, kn, id) == policy->scope_id;
}

/* For rules about processes. Under the scope of a file system it is the program's. */
static __always_inline bool task_in_scope(const struct tm_policy *policy, struct task_struct *task)
{
	struct inode *program;

	switch (policy->scope) {
	case TM_SCOPE_CGROUP:
		return in_cgroup(task, policy);
	case TM_SCOPE_MOUNT:
		program = program_of(task);
		return program && program->i_sb->s_dev == policy->scope_id;
	}
	return true;
}

/* For rules about files. */
static __always_inline bool file_in_scope(const struct tm_policy *policy, struct inode *inode)
{
	switch (policy->scope) {
	case TM_SCOPE_CGROUP:
		return bpf_get_current_ancestor_cgroup_id(policy->cgroup_level) == policy->scope_id;
	case TM_SCOPE_MOUNT:
		return inode->i_sb->s_dev == policy->scope_id;
	}
	return true;
}

#endif
