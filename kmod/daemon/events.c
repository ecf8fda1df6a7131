// SPDX-License-Identifier: Apache-2.0
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#include "events.h"

/* One write of less than PIPE_BUF bytes is never torn, so that threads need no lock here. */
static void events_write(struct events *events, const char *line, size_t bytes)
{
	if (events->fd < 0)
		return;
	if (write(events->fd, line, bytes) != (ssize_t)bytes)
		atomic_fetch_add(&events->lost, 1);
}

void events_log(struct events *events, int level, const char *format, ...)
{
	char line[EVENT_BYTES];
	va_list args;
	size_t head, at;
	int n;

	n = snprintf(line, sizeof(line), "log %d ", level);
	head = (size_t)n;
	va_start(args, format);
	n = vsnprintf(line + head, sizeof(line) - head - 1, format, args);
	va_end(args);
	if (n < 0)
		return;
	if ((size_t)n > sizeof(line) - head - 2)
		n = (int)(sizeof(line) - head - 2);
	/* Names come from containers: one event stays one line. */
	for (at = head; at < head + (size_t)n; at++)
		if ((unsigned char)line[at] < 0x20 || (unsigned char)line[at] == 0x7f)
			line[at] = '?';
	line[head + (size_t)n] = '\n';
	events_write(events, line, head + (size_t)n + 1);
}

void events_gone(struct events *events, u64 serial)
{
	char line[64];
	int n = snprintf(line, sizeof(line), "gone %llu\n", (unsigned long long)serial);

	events_write(events, line, (size_t)n);
}
