/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Writing into other processes, and into one's own code. */
#include "attack.h"
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/uio.h>

/* A child looks at this until somebody changes it. It ends by itself if nobody does. */
static volatile long poked;

static pid_t start_victim(int asks_to_be_traced)
{
	pid_t child = fork();

	if (child)
		return child;
	if (asks_to_be_traced) {
		if (ptrace(PTRACE_TRACEME, 0, 0, 0))
			_exit(errno);
		raise(SIGSTOP);
	}
	for (long i = 0; i < 2000 && !poked; i++)
		usleep(10000);
	_exit(poked ? 0 : ETIMEDOUT);
}

/* What became of the child, if nothing failed before. */
static int outcome(pid_t child, int failed)
{
	int status;

	if (failed)
		kill(child, SIGKILL);
	waitpid(child, &status, 0);
	if (failed)
		return failed;
	return WIFEXITED(status) ? WEXITSTATUS(status) : EINTR;
}

static int poke_and_detach(pid_t child)
{
	if (ptrace(PTRACE_POKEDATA, child, &poked, 1L))
		return errno;
	return ptrace(PTRACE_DETACH, child, 0, 0) ? errno : 0;
}

static int attach(char **arguments)
{
	pid_t child = start_victim(0);
	int failed = 0;

	(void)arguments;
	if (ptrace(PTRACE_ATTACH, child, 0, 0))
		failed = errno;
	else if (waitpid(child, NULL, 0) == child)
		failed = poke_and_detach(child);
	return outcome(child, failed);
}

static int traceme(char **arguments)
{
	pid_t child = start_victim(1);
	int status;

	(void)arguments;
	waitpid(child, &status, WUNTRACED);
	if (WIFEXITED(status))
		return WEXITSTATUS(status);
	return outcome(child, poke_and_detach(child));
}

static int vm_writev(char **arguments)
{
	pid_t child = start_victim(0);
	long one = 1;
	struct iovec from = { &one, sizeof(one) }, to = { (void *)&poked, sizeof(poked) };

	(void)arguments;
	return outcome(child, process_vm_writev(child, &from, 1, &to, 1, 0) < 0 ? errno : 0);
}

static int others_memory(char **arguments)
{
	pid_t child = start_victim(0);
	long one = 1;
	char path[64];
	int file;

	(void)arguments;
	snprintf(path, sizeof(path), "/proc/%d/mem", child);
	file = open(path, O_RDWR);
	return outcome(child, file < 0 || pwrite(file, &one, sizeof(one), (off_t)&poked) < 0 ? errno : 0);
}

static __attribute__((noinline)) int one(void)
{
	__asm__ volatile("");
	return 1;
}

/* The kernel writes to pages that the process may only execute. */
static int own_memory(char **arguments)
{
	int (*volatile function)(void) = one;
	int file = open("/proc/self/mem", O_RDWR);

	(void)arguments;
	if (file < 0 || pwrite(file, CODE, CODE_SIZE, (off_t)function) < 0)
		return errno;
	return function() == 42 ? 0 : ENOEXEC;
}

/* Traces a child that runs this program, and has it start the one named. */
static int trace_across_exec(char **arguments)
{
	pid_t child = fork();
	int status;

	if (!child) {
		if (ptrace(PTRACE_TRACEME, 0, 0, 0))
			_exit(EINVAL);
		execl(arguments[0], arguments[0], "nothing", NULL);
		_exit(errno);
	}
	/* Stopped by its exec, and in the tracer's hands; or ended because that failed. */
	waitpid(child, &status, 0);
	if (WIFEXITED(status))
		return WEXITSTATUS(status);
	kill(child, SIGKILL);
	waitpid(child, &status, 0);
	return 0;
}

static int attach_to(char **arguments)
{
	pid_t target = atoi(arguments[0]);

	if (ptrace(PTRACE_ATTACH, target, 0, 0))
		return errno;
	waitpid(target, NULL, 0);
	return ptrace(PTRACE_DETACH, target, 0, 0) ? errno : 0;
}

/* Puts memory of its own in the place of what is mapped of its program, so that nothing of the file is left. */
static int leave_own_program(void)
{
	char line[512], own[256] = {};
	FILE *maps = fopen("/proc/self/maps", "re");
	uintptr_t starts[16], ends[16];
	int found = 0;

	if (!maps || readlink("/proc/self/exe", own, sizeof(own) - 1) < 0)
		return errno;
	while (found < 16 && fgets(line, sizeof(line), maps)) {
		if (strstr(line, own) && sscanf(line, "%lx-%lx", &starts[found], &ends[found]) == 2)
			found++;
	}
	fclose(maps);
	for (int i = 0; i < found; i++) {
		size_t size = ends[i] - starts[i];
		void *copy = mmap(NULL, size, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		if (copy == MAP_FAILED)
			return errno;
		memcpy(copy, (void *)starts[i], size);
		if (mremap(copy, size, size, MREMAP_MAYMOVE | MREMAP_FIXED, (void *)starts[i]) == MAP_FAILED)
			return errno;
	}
	return 0;
}

/* Names another file as its program: what that one may do, this one may. */
static int take_name(char **arguments)
{
	int file = open(arguments[0], O_RDONLY), failed;

	if (file < 0)
		return errno;
	if (prctl(PR_SET_MM, PR_SET_MM_EXE_FILE, file, 0, 0) == 0)
		return 0;
	if (errno != EBUSY)
		return errno;
	failed = leave_own_program();
	if (failed)
		return failed;
	return prctl(PR_SET_MM, PR_SET_MM_EXE_FILE, file, 0, 0) ? errno : 0;
}

const struct named process_attacks[] = {
	{ "attach", attach },
	{ "attach-to", attach_to },
	{ "traceme", traceme },
	{ "vm-writev", vm_writev },
	{ "others-memory", others_memory },
	{ "own-memory", own_memory },
	{ "take-name", take_name },
	{ "trace-across-exec", trace_across_exec },
	{ NULL, NULL },
};
