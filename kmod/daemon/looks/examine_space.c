// SPDX-License-Identifier: Apache-2.0
/* Examines the mappings of a process of a container, and the mounts through which it has opened files. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "examine.h"

#define CHUNK 65536
#define PREFIX 96 /* of a line: everything before the name */

int examine_lives(int pagemap)
{
	u8 part;

	/* fs/proc/task_mmu.c, pagemap_read(): nothing to read without users; else, as entries are longer, EINVAL. */
	return pread(pagemap, &part, sizeof(part), 0) < 0;
}

/* Names can be long; only the fields before them count. */
struct line {
	char text[PREFIX + 1];
	u32 length;
};

/* proc_pid_maps(5): start-end perms offset device inode name */
static void line_end(struct line *line, mapping_fn each, void *ctx)
{
	unsigned long long start, end, offset;
	char perms[5];

	line->text[line->length] = 0;
	line->length = 0;
	if (sscanf(line->text, "%llx-%llx %4s %llx", &start, &end, perms, &offset) != 4)
		return;
	if (perms[3] == 's' && offset == start && end > start)
		each(ctx, start, end);
}

int examine_mappings(int fd, mapping_fn each, void *ctx)
{
	struct line line = { .length = 0 };
	char chunk[CHUNK];
	u64 all = 0;
	ssize_t n, i;

	if (lseek(fd, 0, SEEK_SET) < 0)
		return -errno;
	while ((n = read(fd, chunk, sizeof(chunk))) > 0) {
		all += (u64)n;
		for (i = 0; i < n; i++) {
			if (chunk[i] == '\n')
				line_end(&line, each, ctx);
			else if (line.length < PREFIX)
				line.text[line.length++] = chunk[i];
		}
	}
	if (n < 0)
		return -errno;
	/* No address space that is in use is empty. */
	return all ? 0 : -ESRCH;
}

/*
 * Whether a process outside of containers uses files of the driver that it has not opened. No engine sees its calls,
 * but the kernel tells through which mount a file was opened (proc_pid_fdinfo(5), mnt_id), and which mounts a process has
 * (proc_pid_mountinfo(5)). A mount's number is of one mount namespace alone, and containers have their own.
 */

static FILE *open_below(s32 tgid, const char *name)
{
	int fd = examine_open(tgid, name, O_RDONLY);
	FILE *file = fd < 0 ? NULL : fdopen(fd, "re");

	if (fd >= 0 && !file)
		close(fd);
	return file;
}

/* -1: it is not told. */
static int mount_of(s32 tgid, int number)
{
	char name[32], line[128];
	int mount = -1;
	FILE *file;

	snprintf(name, sizeof(name), "fdinfo/%d", number);
	file = open_below(tgid, name);
	while (file && mount < 0 && fgets(line, sizeof(line), file))
		sscanf(line, "mnt_id: %d", &mount);
	if (file)
		fclose(file);
	return mount;
}

/* 1 also when the process's mounts cannot be read. */
static int has_mount(s32 tgid, int mount)
{
	FILE *file = open_below(tgid, "mountinfo");
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

int examine_foreign(s32 tgid, int number)
{
	int mount = mount_of(tgid, number);

	return mount >= 0 && !has_mount(tgid, mount);
}
