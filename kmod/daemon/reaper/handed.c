// SPDX-License-Identifier: Apache-2.0
/*
 * Whether a process outside of containers uses files of the driver that it has not opened. No engine sees its calls,
 * but the kernel tells through which mount a file was opened (proc_pid_fdinfo(5), mnt_id), and which mounts a process has
 * (proc_pid_mountinfo(5)). A mount's number is of one mount namespace alone, and containers have their own.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>

#include "handed.h"

#define FILES_MAX 4096 /* of one process are looked at */
#define NAME_BYTES 300

static FILE *open_below(s32 tgid, const char *directory, const char *name)
{
	char path[NAME_BYTES];

	snprintf(path, sizeof(path), "/proc/%d/%s%s", tgid, directory, name);
	return fopen(path, "re");
}

/* -1: it is not told. */
static int mount_of(s32 tgid, const char *number)
{
	FILE *file = open_below(tgid, "fdinfo/", number);
	char line[128];
	int mount = -1;

	while (file && mount < 0 && fgets(line, sizeof(line), file))
		if (sscanf(line, "mnt_id: %d", &mount) != 1)
			mount = -1;
	if (file)
		fclose(file);
	return mount;
}

/* Also when its mounts cannot be read. */
static int has_mount(s32 tgid, int mount)
{
	FILE *file = open_below(tgid, "mountinfo", "");
	char *line = NULL;
	size_t bytes = 0;
	int lines = 0, found = 0, number;

	while (file && !found && getline(&line, &bytes, file) > 0) {
		lines++;
		found = sscanf(line, "%d ", &number) == 1 && number == mount;
	}
	free(line);
	if (file)
		fclose(file);
	return found || lines == 0;
}

static int is_handed(struct devices *devices, s32 tgid, const char *number)
{
	struct identity identity;
	enum cgpu_device kind;
	char path[NAME_BYTES];
	int mount;
	u32 gpu;

	snprintf(path, sizeof(path), "/proc/%d/fd/%s", tgid, number);
	if (identity_of(AT_FDCWD, path, &identity) < 0 || !devices_identify(devices, &identity, &kind, &gpu))
		return 0;
	mount = mount_of(tgid, number);
	return mount >= 0 && !has_mount(tgid, mount);
}

int handed_files(struct devices *devices, s32 tgid)
{
	const struct dirent *entry;
	char path[NAME_BYTES];
	int handed = 0, seen = 0;
	DIR *directory;

	snprintf(path, sizeof(path), "/proc/%d/fd", tgid);
	directory = opendir(path);
	if (!directory)
		return 0;
	while (!handed && seen++ < FILES_MAX && (entry = readdir(directory)))
		if (entry->d_name[0] != '.')
			handed = is_handed(devices, tgid, entry->d_name);
	closedir(directory);
	return handed;
}
