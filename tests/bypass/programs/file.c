/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Changing a file while its code is in use, and using one that can be changed. */
#include "attack.h"
#include <linux/io_uring.h>

#ifndef AT_EXECVE_CHECK
#define AT_EXECVE_CHECK 0x10000
#endif

/* A mapping of the code, which lies at the file's begin. */
static void *mapped(const char *path)
{
	int file = open(path, O_RDONLY);
	void *memory = file < 0 ? MAP_FAILED : mmap(NULL, PAGE, PROT_READ | PROT_EXEC, MAP_PRIVATE, file, 0);

	if (file >= 0)
		close(file);
	return memory;
}

/* Writes 43 in place of 42, and sees whether the code in use is another now. */
static int change(int file, void *code)
{
	if (file < 0 || pwrite(file, "\x2b", 1, 1) != 1)
		return errno;
	return ((int (*)(void))code)() == 43 ? 0 : ENOEXEC;
}

/* Opens by its second argument the file that is mapped by its first: the same, another name, another mount. */
static int write_mapped(char **arguments)
{
	void *code = mapped(arguments[0]);

	return code == MAP_FAILED ? errno : change(open(arguments[1], O_WRONLY), code);
}

static int write_mapped_by_handle(char **arguments)
{
	union {
		struct file_handle handle;
		char room[sizeof(struct file_handle) + MAX_HANDLE_SZ];
	} found = { .handle.handle_bytes = MAX_HANDLE_SZ };
	void *code = mapped(arguments[0]);
	int mount, folder = open(arguments[1], O_RDONLY | O_DIRECTORY);

	if (code == MAP_FAILED || folder < 0)
		return errno;
	if (name_to_handle_at(AT_FDCWD, arguments[0], &found.handle, &mount, 0))
		return errno;
	return change(open_by_handle_at(folder, &found.handle, O_WRONLY), code);
}

static int ring_open(const char *path)
{
	struct io_uring_params parameters = {};
	int ring = syscall(SYS_io_uring_setup, 1, &parameters), result;
	char *queue, *done;
	struct io_uring_sqe *entry;

	if (ring < 0)
		return -1;
	queue = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, ring, IORING_OFF_SQ_RING);
	done = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, ring, IORING_OFF_CQ_RING);
	entry = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, ring, IORING_OFF_SQES);
	if (queue == MAP_FAILED || done == MAP_FAILED || entry == MAP_FAILED)
		return -1;
	entry->opcode = IORING_OP_OPENAT;
	entry->fd = AT_FDCWD;
	entry->addr = (uintptr_t)path;
	entry->open_flags = O_WRONLY;
	*(unsigned int *)(queue + parameters.sq_off.array) = 0;
	__atomic_store_n((unsigned int *)(queue + parameters.sq_off.tail), 1, __ATOMIC_RELEASE);
	if (syscall(SYS_io_uring_enter, ring, 1, 1, IORING_ENTER_GETEVENTS, NULL, 0) < 0)
		return -1;
	result = ((struct io_uring_cqe *)(done + parameters.cq_off.cqes))->res;
	if (result < 0) {
		errno = -result;
		return -1;
	}
	return result;
}

static int write_mapped_by_ring(char **arguments)
{
	void *code = mapped(arguments[0]);

	return code == MAP_FAILED ? errno : change(ring_open(arguments[0]), code);
}

static int truncate_mapped(char **arguments)
{
	void *code = mapped(arguments[0]);

	if (code == MAP_FAILED)
		return errno;
	return truncate(arguments[0], 1) ? errno : 0;
}

static int truncate_mapped_by_open(char **arguments)
{
	void *code = mapped(arguments[0]);

	if (code == MAP_FAILED)
		return errno;
	return open(arguments[0], O_RDONLY | O_TRUNC) < 0 ? errno : 0;
}

static int punch_mapped(char **arguments)
{
	void *code = mapped(arguments[0]);
	int file = open(arguments[0], O_WRONLY);

	if (code == MAP_FAILED || file < 0)
		return errno;
	return fallocate(file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, PAGE) ? errno : 0;
}

static int map_while_open(char **arguments)
{
	int file = open(arguments[0], O_WRONLY);
	void *code;

	if (file < 0)
		return errno;
	code = mapped(arguments[0]);
	return code == MAP_FAILED ? errno : change(file, code);
}

/* The descriptor is closed; the mapping goes on writing. */
static int map_while_mapped_writable(char **arguments)
{
	int file = open(arguments[0], O_RDWR);
	char *writable;
	void *code;

	if (file < 0)
		return errno;
	writable = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	close(file);
	code = mapped(arguments[0]);
	if (writable == MAP_FAILED || code == MAP_FAILED)
		return errno;
	writable[1] = 43;
	return ((int (*)(void))code)() == 43 ? 0 : ENOEXEC;
}

static int write_running(char **arguments)
{
	pid_t child = fork();
	int file, failed;

	if (!child) {
		execl(arguments[0], arguments[0], "wait", NULL);
		_exit(errno);
	}
	/* Until the child runs the file, opening it for writing is nothing special. */
	for (char path[64], target[4096] = "";;) {
		ssize_t size;

		snprintf(path, sizeof(path), "/proc/%d/exe", child);
		size = readlink(path, target, sizeof(target) - 1);
		target[size < 0 ? 0 : size] = 0;
		if (strcmp(target, arguments[0]) == 0 || waitpid(child, NULL, WNOHANG) == child)
			break;
	}
	file = open(arguments[0], O_WRONLY);
	failed = file < 0 ? errno : 0;
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	return failed;
}

static int run_while_open(char **arguments)
{
	int file = open(arguments[0], O_WRONLY), status;
	pid_t child;

	if (file < 0)
		return errno;
	child = fork();
	if (!child) {
		execl(arguments[0], arguments[0], "nothing", NULL);
		_exit(errno);
	}
	waitpid(child, &status, 0);
	return WEXITSTATUS(status);
}

static int run_by_descriptor(char **arguments)
{
	char *words[] = { arguments[0], "nothing", NULL }, *environment[] = { NULL };
	int file = open(arguments[0], O_RDONLY);

	if (file < 0)
		return errno;
	if (arguments[1])
		unlink(arguments[0]);
	syscall(SYS_execveat, file, "", words, environment, AT_EMPTY_PATH);
	return errno;
}

/* What an interpreter asks that wants to know whether it may run a script. */
static int ask_about_script(char **arguments)
{
	char *words[] = { arguments[0], NULL }, *environment[] = { NULL };
	int file = open(arguments[0], O_RDONLY);

	if (file < 0)
		return errno;
	return syscall(SYS_execveat, file, "", words, environment, AT_EMPTY_PATH | AT_EXECVE_CHECK) ? errno : 0;
}

const struct named file_attacks[] = {
	{ "write-mapped", write_mapped },
	{ "write-mapped-by-handle", write_mapped_by_handle },
	{ "write-mapped-by-ring", write_mapped_by_ring },
	{ "truncate-mapped", truncate_mapped },
	{ "truncate-mapped-by-open", truncate_mapped_by_open },
	{ "punch-mapped", punch_mapped },
	{ "map-while-open", map_while_open },
	{ "map-while-mapped-writable", map_while_mapped_writable },
	{ "write-running", write_running },
	{ "run-while-open", run_while_open },
	{ "run-by-descriptor", run_by_descriptor },
	{ "ask-about-script", ask_about_script },
	{ NULL, NULL },
};
