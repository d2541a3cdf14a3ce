/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Keeping the BPF file system mounted, which is what the pins live by. Whoever detaches a mount above it takes it along,
 * and so does whoever detaches it from a copy of a mount above it that is in the same peer group (mount_namespaces(7)):
 * the kernel repeats that in all peers, and asks about the first alone.
 */
#ifndef TOUCHMARK_MOUNTS_H
#define TOUCHMARK_MOUNTS_H

#include "guard.h"

/* More steps than this nobody takes: what cannot be seen to its end is refused. */
#define MOUNT_STEPS (1 << 14)

/*
 * A walk through the mounts at and below `root`, depth first. It lies in the task's scratch memory: before 6.7 the
 * verifier believes that a loop's body sees nothing on the stack but what was there before the first round.
 */
struct mount_walk {
	struct mount *root;
	struct mount *at;
	bool leaving;	/* all below `at` was seen */
	bool refused;	/* `at` is another mount of the guarded file system, and its parent has peers */
	bool finished;
};

static __always_inline bool takes_guarded_along(struct mount *mount)
{
	struct tm_guarded key = { .kind = TM_GUARDED_FILESYSTEM, .device = BPF_CORE_READ(mount, mnt.mnt_sb, s_dev) };

	return BPF_CORE_READ(mount, mnt_parent, mnt_group_id) && bpf_map_lookup_elem(&guarded, &key);
}

static long next_mount(__u32 number, struct mount_walk **context)
{
	struct mount_walk *walk = *context;
	struct mount *at = walk->at, *parent = BPF_CORE_READ(at, mnt_parent);
	struct list_head *next;

	if (!walk->leaving) {
		if (takes_guarded_along(at)) {
			walk->refused = true;
			return 1;
		}
		next = BPF_CORE_READ(at, mnt_mounts.next);
		if (next == &at->mnt_mounts)
			walk->leaving = true;
		else
			walk->at = container_of(next, struct mount, mnt_child);
		return 0;
	}
	if (at == walk->root) {
		walk->finished = true;
		return 1;
	}
	next = BPF_CORE_READ(at, mnt_child.next);
	if (next == &parent->mnt_mounts) {
		walk->at = parent;
	} else {
		walk->at = container_of(next, struct mount, mnt_child);
		walk->leaving = false;
	}
	return 0;
}

/* Only a lazy unmount takes what is below along. */
static __always_inline bool takes_along(struct mount *mount, int flags)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct mount_walk *walk;
	struct scratch *scratch;
	bool taken;

	if (!(flags & MNT_DETACH))
		return takes_guarded_along(mount);
	scratch = take_scratch(task);
	if (!scratch)
		return true;
	walk = (struct mount_walk *)scratch->signature;
	*walk = (struct mount_walk){ .root = mount, .at = mount };
	bpf_loop(MOUNT_STEPS, next_mount, &walk, 0);
	taken = walk->refused || !walk->finished;
	bpf_task_storage_delete(&scratches, task);
	return taken;
}

static __always_inline int check_unmount(struct vfsmount *mounted, int flags)
{
	struct verdict verdict = { .hook = TM_HOOK_UMOUNT, .reason = TM_DENY_GUARDED, .action = TM_ACTION_DENY };
	struct mount *mount = container_of(mounted, struct mount, mnt);
	const struct tm_policy *policy = guarding_policy(TM_GUARDED_MOUNT, 0, BPF_CORE_READ(mount, mnt_id));
	struct task_struct *task = bpf_get_current_task_btf();

	if (!policy) {
		policy = active_policy();
		if (!guards(policy) || roles_of(task) & TM_ROLES_OWN || !takes_along(mount, flags))
			return 0;
	}
	return conclude_by_program(task, policy, &verdict);
}

#endif
