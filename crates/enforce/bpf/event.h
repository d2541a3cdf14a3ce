/* SPDX-License-Identifier: GPL-2.0-only */
/* From a verdict to what the hook returns: count it, report it, and block if the mode says so. */
#ifndef TOUCHMARK_EVENT_H
#define TOUCHMARK_EVENT_H

#include "maps.h"

struct verdict {
	struct tm_digest digest;
	int error;		/* detail of the reason */
	__u8 hook;		/* enum tm_hook */
	__u8 reason;		/* enum tm_reason */
	bool has_digest;
};

static __always_inline bool blocks(const struct tm_policy *policy)
{
	if (policy->mode != TM_MODE_ENFORCE)
		return false;
	return !policy->enforce_until_ns || bpf_ktime_get_boot_ns() < policy->enforce_until_ns;
}

static __always_inline struct tm_event *new_event(struct file *file, const struct verdict *verdict, bool blocked)
{
	struct tm_event *event = bpf_ringbuf_reserve(&events, sizeof(*event), 0);
	struct inode *inode = file->f_inode;
	struct task_struct *task = bpf_get_current_task_btf();

	if (!event) {
		count(TM_COUNT_EVENTS_LOST);
		return NULL;
	}
	event->time_ns = bpf_ktime_get_boot_ns();
	event->inode = inode->i_ino;
	event->device = inode->i_sb->s_dev;
	event->pid = bpf_get_current_pid_tgid() >> 32;
	event->parent = task->real_parent->tgid;
	event->uid = (__u32)bpf_get_current_uid_gid();
	event->error = verdict->error;
	event->hook = verdict->hook;
	event->reason = verdict->reason;
	event->blocked = blocked;
	event->has_digest = verdict->has_digest;
	__builtin_memcpy(event->digest, verdict->digest.sha256, TM_DIGEST_SIZE);
	bpf_get_current_comm(event->comm, sizeof(event->comm));
	event->path_is_name = 0;
	event->path_len = 0;
	event->path[0] = 0;
	return event;
}

static __always_inline void name_only(struct tm_event *event, struct file *file)
{
	const unsigned char *name = BPF_CORE_READ(file, f_path.dentry, d_name.name);
	long length = bpf_probe_read_kernel_str(event->path, sizeof(event->path), name);

	event->path_is_name = 1;
	event->path_len = length > 0 ? length - 1 : 0;
}

static __always_inline bool reportable(const struct tm_policy *policy, const struct verdict *verdict)
{
	return verdict->reason >= TM_DENY_FIRST || policy->flags & TM_FLAG_LOG_ALLOWED;
}

/* -EPERM, out of the compiler's sight: it would compute it from the condition, and the verifier wants to see a constant. */
static __always_inline int refusal(void)
{
	int error;

	asm volatile("%0 = %1" : "=r"(error) : "i"(-EPERM));
	return error;
}

static __always_inline int settle(const struct verdict *verdict, bool blocked)
{
	count(verdict->reason);
	if (verdict->reason >= TM_DENY_FIRST && !blocked)
		count(TM_COUNT_PERMITTED);
	return blocked ? refusal() : 0;
}

/* For the hooks that may sleep, where the kernel lets bpf_d_path() be called. */
static __always_inline int conclude(struct file *file, const struct tm_policy *policy, const struct verdict *verdict)
{
	bool blocked = verdict->reason >= TM_DENY_FIRST && blocks(policy);
	struct tm_event *event;

	if (reportable(policy, verdict)) {
		event = new_event(file, verdict, blocked);
		if (event) {
			long length = bpf_d_path(&file->f_path, event->path, sizeof(event->path));

			if (length > 0)
				event->path_len = length - 1;
			else
				name_only(event, file); /* longer than the buffer */
			bpf_ringbuf_submit(event, 0);
		}
	}
	return settle(verdict, blocked);
}

static __always_inline int conclude_without_path(struct file *file, const struct tm_policy *policy,
						 const struct verdict *verdict)
{
	bool blocked = blocks(policy);
	struct tm_event *event = new_event(file, verdict, blocked);

	if (event) {
		name_only(event, file);
		bpf_ringbuf_submit(event, 0);
	}
	return settle(verdict, blocked);
}

#endif
