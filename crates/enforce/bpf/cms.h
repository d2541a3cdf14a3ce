/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The id of a CMS signature, by which it is revoked (docs/formats.md, "Revocation list").
 *
 * The kernel's own parser accepts more than one way to write a signature down: with certificates, with attributes that
 * nobody signed. A revoked signature could come back in other clothes. So only the one form that Touchmark writes is
 * walked here, each part in its place and each outer part reaching to the end; all else is malformed.
 */
#ifndef TOUCHMARK_CMS_H
#define TOUCHMARK_CMS_H

#include "maps.h"

#define DER_INTEGER 0x02
#define DER_OCTETS 0x04
#define DER_OID 0x06
#define DER_SEQUENCE 0x30
#define DER_SET 0x31
#define DER_CONTEXT_0 0xa0

#define RSA_LEAST 256		/* octets of a value by RSA-2048; one by ECDSA P-521 has 139 at most */

/*
 * Where the walk is lies in the scratch memory, not on the stack: there the verifier follows no values, so each step
 * looks the same to it, whatever lengths the steps before found.
 */
static __always_inline __u32 octet(const struct scratch *scratch, __u32 at)
{
	return scratch->signature[at & (TM_SIGNATURE_MAX - 1)];
}

/* Steps over a tag and its length, and returns the length. */
static __always_inline __u32 header(struct scratch *scratch, __u8 tag)
{
	__u32 at = scratch->at, length = octet(scratch, at + 1), size = 2;

	if (length == 0x81) {
		length = octet(scratch, at + 2);
		size = 3;
	} else if (length == 0x82) {
		length = octet(scratch, at + 2) << 8 | octet(scratch, at + 3);
		size = 4;
	} else if (length >= 0x80) {
		scratch->bad = 1;
	}
	if (octet(scratch, at) != tag || at + size + length > scratch->end)
		scratch->bad = 1;
	scratch->at = at + size;
	return length;
}

static __noinline void skip(struct scratch *scratch, __u8 tag)
{
	__u32 length;

	if (!scratch)
		return;
	length = header(scratch, tag);
	scratch->at += length;
}

/* Goes into a part that must be the last one of what it is in. */
static __noinline void enter_last(struct scratch *scratch, __u8 tag)
{
	__u32 length;

	if (!scratch)
		return;
	length = header(scratch, tag);
	if (scratch->at + length != scratch->end)
		scratch->bad = 1;
}

/* Fills scratch->id. -EBADMSG: not a signature as Touchmark writes them. `length`: how much of it was read. */
static __noinline int find_signature_id(struct scratch *scratch, __u32 length)
{
	__u32 size, last;

	if (!scratch || length > TM_SIGNATURE_MAX)
		return -EBADMSG;
	scratch->at = 0;
	scratch->end = length;
	scratch->bad = 0;
	enter_last(scratch, DER_SEQUENCE);	/* ContentInfo */
	skip(scratch, DER_OID);
	enter_last(scratch, DER_CONTEXT_0);
	enter_last(scratch, DER_SEQUENCE);	/* SignedData */
	skip(scratch, DER_INTEGER);
	skip(scratch, DER_SET);			/* digest algorithms */
	skip(scratch, DER_SEQUENCE);		/* no content */
	enter_last(scratch, DER_SET);		/* one SignerInfo */
	enter_last(scratch, DER_SEQUENCE);
	skip(scratch, DER_INTEGER);
	skip(scratch, DER_SEQUENCE);		/* issuer and serial number */
	skip(scratch, DER_SEQUENCE);		/* digest algorithm */
	skip(scratch, DER_SEQUENCE);		/* signature algorithm */
	enter_last(scratch, DER_OCTETS);

	if (scratch->end - scratch->at < RSA_LEAST) {
		/* r alone: s can be exchanged for its negative, and the signature holds. */
		enter_last(scratch, DER_SEQUENCE);
		size = header(scratch, DER_INTEGER);
		scratch->end = scratch->at + size;
	}
	if (scratch->bad)
		return -EBADMSG;
	scratch->id.kind = TM_KIND_SIGNATURE;
	size = scratch->end - scratch->at;
	last = scratch->end - 1;
	for (__u32 i = 0; i < TM_DIGEST_SIZE; i++)
		scratch->id.id[TM_DIGEST_SIZE - 1 - i] = i < size ? octet(scratch, last - i) : 0;
	return 0;
}

#endif
