// SPDX-License-Identifier: Apache-2.0
/* The config.json of a bundle, as any bytes: how the launcher looks for words and devices, and the bounds of the reading. */
#include "scan.c"
#include "read_file.c"
#include "files.h"

static bool nothing_in(const char *text, size_t size)
{
	char *copy = malloc(size ? size : 1);
	bool nothing;

	MUST(copy);
	memcpy(copy, text, size);
	nothing = says_nothing(copy, size);
	free(copy);
	return nothing;
}

/* Names that no text has that asks nothing, and a letter that is spelt as JSON can. */
static bool has_trace(const char *text, size_t size)
{
	static const char *const traces[] = { "OPENCGPU_", "ALIYUN_COM_GPU_", "opencgpu.io", "nvidia", "\\u006",
		"\\u004", "\"major\":195" };

	for (size_t i = 0; i < sizeof(traces) / sizeof(traces[0]); i++)
		if (memmem(text, size, traces[i], strlen(traces[i])))
			return true;
	return false;
}

static void read_within(const char *data, size_t bytes, size_t limit)
{
	char path[sizeof(files_folder) + 16];
	char *text;
	long size;

	snprintf(path, sizeof(path), "%s/config.json", files_folder);
	size = launcher_read_file(path, limit, &text);
	MUST(size == (bytes <= limit ? (long)bytes : -1) && (size < 0) == !text);
	MUST(size < 0 || memcmp(text, data, bytes) == 0);
	free(text);
	/* A folder is no file, and a descriptor that is none cannot be read. */
	MUST(launcher_read_file(files_folder, limit, &text) == -1 && !text);
	MUST(launcher_read_file("", limit, &text) == -1 && !text && launcher_read_all(-1, path, 1) == -1);
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
	const char *text = (const char *)data;
	bool nothing = nothing_in(text, bytes);
	char *longer = malloc(bytes + 1);
	int fd = files_open("config.json");

	MUST(longer);
	MUST(!nothing || !has_trace(text, bytes));
	/* An object that a line feed follows says the same. */
	memcpy(longer, text, bytes);
	longer[bytes] = '\n';
	if (bytes && text[bytes - 1] == '}')
		MUST(nothing_in(longer, bytes + 1) == nothing);
	free(longer);
	MUST(write(fd, text, bytes) == (ssize_t)bytes);
	for (size_t more = bytes ? 0 : 1; more < 3; more++) {
		read_within(text, bytes, bytes + more - 1);
		read_part(fd, bytes, bytes + more - 1);
	}
	MUST(launcher_asks_nothing(files_folder) == nothing);
	close(fd);
	return 0;
}
