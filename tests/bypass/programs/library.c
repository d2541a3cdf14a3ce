/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Tells that it was loaded: makes the file that MARK names. */
#include <fcntl.h>
#include <stdlib.h>

__attribute__((constructor)) static void loaded(void)
{
	const char *mark = getenv("MARK");

	if (mark)
		open(mark, O_CREAT | O_WRONLY, 0600);
}

/* What the dynamic linker asks of an auditor (rtld-audit(7)). */
unsigned int la_version(unsigned int version)
{
	return version;
}
