/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Code for the kernel itself. */
#include "attack.h"
#include <sys/stat.h>

static int module_from_file(char **arguments)
{
	int file = open(arguments[0], O_RDONLY);

	if (file < 0)
		return errno;
	return syscall(SYS_finit_module, file, "", 0) ? errno : 0;
}

static int module_from_memory(char **arguments)
{
	int file = open(arguments[0], O_RDONLY);
	struct stat status;
	void *memory;

	if (file < 0 || fstat(file, &status))
		return errno;
	memory = mmap(NULL, status.st_size, PROT_READ, MAP_PRIVATE, file, 0);
	if (memory == MAP_FAILED)
		return errno;
	return syscall(SYS_init_module, memory, status.st_size, "") ? errno : 0;
}

/* No segments: nothing is loaded, but whether one may is asked all the same. */
static int kexec_from_memory(char **arguments)
{
	(void)arguments;
	return syscall(SYS_kexec_load, 0, 0, NULL, 0) ? errno : 0;
}

/* Whatever the file is, the kernel reads it as an image; that it is none is found out afterwards. */
static int kexec_from_file(char **arguments)
{
	int file = open(arguments[0], O_RDONLY);

	if (file < 0)
		return errno;
	if (syscall(SYS_kexec_file_load, file, -1, 1UL, "", 4UL /* KEXEC_FILE_NO_INITRAMFS */) == 0)
		return 0;
	return errno == ENOEXEC || errno == EINVAL ? 0 : errno;
}

static int physical_memory(char **arguments)
{
	(void)arguments;
	return open("/dev/mem", O_RDWR) < 0 ? errno : 0;
}

const struct named kernel_attacks[] = {
	{ "module-from-file", module_from_file },
	{ "module-from-memory", module_from_memory },
	{ "kexec-from-memory", kexec_from_memory },
	{ "kexec-from-file", kexec_from_file },
	{ "physical-memory", physical_memory },
	{ NULL, NULL },
};
