/* SPDX-License-Identifier: GPL-2.0-only */
/* Code and data that the kernel takes for itself, and ways to write into the running kernel. */
#ifndef TOUCHMARK_KERNEL_CODE_H
#define TOUCHMARK_KERNEL_CODE_H

#include "guard.h"

/* kernel_load_data: a module, firmware or kexec image from memory, whose digest nobody can tell here. */
static __always_inline int check_buffer(void)
{
	struct verdict verdict = { .hook = TM_HOOK_READ, .reason = TM_DENY_BUFFER };
	struct task_struct *task = bpf_get_current_task_btf();
	const struct tm_policy *policy = active_policy();

	if (!policy || policy->mode == TM_MODE_OFF || policy->buffers == TM_ACTION_ALLOW)
		return 0;
	/* It concerns no file; under the scope of a file system there is nothing to say about it. */
	if (policy->scope == TM_SCOPE_MOUNT || !task_in_scope(policy, task))
		return 0;
	verdict.action = policy->buffers;
	return conclude_by_program(task, policy, &verdict);
}

/* include/linux/security.h, enum lockdown_reason: the same numbers in 6.1 to 7.2. */
enum {
	LOCKDOWN_DEV_MEM = 2,
	LOCKDOWN_EFI_TEST = 3,
	LOCKDOWN_PCI_ACCESS = 6,
	LOCKDOWN_IOPORT = 7,
	LOCKDOWN_MSR = 8,
	LOCKDOWN_ACPI_TABLES = 9,
	LOCKDOWN_MMIOTRACE = 14,
	LOCKDOWN_BPF_WRITE_USER = 17,
	LOCKDOWN_DBG_WRITE_KERNEL = 18,
};

/*
 * What lets root write into the kernel, or by BPF into a process, and so end all of this. Lockdown proper refuses more
 * (hibernation, debugfs), which a machine may need; whoever wants that boots with lockdown=integrity.
 */
static __always_inline bool writes_into_kernel(int what)
{
	switch (what) {
	case LOCKDOWN_DEV_MEM:
	case LOCKDOWN_EFI_TEST:
	case LOCKDOWN_PCI_ACCESS:
	case LOCKDOWN_IOPORT:
	case LOCKDOWN_MSR:
	case LOCKDOWN_ACPI_TABLES:
	case LOCKDOWN_MMIOTRACE:
	case LOCKDOWN_BPF_WRITE_USER:
	case LOCKDOWN_DBG_WRITE_KERNEL:
		return true;
	}
	return false;
}

static __always_inline int check_lockdown(int what)
{
	struct verdict verdict = { .hook = TM_HOOK_LOCKDOWN, .reason = TM_DENY_LOCKED, .action = TM_ACTION_DENY };
	struct task_struct *task = bpf_get_current_task_btf();
	const struct tm_policy *policy = active_policy();

	if (!guards(policy) || policy->scope == TM_SCOPE_MOUNT || !writes_into_kernel(what) ||
	    !task_in_scope(policy, task))
		return 0;
	verdict.error = -what;
	return conclude_by_program(task, policy, &verdict);
}

#endif
