/* SPDX-License-Identifier: GPL-2.0-only */
/* The signature in the file's user.touchmark xattr, checked by the kernel's own PKCS#7 verifier. */
#ifndef TOUCHMARK_SIGNATURE_H
#define TOUCHMARK_SIGNATURE_H

#include "maps.h"

/*
 * Set by the loader when the kernel has all the functions used here; otherwise the verifier drops the code that calls
 * them. (bpf_ksym_exists() would do, but kernels before 6.3 refuse to load the address of a kernel function.)
 */
const volatile bool kernel_verifies_signatures SEC(".rodata.features") = false;

/* The message that was signed: docs/formats.md, "The signed statement". */
static __always_inline void encode_statement(__u8 *to, __u8 kind, const struct tm_digest *digest)
{
	__builtin_memset(to, 0, TM_STATEMENT_SIZE);
	__builtin_memcpy(to, "touchmrk", 8);
	to[8] = TM_STATEMENT_VERSION;
	to[9] = kind;
	to[10] = HASH_ALGO_SHA256;
	to[11] = TM_DIGEST_SIZE;
	__builtin_memcpy(to + 16, digest->sha256, TM_DIGEST_SIZE);
}

/* 0: a key of the keyring signed it; else a negative errno. The length was read from the xattr. */
static __always_inline int verify_scratch(struct scratch *scratch, struct bpf_dynptr *signature, int length,
					  __s32 serial)
{
	struct bpf_dynptr statement;
	struct bpf_key *keyring;
	int err;

	if (bpf_dynptr_adjust(signature, 0, length))
		return -ENODATA;
	bpf_dynptr_from_mem(scratch->statement, sizeof(scratch->statement), 0, &statement);
	keyring = bpf_lookup_user_key(serial, 0);
	if (!keyring)
		return -ENOKEY;
	err = bpf_verify_pkcs7_signature(&statement, signature, keyring);
	bpf_key_put(keyring);
	return err;
}

/*
 * -EOPNOTSUPP: this kernel cannot (before 6.8), or there is no keyring; -ENODATA or the like: no such xattr;
 * -ENOKEY: signed by a key that is not ours; -EKEYREJECTED: not a signature of this content.
 */
static __noinline int verify_signature(struct file *file, const struct tm_digest *digest, __s32 serial)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct bpf_dynptr signature;
	struct scratch *scratch = NULL;
	int ret;

	if (!kernel_verifies_signatures || !serial)
		return -EOPNOTSUPP;

	/* Its allocator never waits and may fail for a moment; a refusal for that would be a false one. */
	for (int tries = 0; tries < 8 && !scratch; tries++)
		scratch = bpf_task_storage_get(&scratches, task, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!scratch)
		return -ENOMEM;
	encode_statement(scratch->statement, TM_KIND_FILE, digest);
	bpf_dynptr_from_mem(scratch->signature, sizeof(scratch->signature), 0, &signature);
	ret = bpf_get_file_xattr(file, "user.touchmark", &signature);
	if (ret == 0)
		ret = -ENODATA;
	else if (ret > 0)
		ret = verify_scratch(scratch, &signature, ret, serial);
	bpf_task_storage_delete(&scratches, task);
	return ret;
}

#endif
