/* SPDX-License-Identifier: GPL-2.0-only */
/* The signature in the file's user.touchmark xattr, checked by the kernel's own PKCS#7 verifier. */
#ifndef TOUCHMARK_SIGNATURE_H
#define TOUCHMARK_SIGNATURE_H

#include "cms.h"

/* The message that was signed: docs/formats.md, "The signed statement". */
static __always_inline void encode_statement(__u8 *to, const struct tm_key *key)
{
	__builtin_memset(to, 0, TM_STATEMENT_SIZE);
	__builtin_memcpy(to, "touchmrk", 8);
	to[8] = TM_STATEMENT_VERSION;
	to[9] = key->kind;
	to[10] = HASH_ALGO_SHA256;
	to[11] = TM_DIGEST_SIZE;
	__builtin_memcpy(to + 16, key->id, TM_DIGEST_SIZE);
}

/* 0: a key of the keyring signed it; else a negative errno. The length was read from the xattr. */
static __always_inline int verify_scratch(struct scratch *scratch, struct bpf_dynptr *signature, int length,
					  __s32 serial)
{
	struct bpf_dynptr statement;
	struct bpf_key *keyring;
	int err = find_signature_id(scratch, length);

	if (err)
		return err;
	if (bpf_map_lookup_elem(&revoked, &scratch->id))
		return -EKEYREVOKED;
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
 * -ENOKEY: signed by a key that is not ours; -EKEYREJECTED: not a signature of this content; -EKEYREVOKED: revoked.
 */
static __noinline int verify_signature(struct file *file, const struct tm_key *key, __s32 serial)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct bpf_dynptr signature;
	struct scratch *scratch;
	int ret;

	if (!kernel_has.signatures || !serial)
		return -EOPNOTSUPP;

	scratch = take_scratch(task);
	if (!scratch)
		return -ENOMEM;
	encode_statement(scratch->statement, key);
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
