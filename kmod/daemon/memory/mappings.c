// SPDX-License-Identifier: Apache-2.0
/* Reads the mappings of a process from /proc. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#include "mappings.h"

#define CHUNK 65536
#define PREFIX 96 /* of a line: everything before the name */

/* Names can be long; only what comes before them counts. */
struct line {
	char text[PREFIX + 1];
	u32 length;
};

/* proc_pid_maps(5): start-end perms offset device inode name */
static void line_end(struct line *line, mapping_fn each, void *ctx)
{
	unsigned long long start, end, offset, inode;
	char perms[5];

	line->text[line->length] = 0;
	line->length = 0;
	if (sscanf(line->text, "%llx-%llx %4s %llx %*x:%*x %llu", &start, &end, perms, &offset, &inode) != 5)
		return;
	if (perms[3] == 's' && inode != 0 && offset == start && end > start)
		each(ctx, start, end);
}

int mappings_walk(int fd, mapping_fn each, void *ctx)
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
