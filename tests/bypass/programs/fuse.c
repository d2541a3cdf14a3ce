/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* A file system whose files are what this process says they are, at each moment. */
#include "attack.h"
#include <linux/fuse.h>
#include <sys/mount.h>
#include <sys/stat.h>

#define FILE_ID 2
#define READ_MAX 65536
#define NAME "file"

struct content {
	char *bytes;
	size_t size;
};

/* The one file: `honest` until its end was read `passes` times, `other` from then on. Both have one size. */
struct served {
	struct content honest, other;
	int passes;
};

static int load(const char *path, struct content *content)
{
	int file = open(path, O_RDONLY);
	struct stat status;

	if (file < 0 || fstat(file, &status))
		return errno;
	content->size = status.st_size;
	content->bytes = malloc(content->size);
	if (!content->bytes || read(file, content->bytes, content->size) != status.st_size)
		return EIO;
	close(file);
	return 0;
}

static void answer(int device, uint64_t unique, int error, const void *data, size_t size)
{
	static char room[sizeof(struct fuse_out_header) + READ_MAX];
	struct fuse_out_header head = { .len = sizeof(head) + size, .error = -error, .unique = unique };

	memcpy(room, &head, sizeof(head));
	if (size)
		memcpy(room + sizeof(head), data, size);
	/* The kernel may have given up on it. */
	if (write(device, room, head.len) < 0)
		return;
}

static struct fuse_attr attributes(const struct served *served, uint64_t node)
{
	struct fuse_attr attribute = { .ino = node, .nlink = 1, .blksize = PAGE };

	attribute.mode = node == FUSE_ROOT_ID ? S_IFDIR | 0755 : S_IFREG | 0755;
	attribute.size = node == FUSE_ROOT_ID ? 0 : served->honest.size;
	return attribute;
}

static void answer_read(int device, const struct fuse_in_header *head, const struct fuse_read_in *wanted,
			struct served *served)
{
	const struct content *content = served->passes > 0 ? &served->honest : &served->other;
	size_t offset = wanted->offset < content->size ? wanted->offset : content->size;
	size_t size = content->size - offset;

	if (size > wanted->size)
		size = wanted->size;
	answer(device, head->unique, 0, content->bytes + offset, size);
	if (size && offset + size == content->size)
		served->passes--;
}

/* Nothing is kept by the kernel: attributes and names are asked for anew, and reads go past the page cache. */
static void serve(int device, struct served *served)
{
	static char room[READ_MAX + PAGE];

	for (;;) {
		const struct fuse_in_header *head = (void *)room;
		const void *argument = room + sizeof(*head);

		if (read(device, room, sizeof(room)) < 0) {
			if (errno == EINTR || errno == ENOENT)
				continue;
			/* Unmounted. */
			_exit(0);
		}
		switch (head->opcode) {
		case FUSE_INIT: {
			struct fuse_init_out out = {
				.major = FUSE_KERNEL_VERSION, .minor = 31, .max_readahead = READ_MAX, .max_write = READ_MAX,
			};

			answer(device, head->unique, 0, &out, sizeof(out));
			break;
		}
		case FUSE_LOOKUP: {
			struct fuse_entry_out out = { .nodeid = FILE_ID, .attr = attributes(served, FILE_ID) };
			int found = strcmp(argument, NAME) == 0;

			answer(device, head->unique, found ? 0 : ENOENT, &out, found ? sizeof(out) : 0);
			break;
		}
		case FUSE_GETATTR: {
			struct fuse_attr_out out = { .attr = attributes(served, head->nodeid) };

			answer(device, head->unique, 0, &out, sizeof(out));
			break;
		}
		case FUSE_OPEN: {
			struct fuse_open_out out = { .open_flags = FOPEN_DIRECT_IO };

			answer(device, head->unique, 0, &out, sizeof(out));
			break;
		}
		case FUSE_READ:
			answer_read(device, head, argument, served);
			break;
		case FUSE_STATFS: {
			/* An overlay asks how long names may be. */
			struct fuse_statfs_out out = { .st = { .bsize = PAGE, .namelen = 255 } };

			answer(device, head->unique, 0, &out, sizeof(out));
			break;
		}
		case FUSE_RELEASE:
		case FUSE_FLUSH:
			answer(device, head->unique, 0, NULL, 0);
			break;
		case FUSE_FORGET:
		case FUSE_BATCH_FORGET:
		case FUSE_INTERRUPT:
			break;
		default:
			answer(device, head->unique, ENOSYS, NULL, 0);
		}
	}
}

static int map_and_run(const char *path)
{
	int file = open(path, O_RDONLY);
	void *code = file < 0 ? MAP_FAILED : mmap(NULL, PAGE, PROT_READ | PROT_EXEC, MAP_PRIVATE, file, 0);

	return code == MAP_FAILED ? errno : run_code(code);
}

static int start(const char *path)
{
	execl(path, path, "nothing", NULL);
	return errno;
}

/* Mounts an overlay of the folders `below`, as lowerdir= takes them; NULL: none is wanted. */
static int mount_above(const char *below, const char *merged)
{
	char options[PAGE];

	if (!below)
		return 0;
	snprintf(options, sizeof(options), "lowerdir=%s", below);
	return mount("overlay", merged, "overlay", 0, options) ? errno : 0;
}

/* Mounts, and has a child use the file: in `place`, or as an overlay of the folders `below` shows it at `merged`. */
static int with_served(const char *place, struct served *served, int (*use)(const char *), const char *below,
		       const char *merged)
{
	int device = open("/dev/fuse", O_RDWR | O_CLOEXEC), status, failed;
	char options[128], path[PAGE];
	pid_t server, user;

	snprintf(options, sizeof(options), "fd=%d,rootmode=40000,user_id=0,group_id=0,allow_other,max_read=%d", device, READ_MAX);
	snprintf(path, sizeof(path), "%s/" NAME, below ? merged : place);
	if (device < 0 || mount("fuse", place, "fuse", MS_NODEV | MS_NOSUID, options))
		return errno;
	server = fork();
	if (server == 0)
		serve(device, served);
	/* With its last descriptor the file system ends, whoever waits for it. */
	close(device);
	failed = mount_above(below, merged);
	user = failed ? -1 : fork();
	if (user == 0)
		_exit(use(path));
	if (user > 0) {
		waitpid(user, &status, 0);
		failed = WIFEXITED(status) ? WEXITSTATUS(status) : EINTR;
		if (below)
			umount2(merged, MNT_DETACH);
	}
	umount2(place, MNT_DETACH);
	kill(server, SIGKILL);
	waitpid(server, NULL, 0);
	return failed;
}

static int fuse_program(char **arguments)
{
	struct served served = {};
	int failed = load(arguments[1], &served.honest);

	served.other = served.honest;
	return failed ? failed : with_served(arguments[0], &served, start, NULL, NULL);
}

/*
 * PLACE HONEST OTHER [BELOW MERGED]: however often the file is read before it is used, one of the tries changes it right
 * after that.
 */
static int fuse_changes(char **arguments)
{
	const char *below = arguments[3];
	struct served served = {};
	int failed = load(arguments[1], &served.honest);

	if (!failed)
		failed = load(arguments[2], &served.other);
	if (!failed && served.honest.size != served.other.size)
		return EINVAL;
	for (int passes = 0; !failed && passes < 4; passes++) {
		served.passes = passes;
		failed = with_served(arguments[0], &served, map_and_run, below, below ? arguments[4] : NULL);
		if (!failed)
			return 0;
		/* The honest one ran. */
		failed = failed == ENOEXEC || failed == EPERM ? 0 : failed;
	}
	return failed ? failed : EPERM;
}

const struct named fuse_attacks[] = {
	{ "fuse-program", fuse_program },
	{ "fuse-changes", fuse_changes },
	{ NULL, NULL },
};
