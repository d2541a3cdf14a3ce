/* SPDX-License-Identifier: GPL-2.0-only */
/* From a verdict to what the hook returns: count it, report it, and block if the mode says so. */
#ifndef TOUCHMARK_EVENT_H
#define TOUCHMARK_EVENT_H

#include "task.h"

struct verdict {
	struct tm_key key;	/* the digest; kind 0: none */
	int error;		/* detail of the reason */
	__u32 target;		/* the process acted on */
	__u8 hook;		/* enum tm_hook */
	__u8 reason;		/* enum tm_reason */
	__u8 action;		/* enum tm_action: what the policy says about this reason */
};

static __always_inline bool enforces(const struct tm_policy *policy)
{
	if (policy->mode != TM_MODE_ENFORCE)
		return false;
	return !policy->enforce_until_ns || bpf_ktime_get_boot_ns() < policy->enforce_until_ns;
}

static __always_inline bool blocks(const struct tm_policy *policy, const struct verdict *verdict)
{
	return verdict->reason >= TM_DENY_FIRST && verdict->action == TM_ACTION_DENY && enforces(policy);
}

static __always_inline struct tm_event *new_event(const struct verdict *verdict, bool blocked)
{
	struct tm_event *event = bpf_ringbuf_reserve(&events, sizeof(*event), 0);
	struct task_struct *task = bpf_get_current_task_btf();

	if (!event) {
		count(TM_COUNT_EVENTS_LOST);
		return NULL;
	}
	event->time_ns = bpf_ktime_get_boot_ns();
	event->inode = 0;
	event->device = 0;
	event->pid = bpf_get_current_pid_tgid() >> 32;
	event->parent = BPF_CORE_READ(task, real_parent, tgid);
	event->uid = (__u32)bpf_get_current_uid_gid();
	event->target = verdict->target;
	event->error = verdict->error;
	event->hook = verdict->hook;
	event->reason = verdict->reason;
	event->blocked = blocked;
	event->has_digest = verdict->key.kind != 0;
	event->digest_kind = verdict->key.kind;
	__builtin_memcpy(event->digest, verdict->key.id, TM_DIGEST_SIZE);
	bpf_get_current_comm(event->comm, sizeof(event->comm));
	event->path_is_name = 0;
	event->path_len = 0;
	event->path[0] = 0;
	return event;
}

/* The file by its entry in a folder, where the path cannot be had. */
static __always_inline void add_name(struct tm_event *event, struct dentry *entry)
{
	struct inode *inode = BPF_CORE_READ(entry, d_inode);
	const unsigned char *name = BPF_CORE_READ(entry, d_name.name);
	long length = bpf_probe_read_kernel_str(event->path, sizeof(event->path), name);

	event->inode = BPF_CORE_READ(inode, i_ino);
	event->device = BPF_CORE_READ(inode, i_sb, s_dev);
	event->path_is_name = 1;
	event->path_len = length > 0 ? length - 1 : 0;
}

static __always_inline bool reportable(const struct tm_policy *policy, const struct verdict *verdict)
{
	return verdict->reason >= TM_DENY_FIRST || policy->flags & TM_FLAG_LOG_ALLOWED;
}

/* A constant out of the compiler's sight: it would compute it from the condition, and the verifier wants to see it. */
#define REFUSE(number) ({ int refused; asm volatile("%0 = %1" : "=r"(refused) : "i"(-(number))); refused; })

static __always_inline int settle(const struct verdict *verdict, bool blocked)
{
	count(verdict->reason);
	if (verdict->reason >= TM_DENY_FIRST && !blocked)
		count(TM_COUNT_PERMITTED);
	if (!blocked)
		return 0;
	return verdict->reason == TM_DENY_MAPPED ? REFUSE(ETXTBSY) : REFUSE(EPERM);
}

/* About a file, in the hooks where the kernel lets bpf_d_path() be called. */
static __always_inline int conclude(struct file *file, const struct tm_policy *policy, const struct verdict *verdict)
{
	bool blocked = blocks(policy, verdict);
	struct tm_event *event;

	if (reportable(policy, verdict)) {
		event = new_event(verdict, blocked);
		if (event) {
			long length = bpf_d_path(&file->f_path, event->path, sizeof(event->path));

			if (length > 0) {
				event->inode = file->f_inode->i_ino;
				event->device = file->f_inode->i_sb->s_dev;
				event->path_len = length - 1;
			} else {
				add_name(event, file->f_path.dentry); /* longer than the buffer */
			}
			bpf_ringbuf_submit(event, 0);
		}
	}
	return settle(verdict, blocked);
}

/* About a file of which there is only its entry, or (NULL) about none. */
static __always_inline int conclude_by_name(struct dentry *entry, const struct tm_policy *policy,
					    const struct verdict *verdict)
{
	bool blocked = blocks(policy, verdict);
	struct tm_event *event = new_event(verdict, blocked);

	if (event) {
		if (entry)
			add_name(event, entry);
		bpf_ringbuf_submit(event, 0);
	}
	return settle(verdict, blocked);
}

/* About a process: it is named by its program. */
static __always_inline int conclude_by_program(struct task_struct *task, const struct tm_policy *policy,
					       const struct verdict *verdict)
{
	return conclude_by_name(BPF_CORE_READ(task, mm, exe_file, f_path.dentry), policy, verdict);
}

#endif
