// SPDX-License-Identifier: Apache-2.0
/* The configuration that an engine writes, as a file: how the hook reads it, and the bounds of the reading. */
#include "files.h"

static char config_path[sizeof(files_folder) + 16];
#define CGPU_CONFIG_PATH config_path
#include "json.c"
#include "read_file.c"
#include "settings.c"

static void read_within(const uint8_t *data, size_t bytes, size_t limit)
{
	char *text;
	long size = launcher_read_file(config_path, limit, &text);

	MUST(size == (bytes <= limit ? (long)bytes : -1) && (size < 0) == !text);
	MUST(size < 0 || memcmp(text, data, bytes) == 0);
	free(text);
}

static void read_part(int fd, size_t bytes, size_t limit)
{
	char *text = malloc(limit ? limit : 1);

	MUST(text && lseek(fd, 0, SEEK_SET) == 0);
	MUST(launcher_read_all(fd, text, limit) == (long)(limit < bytes ? limit : bytes));
	free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	int fd = files_open("config.json");
	char tree[PATH_MAX];

	snprintf(config_path, sizeof(config_path), "%s/config.json", files_folder);
	MUST(write(fd, data, bytes) == (ssize_t)bytes);
	for (size_t more = 0; more < 3; more++) {
		if (bytes + more == 0)
			continue;
		read_within(data, bytes, bytes + more - 1);
		read_part(fd, bytes, bytes + more - 1);
	}
	close(fd);
	memset(tree, 'x', sizeof(tree));
	if (hook_find_tree(tree))
		MUST(tree[0] == '/' && strnlen(tree, sizeof(tree)) < sizeof(tree));
	return 0;
}
