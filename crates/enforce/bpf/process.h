/* SPDX-License-Identifier: GPL-2.0-only */
/* Writing into other processes: ptrace, process_vm_writev, /proc/PID/mem; and signals to the daemon. */
#ifndef TOUCHMARK_PROCESS_H
#define TOUCHMARK_PROCESS_H

#include "event.h"

#define TM_ROLES_OWN (TM_ROLE_STEER | TM_ROLE_DAEMON)

static __always_inline bool guards(const struct tm_policy *policy)
{
	return policy && policy->mode != TM_MODE_OFF && policy->flags & TM_FLAG_GUARD;
}

/*
 * Touchmark's own programs are guarded whatever the policy says about others. One of them may trace another as any
 * debugger may: the helper of `touchmark memlock run` traces the process that is about to become the program.
 */
static __always_inline int check_trace(struct task_struct *tracer, struct task_struct *child)
{
	const struct tm_policy *policy = active_policy();
	struct verdict verdict = { .hook = TM_HOOK_PTRACE, .reason = TM_DENY_PTRACE };

	if (!policy || policy->mode == TM_MODE_OFF)
		return 0;
	verdict.target = child->tgid;
	if (guards(policy) && roles_of(child) & TM_ROLES_OWN && !(roles_of(tracer) & TM_ROLES_OWN)) {
		verdict.reason = TM_DENY_GUARDED;
		verdict.action = TM_ACTION_DENY;
	} else {
		verdict.action = policy->ptrace;
		if (policy->ptrace == TM_ACTION_ALLOW || !task_in_scope(policy, child))
			return 0;
		if (roles_of(tracer) & TM_ROLE_DEBUGGER)
			return 0;
	}
	return conclude_by_program(child, policy, &verdict);
}

/*
 * A process may open its own /proc/PID/mem without any hook about tracing, and write what it may only execute. The
 * hook for opening files sees it; for other processes ptrace_access_check has refused before.
 */
static __always_inline int check_process_memory(struct file *file)
{
	struct verdict verdict = { .hook = TM_HOOK_OPEN, .reason = TM_DENY_PROCESS_MEMORY };
	struct task_struct *task = bpf_get_current_task_btf();
	const struct tm_policy *policy = active_policy();
	char name[4] = {};

	bpf_probe_read_kernel(name, sizeof(name), BPF_CORE_READ(file, f_path.dentry, d_name.name));
	if (bpf_strncmp(name, sizeof(name), "mem"))
		return 0;
	if (!policy || policy->mode == TM_MODE_OFF || policy->ptrace == TM_ACTION_ALLOW || !task_in_scope(policy, task))
		return 0;
	if (roles_of(task) & TM_ROLE_DEBUGGER)
		return 0;
	verdict.action = policy->ptrace;
	return conclude(file, policy, &verdict);
}

/* Whether this is the end of the machine: the first process, running what ends all others. */
static __always_inline bool is_shutdown(struct task_struct *task)
{
	char name[17] = {};

	if (task->tgid != 1)
		return false;
	bpf_probe_read_kernel(name, sizeof(name), BPF_CORE_READ(task, mm, exe_file, f_path.dentry, d_name.name));
	return bpf_strncmp(name, sizeof(name), "systemd-shutdown") == 0;
}

static __always_inline int check_signal(struct task_struct *target, int signal)
{
	struct verdict verdict = { .hook = TM_HOOK_KILL, .reason = TM_DENY_GUARDED, .action = TM_ACTION_DENY };
	struct task_struct *task = bpf_get_current_task_btf();
	const struct tm_policy *policy = active_policy();

	if (!signal || signal == SIGCONT || !guards(policy))
		return 0;
	if (!(roles_of(target) & TM_ROLE_DAEMON) || roles_of(task) & TM_ROLES_OWN || is_shutdown(task))
		return 0;
	verdict.target = target->tgid;
	return conclude_by_program(target, policy, &verdict);
}

#endif
