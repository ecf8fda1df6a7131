// SPDX-License-Identifier: Apache-2.0
/*
 * keep_files PID  takes descriptors of all of a process's /dev/nvidia* files, as if it had been sent them, says how
 * many it has, and keeps them until its standard input ends.
 */
#include <dirent.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "rm_client.h"

static int is_nvidia(const char *directory, const char *name)
{
	char path[PATH_MAX], target[64] = "";

	snprintf(path, sizeof(path), "%s/%s", directory, name);
	return readlink(path, target, sizeof(target) - 1) > 0 && strncmp(target, "/dev/nvidia", 11) == 0;
}

int main(int argc, char **argv)
{
	int process = argc == 2 ? (int)syscall(SYS_pidfd_open, atoi(argv[1]), 0) : -1, kept = 0;
	const struct dirent *entry;
	char directory[64];
	DIR *files;

	snprintf(directory, sizeof(directory), "/proc/%s/fd", argc == 2 ? argv[1] : "");
	files = opendir(directory);
	if (process < 0 || !files)
		return fprintf(stderr, "usage: keep_files PID\n"), 2;
	while ((entry = readdir(files)) != NULL) {
		if (is_nvidia(directory, entry->d_name) &&
			syscall(SYS_pidfd_getfd, process, atoi(entry->d_name), 0) >= 0)
			kept++;
	}
	printf("kept %d\n", kept);
	fflush(stdout);
	return getchar() == EOF ? 0 : 1;
}
