// SPDX-License-Identifier: Apache-2.0
/* Fuzz target: the hook's arguments, which a specification has, on their way to the engine and the log. */
#include "files.h"

#define CGPU_DRAINING_PATH "/nowhere"
#include "register.c"

#define WORDS 64

static size_t logged;

void hook_log(const char *container, const char *line)
{
	logged = strlen(line);
	MUST(strcmp(container, "c1") == 0 && logged <= HOOK_LINE_MAX && !strchr(line, '\n'));
}

/* The words of an input, with a zero byte between them. */
static int split(char *text, size_t bytes, char *words[WORDS])
{
	int count = 0;

	for (size_t at = 0; at < bytes && count < WORDS; at += strlen(text + at) + 1)
		words[count++] = text + at;
	return count;
}

static void check_line(const char *line, int words)
{
	int given = 0;

	MUST(strncmp(line, "create id=c1 pid=7 ", 19) == 0 && strlen(line) <= HOOK_LINE_MAX);
	for (size_t i = 0; line[i]; i++) {
		given += line[i] == ' ';
		MUST(strchr("abcdefghijklmnopqrstuvwxyz0123456789=:- ", line[i]));
	}
	MUST(given - 2 == words / 2);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	struct hook_state state = { .id = "c1", .pid = 7 };
	char line[HOOK_LINE_MAX + 2] = "";
	char *text = calloc(bytes + 1, 1);
	char *words[WORDS];
	int fd = files_open("inst_ctl");
	int count;

	close(files_open("version"));
	MUST(text);
	memcpy(text, data, bytes);
	count = split(text, bytes, words);
	logged = 0;
	if (hook_register(files_folder, &state, count, words)) {
		MUST(read(fd, line, sizeof(line) - 1) > 0 && logged > 0);
		check_line(line, count);
		MUST(hook_remove(files_folder, &state));
	} else {
		MUST(read(fd, line, sizeof(line) - 1) == 0 && logged == 0);
	}
	close(fd);
	free(text);
	return 0;
}
