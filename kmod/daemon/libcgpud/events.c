// SPDX-License-Identifier: Apache-2.0
/* Writes lines to the pipe of the process that loaded the library; counts those that do not fit. */
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#include "clock.h"
#include "events.h"

#define LINE_NS 10000000000ull /* one line in so long a time */
#define BURST 10u /* lines at once */

void events_open(struct events *events, int fd)
{
	events->fd = fd;
	pthread_mutex_init(&events->lock, NULL);
}

static u32 bucket_of(const char *text)
{
	u32 hash = 2166136261u;

	for (; *text && *text != ':'; text++)
		hash = (hash ^ (unsigned char)*text) * 16777619u;
	return hash % EVENT_BUCKETS;
}

/* 1 when the line may go out; left_out: how many did not since the last one. */
static int bucket_take(struct events *events, const char *text, u32 *left_out)
{
	struct event_bucket *bucket = &events->bucket[bucket_of(text)];
	u64 now = clock_ns();
	int ok;

	pthread_mutex_lock(&events->lock);
	if (bucket->full_ns < now)
		bucket->full_ns = now;
	ok = bucket->full_ns - now <= (BURST - 1) * LINE_NS;
	if (ok) {
		bucket->full_ns += LINE_NS;
		*left_out = bucket->left_out;
		bucket->left_out = 0;
	} else {
		bucket->left_out++;
	}
	pthread_mutex_unlock(&events->lock);
	return ok;
}

/* A write of less than PIPE_BUF bytes is never torn, so that threads need no lock here. */
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
	u32 left_out = 0;
	va_list args;
	size_t head, at;
	int n;

	n = snprintf(line, sizeof(line), "log %d ", level);
	head = (size_t)n;
	va_start(args, format);
	n = vsnprintf(line + head, sizeof(line) - head - 1, format, args);
	va_end(args);
	if (n < 0 || (level == LOG_LEVEL_WARNING && !bucket_take(events, line + head, &left_out)))
		return;
	if (left_out && (size_t)n < sizeof(line) - head - 1)
		n += snprintf(
			line + head + n, sizeof(line) - head - (size_t)n - 1, " (%u such lines left out)", left_out);
	if ((size_t)n > sizeof(line) - head - 2)
		n = (int)(sizeof(line) - head - 2);
	/* Names come from containers: one event stays one line. */
	for (at = head; at < head + (size_t)n; at++)
		if ((unsigned char)line[at] < 0x20 || (unsigned char)line[at] == 0x7f)
			line[at] = '?';
	line[head + (size_t)n] = '\n';
	events_write(events, line, head + (size_t)n + 1);
}

void events_tell(struct events *events, const char *format, ...)
{
	char line[EVENT_BYTES];
	va_list args;
	int n;

	va_start(args, format);
	n = vsnprintf(line, sizeof(line), format, args);
	va_end(args);
	events_write(events, line, (size_t)n);
}
