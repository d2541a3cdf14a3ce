/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The few kernel types and functions that the programs touch. Only the fields used are named: CO-RE finds them in
 * the running kernel by name, so one object serves all kernels, and no generated vmlinux.h is needed.
 */
#ifndef TOUCHMARK_KERNEL_H
#define TOUCHMARK_KERNEL_H

#include <linux/bpf.h>
#include <stdbool.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>

#define FMODE_WRITE 0x2			/* include/linux/fs.h */
#define O_TRUNC 01000			/* uapi/asm-generic/fcntl.h */
#define S_VERITY (1 << 16)
#define FS_REQUIRES_DEV 1
#define PROT_WRITE 0x2			/* mman-common.h */
#define PROT_EXEC 0x4
#define MAP_PRIVATE 0x2
#define VM_EXEC 0x4UL			/* include/linux/mm.h */
#define PTRACE_MODE_ATTACH 0x02		/* include/linux/ptrace.h */
#define SIGCONT 18
#define MNT_DETACH 2			/* uapi/linux/mount.h */
#define PR_SET_MM 35			/* uapi/linux/prctl.h */
#define PR_SET_MM_EXE_FILE 13
#define PR_SET_MM_MAP 14
#define F_SEAL_SHRINK 0x2		/* uapi/linux/fcntl.h */
#define F_SEAL_GROW 0x4
#define F_SEAL_WRITE 0x8
#define BPF_FS_MAGIC 0xcafe4a11		/* uapi/linux/magic.h */
#define PROC_SUPER_MAGIC 0x9fa0
#define TMPFS_MAGIC 0x01021994
#define HUGETLBFS_MAGIC 0x958458f6
#define HASH_ALGO_SHA256 4		/* uapi/linux/hash_info.h */

#define EPERM 1
#define ENOMEM 12
#define ETXTBSY 26
#define ENODATA 61
#define EBADMSG 74
#define EOPNOTSUPP 95
#define ENOKEY 126
#define EKEYREVOKED 128

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

typedef struct {
	int counter;
} atomic_t;

struct file_system_type {
	int fs_flags;
};

struct user_namespace {
	int level;
};

struct super_block {
	__u32 s_dev;
	struct user_namespace *s_user_ns;
	unsigned long s_magic;
	struct file_system_type *s_type;
};

struct rb_node {
	unsigned long __rb_parent_color;
};

struct rb_root {
	struct rb_node *rb_node;
};

struct rb_root_cached {
	struct rb_root rb_root;
};

struct address_space {
	atomic_t i_mmap_writable;
	struct rb_root_cached i_mmap;
};

struct inode {
	unsigned int i_flags;
	struct super_block *i_sb;
	struct address_space *i_mapping;
	unsigned long i_ino;
	unsigned int i_nlink;
	atomic_t i_writecount;
};

struct shmem_inode_info {
	unsigned int seals;
	struct inode vfs_inode;
};

struct qstr {
	const unsigned char *name;
};

struct dentry {
	struct qstr d_name;
	struct inode *d_inode;
};

struct path {
	struct dentry *dentry;
};

struct file {
	unsigned int f_mode;
	unsigned int f_flags;
	struct inode *f_inode;
	struct path f_path;
};

struct linux_binprm {
	struct file *file;
	const char *filename;
	const char *interp;
	unsigned int is_check : 1;
};

struct anon_vma;

struct vm_area_struct {
	unsigned long vm_flags;
	struct anon_vma *anon_vma;
	struct file *vm_file;
};

struct mm_struct {
	struct file *exe_file;
};

struct kernfs_node {
	__u64 id;
};

struct cgroup {
	struct kernfs_node *kn;
	int level;
	struct cgroup *ancestors[];
};

struct css_set {
	struct cgroup *dfl_cgrp;
};

struct task_struct {
	int tgid;
	unsigned int ptrace;
	struct mm_struct *mm;
	struct task_struct *real_parent;
	struct task_struct *parent;
	struct css_set *cgroups;
};

struct list_head {
	struct list_head *next;
};

struct vfsmount {
	struct super_block *mnt_sb;
};

struct mount {
	struct mount *mnt_parent;
	struct vfsmount mnt;
	struct list_head mnt_mounts;
	struct list_head mnt_child;
	int mnt_id;
	int mnt_group_id;
};

struct bpf_map {
	__u32 id;
};

struct bpf_prog_aux {
	__u32 id;
};

struct bpf_prog {
	struct bpf_prog_aux *aux;
};

struct bpf_key {
	void *key;
};

#pragma clang attribute pop

/*
 * 6.1: verify_pkcs7 and friends; 6.2: rcu_read_lock, task_from_pid; 6.5: dynptr_adjust; 6.8: get_file_xattr, get_fsverity_digest.
 * Weak: a kernel without them loads the rest.
 */
extern struct bpf_key *bpf_lookup_user_key(__s32 serial, __u64 flags) __ksym __weak;
extern void bpf_key_put(struct bpf_key *key) __ksym __weak;
extern int bpf_verify_pkcs7_signature(struct bpf_dynptr *data, struct bpf_dynptr *signature,
				      struct bpf_key *keyring) __ksym __weak;
extern int bpf_dynptr_adjust(const struct bpf_dynptr *ptr, __u32 start, __u32 end) __ksym __weak;
extern int bpf_get_file_xattr(struct file *file, const char *name, struct bpf_dynptr *value) __ksym __weak;
extern int bpf_get_fsverity_digest(struct file *file, struct bpf_dynptr *digest) __ksym __weak;
extern void bpf_rcu_read_lock(void) __ksym __weak;
extern void bpf_rcu_read_unlock(void) __ksym __weak;
extern struct task_struct *bpf_task_from_pid(__s32 pid) __ksym __weak;
extern void bpf_task_release(struct task_struct *task) __ksym __weak;

/*
 * Set by the loader when the kernel has all the functions of that purpose; otherwise the verifier drops the code that
 * calls them. (bpf_ksym_exists() would do, but kernels before 6.3 refuse to load the address of a kernel function.)
 */
const volatile struct {
	bool signatures;	/* signatures in xattrs, fs-verity digests */
	bool rcu;		/* what sleepable programs need from then on to follow a task's pointers */
	__u32 map_hook;		/* the BTF numbers of the hooks that say who gets a descriptor */
	__u32 program_hook;
} kernel_has SEC(".rodata.features") = {};

#endif
