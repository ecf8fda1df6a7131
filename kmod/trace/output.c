// SPDX-License-Identifier: Apache-2.0
/* JSON Lines: each line is made whole, then written at once. */
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include "recorder.h"

#define FORMAT_VERSION 1u

uint64_t clock_now(void)
{
	struct timespec at;

	clock_gettime(CLOCK_MONOTONIC, &at);
	return (uint64_t)at.tv_sec * 1000000000u + (uint64_t)at.tv_nsec;
}

void output_open(struct output *output, int fd)
{
	memset(output, 0, sizeof(*output));
	output->fd = fd;
	output->start = clock_now();
}

__attribute__((format(printf, 2, 3))) static void put(struct line *line, const char *format, ...)
{
	size_t room = sizeof(line->text) - line->used;
	va_list arguments;
	int length;

	va_start(arguments, format);
	length = vsnprintf(line->text + line->used, room, format, arguments);
	va_end(arguments);
	if (length < 0 || (size_t)length >= room)
		line->overflow = true;
	else
		line->used += (size_t)length;
}

/* Names are ours and need no escapes. */
static void put_name(struct line *line, const char *name)
{
	if (line->comma)
		put(line, ",");
	if (name)
		put(line, "\"%s\":", name);
	line->comma = true;
}

void line_number(struct line *line, const char *name, uint64_t value)
{
	put_name(line, name);
	put(line, "%" PRIu64, value);
}

void line_signed(struct line *line, const char *name, int64_t value)
{
	put_name(line, name);
	put(line, "%" PRId64, value);
}

/* Printable ASCII; anything else becomes a question mark. */
void line_text(struct line *line, const char *name, const char *value)
{
	put_name(line, name);
	put(line, "\"");
	for (; *value; value++) {
		if (*value == '"' || *value == '\\')
			put(line, "\\%c", *value);
		else
			put(line, "%c", *value < ' ' || *value > '~' ? '?' : *value);
	}
	put(line, "\"");
}

void line_true(struct line *line, const char *name)
{
	put_name(line, name);
	put(line, "true");
}

void line_null(struct line *line, const char *name)
{
	put_name(line, name);
	put(line, "null");
}

void line_open(struct line *line, const char *name, char bracket)
{
	put_name(line, name);
	put(line, "%c", bracket);
	line->comma = false;
}

void line_close(struct line *line, char bracket)
{
	put(line, "%c", bracket);
	line->comma = true;
}

static struct line *start(struct output *output)
{
	output->line.used = 0;
	output->line.overflow = false;
	output->line.comma = false;
	line_open(&output->line, NULL, '{');
	return &output->line;
}

struct line *line_begin(struct output *output, const struct task *task, const char *call)
{
	struct line *line = start(output);

	line_number(line, "t", clock_now() - output->start);
	line_number(line, "pid", task->process_number);
	line_number(line, "tid", task->number);
	line_text(line, "call", call);
	return line;
}

/* A line that is not whole would make the whole trace unreadable: nothing follows it. */
void line_end(struct output *output)
{
	struct line *line = &output->line;
	size_t done = 0;

	line_close(line, '}');
	put(line, "\n");
	if (line->overflow && !output->error)
		output->error = EOVERFLOW;
	while (output->ready && !output->error && done < line->used) {
		ssize_t written = write(output->fd, line->text + done, line->used - done);

		if (written >= 0)
			done += (size_t)written;
		else if (errno != EINTR)
			output->error = errno;
	}
}

static void put_version(struct line *line, const char *name, const char *value)
{
	if (value[0])
		line_text(line, name, value);
	else
		line_null(line, name);
}

void put_header(
	struct output *output, const struct version *version, const struct options *options, const char *command)
{
	struct line *line = start(output);
	struct utsname about = { 0 };
	unsigned int i;
	char key[80];

	uname(&about);
	line_text(line, "format", "cgpu-trace");
	line_number(line, "version", FORMAT_VERSION);
	put_version(line, "driver", version->driver);
	put_version(line, "layouts", version->layouts);
	line_text(line, "kernel", about.release);
	line_text(line, "machine", about.machine);
	line_text(line, "command", command);
	line_open(line, "notes", '{');
	for (i = 0; i < options->note_count; i++) {
		const char *equals = strchr(options->notes[i], '=');

		snprintf(key, sizeof(key), "%.*s", (int)(equals - options->notes[i]), options->notes[i]);
		line_text(line, key, equals + 1);
	}
	line_close(line, '}');
	line_end(output);
}
