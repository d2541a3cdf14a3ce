/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* What the attacks have in common. Each returns 0 if it worked, or the errno that stopped it. */
#ifndef ATTACK_H
#define ATTACK_H

#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

typedef int attack(char **arguments);

struct named {
	const char *name;
	attack *run;
};

extern const struct named memory_attacks[], process_attacks[], file_attacks[], kernel_attacks[], bpf_attacks[], fuse_attacks[],
	rival_attacks[];

#define PAGE 4096

/* mov eax, 42; ret */
#define CODE "\xb8\x2a\x00\x00\x00\xc3"
#define CODE_SIZE 6

/* Runs what lies there, which must be the code above. */
static inline int run_code(void *code)
{
	return ((int (*)(void))code)() == 42 ? 0 : ENOEXEC;
}

static inline int put_and_run(void *memory)
{
	memcpy(memory, CODE, CODE_SIZE);
	return run_code(memory);
}

#endif
