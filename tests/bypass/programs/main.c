/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* `attacker NAME [ARGUMENT...]`: runs the attack of that name; the exit code is what it returns. */
#include "attack.h"
#include <sys/stat.h>

static int nothing(char **arguments)
{
	(void)arguments;
	return 0;
}

static int wait_for_a_signal(char **arguments)
{
	(void)arguments;
	pause();
	return 0;
}

/* Shows that it ran: takes its input to the end, and makes a file. */
static int mark(char **arguments)
{
	char room[PAGE];

	while (read(0, room, sizeof(room)) > 0)
		;
	return open(arguments[0], O_CREAT | O_WRONLY, 0600) < 0 ? errno : 0;
}

/* Whether this program is another file than the one of that size, which one asked for. */
static int other_than(char **arguments)
{
	struct stat status;

	if (stat("/proc/self/exe", &status))
		return errno;
	return status.st_size == atoll(arguments[0]) ? EAGAIN : 0;
}

static const struct named plain[] = {
	{ "nothing", nothing },
	{ "wait", wait_for_a_signal },
	{ "mark", mark },
	{ "other-than", other_than },
	{ NULL, NULL },
};

int main(int count, char **arguments)
{
	const struct named *const lists[] = {
		plain, memory_attacks, process_attacks, file_attacks, kernel_attacks, bpf_attacks,
		fuse_attacks, rival_attacks,
	};
	/* As the interpreter of a script or by binfmt_misc it is not told what to do: that it runs is enough. */
	const char *name = count > 1 && arguments[1][0] != '/' ? arguments[1] : "nothing";

	for (size_t i = 0; i < sizeof(lists) / sizeof(*lists); i++) {
		for (const struct named *attack = lists[i]; attack->name; attack++) {
			if (strcmp(attack->name, name) == 0)
				return attack->run(arguments + (count > 1 ? 2 : 1));
		}
	}
	return ENOSYS;
}
