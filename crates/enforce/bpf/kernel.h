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
#define PROT_EXEC 0x4			/* mman-common.h */
#define VM_EXEC 0x4UL			/* include/linux/mm.h */
#define HASH_ALGO_SHA256 4		/* uapi/linux/hash_info.h */

#define EPERM 1
#define ENOMEM 12
#define ENODATA 61
#define EOPNOTSUPP 95
#define ENOKEY 126

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

typedef struct {
	int counter;
} atomic_t;

struct super_block {
	__u32 s_dev;
	unsigned long s_magic;
};

struct address_space {
	atomic_t i_mmap_writable;
};

struct inode {
	struct super_block *i_sb;
	struct address_space *i_mapping;
	unsigned long i_ino;
	atomic_t i_writecount;
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
	struct inode *f_inode;
	struct path f_path;
};

struct linux_binprm {
	struct file *file;
};

struct vm_area_struct {
	unsigned long vm_flags;
	struct file *vm_file;
};

struct task_struct {
	int tgid;
	struct task_struct *real_parent;
};

struct bpf_key {
	void *key;
};

#pragma clang attribute pop

/* 6.1: verify_pkcs7 and friends; 6.5: dynptr_adjust; 6.8: get_file_xattr. Weak: a kernel without them loads the rest. */
extern struct bpf_key *bpf_lookup_user_key(__s32 serial, __u64 flags) __ksym __weak;
extern void bpf_key_put(struct bpf_key *key) __ksym __weak;
extern int bpf_verify_pkcs7_signature(struct bpf_dynptr *data, struct bpf_dynptr *signature,
				      struct bpf_key *keyring) __ksym __weak;
extern int bpf_dynptr_adjust(const struct bpf_dynptr *ptr, __u32 start, __u32 end) __ksym __weak;
extern int bpf_get_file_xattr(struct file *file, const char *name, struct bpf_dynptr *value) __ksym __weak;

#endif
