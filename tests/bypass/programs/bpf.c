/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* bpf(2) without any library: reaching for maps and programs of others by their number. */
#include "attack.h"
#include <linux/bpf.h>
#include <stddef.h>

static long bpf(int command, union bpf_attr *attribute)
{
	return syscall(SYS_bpf, command, attribute, sizeof(*attribute));
}

/*
 * A descriptor of the newest map or program of this name, as older ones may be about to go; -1 and errno. The first
 * refusal ends the search.
 */
static int by_name(const char *name, int next, int open_by_id, size_t name_at, void *info, size_t size)
{
	unsigned int id = 0;
	int newest = -1;

	for (;;) {
		union bpf_attr attribute = { .start_id = id };
		int found;

		if (bpf(next, &attribute))
			return newest;
		id = attribute.next_id;
		attribute = (union bpf_attr){ .map_id = id };
		found = bpf(open_by_id, &attribute);
		if (found < 0 && errno == EPERM)
			return -1;
		if (found < 0)
			continue;
		attribute = (union bpf_attr){ .info = { found, size, (uintptr_t)info } };
		if (bpf(BPF_OBJ_GET_INFO_BY_FD, &attribute) == 0 && strcmp((char *)info + name_at, name) == 0)
			newest = found;
		else
			close(found);
	}
}

/* Turns the policy off. */
static int write_map(char **arguments)
{
	struct bpf_map_info info = {};
	char value[1024] = {};
	unsigned int key = 0;
	int map = by_name("policies", BPF_MAP_GET_NEXT_ID, BPF_MAP_GET_FD_BY_ID, offsetof(struct bpf_map_info, name),
			  &info, sizeof(info));
	union bpf_attr attribute = { .map_fd = map, .key = (uintptr_t)&key, .value = (uintptr_t)value };

	(void)arguments;
	if (map < 0)
		return errno;
	return bpf(BPF_MAP_UPDATE_ELEM, &attribute) ? errno : 0;
}

static int open_program(char **arguments)
{
	struct bpf_prog_info info = {};

	(void)arguments;
	return by_name("check_exec", BPF_PROG_GET_NEXT_ID, BPF_PROG_GET_FD_BY_ID, offsetof(struct bpf_prog_info, name),
		       &info, sizeof(info)) < 0 ? errno : 0;
}

/* By its pin: a descriptor that writes. */
static int open_pin(char **arguments)
{
	union bpf_attr attribute = { .pathname = (uintptr_t)arguments[0] };

	return bpf(BPF_OBJ_GET, &attribute) < 0 ? errno : 0;
}

/*
 * A program that would change what security_bpf_map() answers. Which function it is about is told by a number that
 * this does not look up, so without the rule the kernel gets as far as finding that out.
 */
static int load_modifier(char **arguments)
{
	struct bpf_insn code[] = {
		{ .code = 0xb7, .dst_reg = 0, .imm = 1 },	/* r0 = 1 */
		{ .code = 0x95 },				/* exit */
	};
	union bpf_attr attribute = {
		.prog_type = BPF_PROG_TYPE_TRACING,
		.expected_attach_type = BPF_MODIFY_RETURN,
		.insns = (uintptr_t)code,
		.insn_cnt = 2,
		.license = (uintptr_t)"GPL",
	};

	(void)arguments;
	if (bpf(BPF_PROG_LOAD, &attribute) >= 0)
		return 0;
	return errno == EINVAL ? 0 : errno;
}

/* Nobody's business but the caller's. */
static int own_map(char **arguments)
{
	unsigned int key = 0, value = 1;
	union bpf_attr attribute = { .map_type = BPF_MAP_TYPE_ARRAY, .key_size = 4, .value_size = 4, .max_entries = 1 };
	int map = bpf(BPF_MAP_CREATE, &attribute);

	(void)arguments;
	if (map < 0)
		return errno;
	attribute = (union bpf_attr){ .map_fd = map, .key = (uintptr_t)&key, .value = (uintptr_t)&value };
	return bpf(BPF_MAP_UPDATE_ELEM, &attribute) ? errno : 0;
}

const struct named bpf_attacks[] = {
	{ "write-map", write_map },
	{ "open-program", open_program },
	{ "open-pin", open_pin },
	{ "load-modifier", load_modifier },
	{ "own-map", own_map },
	{ NULL, NULL },
};
