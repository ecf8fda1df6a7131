// SPDX-License-Identifier: Apache-2.0
/* One line to the engine (docs/tree.md, inst_ctl, has its form), and one to the system log (system_log.c). */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "hook.h"

/* A text that grows at its end. */
struct line {
	char text[HOOK_LINE_MAX + 1];
	size_t length;
	bool full;
};

/* GPU:BYTES:WEIGHT:PRIORITY, as parse_grant() of cgpu/request/grants.py takes it. */
struct grant {
	unsigned long long number[4];
};

static const unsigned long long grant_limits[4] = { 9999, 1ull << 50, 999, 1 };

__attribute__((format(printf, 2, 3))) static void add(struct line *line, const char *format, ...)
{
	size_t room = sizeof(line->text) - line->length;
	va_list arguments;
	int length;

	va_start(arguments, format);
	length = vsnprintf(line->text + line->length, room, format, arguments);
	va_end(arguments);
	if (length < 0 || (size_t)length >= room)
		line->full = true;
	else
		line->length += (size_t)length;
}

/* A whole number of at most so many digits, without zeros before it. Returns what follows it, or NULL. */
static const char *take_number(const char *text, size_t digits, unsigned long long *number)
{
	size_t length = strspn(text, "0123456789");

	if (length == 0 || length > digits || (text[0] == '0' && length > 1))
		return NULL;
	*number = strtoull(text, NULL, 10);
	return text + length;
}

static bool parse_grant(const char *text, struct grant *grant)
{
	for (int i = 0; i < 4; i++) {
		text = take_number(text, 16, &grant->number[i]);
		if (!text || grant->number[i] > grant_limits[i] || *text != (i < 3 ? ':' : '\0'))
			return false;
		text++;
	}
	return grant->number[1] > 0;
}

static bool is_gpu(const char *text)
{
	unsigned long long number;
	const char *end = take_number(text, 4, &number);

	return end && !*end;
}

/* A UUID in small letters. */
static bool is_share(const char *text)
{
	static const char form[] = "xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx";
	size_t i = 0;

	for (; form[i] && text[i]; i++) {
		if (form[i] == '-' ? text[i] != '-' : !strchr("0123456789abcdef", text[i]))
			return false;
	}
	return !form[i] && !text[i];
}

/* Add what one pair of arguments gives to the engine's line and to the log's. */
static bool add_given(const char *flag, const char *value, struct line *line, struct line *log)
{
	struct grant grant;

	if (strcmp(flag, "--grant") == 0 && parse_grant(value, &grant)) {
		const unsigned long long *of = grant.number;

		add(line, " gpu=%llu:%llu:%llu:%llu", of[0], of[1], of[2], of[3]);
		add(log, " gpu=%llu memsize=%llu (%llu MiB) weight=%llu highprio=%llu", of[0], of[1], of[1] >> 20,
			of[2], of[3]);
		return true;
	}
	if (!(strcmp(flag, "--native") == 0 && is_gpu(value)) && !(strcmp(flag, "--share") == 0 && is_share(value)))
		return false;
	add(line, " %s=%s", flag + 2, value);
	add(log, " %s=%s", flag + 2, value);
	return true;
}

/* Grants and then whole GPUs, or shares alone: the order in which both lines have them. */
static bool add_all(int argc, char *const *argv, struct line *line, struct line *log)
{
	bool grants = argc > 1 && strcmp(argv[0], "--grant") == 0;
	bool shares = argc > 1 && strcmp(argv[0], "--share") == 0;
	bool native = false;

	if (argc % 2 || (!grants && !shares))
		return false;
	for (int i = 0; i < argc; i += 2) {
		native = native || strcmp(argv[i], "--native") == 0;
		if (shares ? strcmp(argv[i], "--share") != 0 : strcmp(argv[i], native ? "--native" : "--grant") != 0)
			return false;
		if (!add_given(argv[i], argv[i + 1], line, log))
			return false;
	}
	return !line->full && !log->full;
}

/* Write a line to the engine. Returns 0, or the number of the error; EMSGSIZE when only a part was taken. */
static int tell(const char *tree, const char *text)
{
	char path[PATH_MAX + 16];
	int fd;
	ssize_t count;
	int error;

	snprintf(path, sizeof(path), "%s/inst_ctl", tree);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return errno;
	count = write(fd, text, strlen(text));
	error = count < 0 ? errno : count == (ssize_t)strlen(text) ? 0 : EMSGSIZE;
	close(fd);
	return error;
}

static int destroy(const char *tree, const struct hook_state *state)
{
	char text[HOOK_ID_MAX + 16];

	snprintf(text, sizeof(text), "destroy id=%s", state->id);
	return tell(tree, text);
}

bool hook_remove(const char *tree, const struct hook_state *state)
{
	if (destroy(tree, state) != 0)
		return false;
	hook_log(state->id, "removed");
	return true;
}

bool hook_register(const char *tree, const struct hook_state *state, int argc, char *const *argv)
{
	struct line line = { .length = 0 };
	struct line log = { .length = 0 };
	int error;

	add(&line, "create id=%s pid=%ld", state->id, state->pid);
	add(&log, "registered pid=%ld", state->pid);
	if (state->pid == 0 || !add_all(argc, argv, &line, &log) || line.length > HOOK_LINE_MAX)
		return false;
	if (access(CGPU_DRAINING_PATH, F_OK) == 0)
		return false;
	error = tell(tree, line.text);
	/* The engine may have registered a part; destroy it. */
	if (error == EIO || error == EMSGSIZE)
		destroy(tree, state);
	if (error)
		return false;
	hook_log(state->id, log.text);
	return true;
}
