/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Code that is no approved file's content: what an exploited program does next. */
#include "attack.h"
#include <sys/personality.h>
#include <sys/shm.h>

static int map_and_run(int protection, int flags, int later)
{
	void *memory = mmap(NULL, PAGE, protection, flags | MAP_ANONYMOUS, -1, 0);

	if (memory == MAP_FAILED)
		return errno;
	memcpy(memory, CODE, CODE_SIZE);
	if (later && mprotect(memory, PAGE, later))
		return errno;
	return run_code(memory);
}

static int anonymous(char **arguments)
{
	(void)arguments;
	return map_and_run(PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE, 0);
}

static int anonymous_shared(char **arguments)
{
	(void)arguments;
	return map_and_run(PROT_READ | PROT_WRITE | PROT_EXEC, MAP_SHARED, 0);
}

static int anonymous_later(char **arguments)
{
	(void)arguments;
	return map_and_run(PROT_READ | PROT_WRITE, MAP_PRIVATE, PROT_READ | PROT_EXEC);
}

static int protect_and_run(void *memory)
{
	if (mprotect(memory, PAGE, PROT_READ | PROT_WRITE | PROT_EXEC))
		return errno;
	return put_and_run(memory);
}

static int heap(char **arguments)
{
	uintptr_t end = (uintptr_t)sbrk(3 * PAGE);

	(void)arguments;
	return protect_and_run((void *)((end + PAGE) & ~(uintptr_t)(PAGE - 1)));
}

static int stack(char **arguments)
{
	char room[3 * PAGE];

	(void)arguments;
	return protect_and_run((void *)(((uintptr_t)room + PAGE) & ~(uintptr_t)(PAGE - 1)));
}

/* The heap of a process with this personality is executable from the start: no call asks for it. */
static int heap_by_personality(char **arguments)
{
	uintptr_t end;

	(void)arguments;
	if (personality(READ_IMPLIES_EXEC) < 0)
		return errno;
	end = (uintptr_t)sbrk(3 * PAGE);
	return put_and_run((void *)((end + PAGE) & ~(uintptr_t)(PAGE - 1)));
}

static int memory_file(char **arguments)
{
	int file = memfd_create("code", 0);
	void *memory;

	(void)arguments;
	if (file < 0 || write(file, CODE, CODE_SIZE) != CODE_SIZE)
		return errno;
	memory = mmap(NULL, PAGE, PROT_READ | PROT_EXEC, MAP_SHARED, file, 0);
	return memory == MAP_FAILED ? errno : run_code(memory);
}

static int shared_segment(char **arguments)
{
	int segment = shmget(IPC_PRIVATE, PAGE, IPC_CREAT | 0700);
	void *writable, *executable;

	(void)arguments;
	if (segment < 0)
		return errno;
	writable = shmat(segment, NULL, 0);
	executable = shmat(segment, NULL, SHM_EXEC);
	shmctl(segment, IPC_RMID, NULL);
	if (executable == (void *)-1)
		return errno;
	memcpy(writable, CODE, CODE_SIZE);
	return run_code(executable);
}

static void *map_file(const char *path, int protection)
{
	int file = open(path, O_RDONLY);

	return file < 0 ? MAP_FAILED : mmap(NULL, PAGE, protection, MAP_PRIVATE, file, 0);
}

static int map_executable(char **arguments)
{
	void *memory = map_file(arguments[0], PROT_READ | PROT_EXEC);

	return memory == MAP_FAILED ? errno : run_code(memory);
}

static int map_then_protect(char **arguments)
{
	void *memory = map_file(arguments[0], PROT_READ);

	if (memory == MAP_FAILED || mprotect(memory, PAGE, PROT_READ | PROT_EXEC))
		return errno;
	return run_code(memory);
}

static int private_copy(char **arguments)
{
	void *memory = map_file(arguments[0], PROT_READ | PROT_WRITE);

	if (memory == MAP_FAILED)
		return errno;
	memcpy(memory, CODE, CODE_SIZE);
	return mprotect(memory, PAGE, PROT_READ | PROT_EXEC) ? errno : run_code(memory);
}

static int private_writable_executable(char **arguments)
{
	void *memory = map_file(arguments[0], PROT_READ | PROT_WRITE | PROT_EXEC);

	return memory == MAP_FAILED ? errno : put_and_run(memory);
}

const struct named memory_attacks[] = {
	{ "anonymous", anonymous },
	{ "anonymous-shared", anonymous_shared },
	{ "anonymous-later", anonymous_later },
	{ "heap", heap },
	{ "stack", stack },
	{ "heap-by-personality", heap_by_personality },
	{ "memory-file", memory_file },
	{ "shared-segment", shared_segment },
	{ "map-executable", map_executable },
	{ "map-then-protect", map_then_protect },
	{ "private-copy", private_copy },
	{ "private-writable-executable", private_writable_executable },
	{ NULL, NULL },
};
