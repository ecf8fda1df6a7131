/* SPDX-License-Identifier: Apache-2.0 */
/* A folder for a target whose subject reads or writes files. The folder goes when the target ends by itself. */
#ifndef CGPU_FUZZ_FILES_H
#define CGPU_FUZZ_FILES_H

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "../must.h"

static char files_folder[64];

static void files_remove(void)
{
	static const char *const names[] = { "config.json", "version", "inst_ctl" };
	char path[sizeof(files_folder) + 16];

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		snprintf(path, sizeof(path), "%s/%s", files_folder, names[i]);
		unlink(path);
	}
	rmdir(files_folder);
}

/* Open a file of the folder, empty; the caller closes it. */
static int files_open(const char *name)
{
	char path[sizeof(files_folder) + 16];
	int fd;

	if (!files_folder[0]) {
		/* In memory: a disk's file system may write a file that was emptied before it goes on. */
		strcpy(files_folder,
			access("/dev/shm", W_OK) == 0 ? "/dev/shm/cgpu-fuzz-XXXXXX" : "/tmp/cgpu-fuzz-XXXXXX");
		MUST(mkdtemp(files_folder));
		atexit(files_remove);
	}
	snprintf(path, sizeof(path), "%s/%s", files_folder, name);
	fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	MUST(fd >= 0);
	return fd;
}

#endif
