/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* A BPF program of one's own at the hook that decides about programs. It always says yes. */
#include "attack.h"
#include <linux/bpf.h>
#include <linux/btf.h>
#include <sys/stat.h>

/* How much follows a type's description, in bytes (Documentation/bpf/btf.rst). */
static size_t extra(const struct btf_type *type)
{
	size_t count = BTF_INFO_VLEN(type->info);

	switch (BTF_INFO_KIND(type->info)) {
	case BTF_KIND_INT:
	case BTF_KIND_VAR:
	case BTF_KIND_DECL_TAG:
		return 4;
	case BTF_KIND_ARRAY:
		return sizeof(struct btf_array);
	case BTF_KIND_STRUCT:
	case BTF_KIND_UNION:
		return count * sizeof(struct btf_member);
	case BTF_KIND_ENUM:
		return count * sizeof(struct btf_enum);
	case BTF_KIND_ENUM64:
		return count * sizeof(struct btf_enum64);
	case BTF_KIND_FUNC_PROTO:
		return count * sizeof(struct btf_param);
	case BTF_KIND_DATASEC:
		return count * sizeof(struct btf_var_secinfo);
	}
	return 0;
}

/* The number of a function in the kernel's description of itself; 0: it has none of this name. */
static unsigned int function_id(const char *name)
{
	int file = open("/sys/kernel/btf/vmlinux", O_RDONLY);
	struct stat status;
	const struct btf_header *head;
	const char *types, *end;
	char *bytes;
	ssize_t got = 0;

	if (file < 0 || fstat(file, &status))
		return 0;
	bytes = malloc(status.st_size);
	for (ssize_t more = 1; bytes && more > 0; got += more)
		more = read(file, bytes + got, status.st_size - got);
	close(file);
	if (!bytes || got != status.st_size)
		return 0;
	head = (const void *)bytes;
	types = bytes + head->hdr_len + head->type_off;
	end = types + head->type_len;
	for (unsigned int id = 1; types < end; id++) {
		const struct btf_type *type = (const void *)types;
		const char *found = bytes + head->hdr_len + head->str_off + type->name_off;

		if (BTF_INFO_KIND(type->info) == BTF_KIND_FUNC && strcmp(found, name) == 0)
			return id;
		types += sizeof(*type) + extra(type);
	}
	return 0;
}

static int attach_yes(void)
{
	struct bpf_insn code[] = {
		{ .code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0, .imm = 0 },
		{ .code = BPF_JMP | BPF_EXIT },
	};
	union bpf_attr attribute = {
		.prog_type = BPF_PROG_TYPE_LSM,
		.expected_attach_type = BPF_LSM_MAC,
		.attach_btf_id = function_id("bpf_lsm_bprm_check_security"),
		.insns = (uintptr_t)code,
		.insn_cnt = 2,
		.license = (uintptr_t)"GPL",
	};
	int program = syscall(SYS_bpf, BPF_PROG_LOAD, &attribute, sizeof(attribute));

	if (program < 0)
		return -1;
	attribute = (union bpf_attr){ .raw_tracepoint.prog_fd = program };
	return syscall(SYS_bpf, BPF_RAW_TRACEPOINT_OPEN, &attribute, sizeof(attribute));
}

static int rival(char **arguments)
{
	int link = attach_yes(), status;
	pid_t child;

	if (link < 0)
		return errno == EPERM ? EACCES : errno;
	child = fork();
	if (!child) {
		execl(arguments[0], arguments[0], "nothing", NULL);
		_exit(errno);
	}
	waitpid(child, &status, 0);
	close(link);
	return WEXITSTATUS(status);
}

const struct named rival_attacks[] = {
	{ "rival", rival },
	{ NULL, NULL },
};
