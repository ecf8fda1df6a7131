/* SPDX-License-Identifier: Apache-2.0 */
/* Lines to the process that loaded the library. */
#ifndef CGPUD_EVENTS_H
#define CGPUD_EVENTS_H

#include <pthread.h>
#include <stdatomic.h>

#include "cgpu_types.h"

#define EVENT_BYTES 1024

enum { LOG_LEVEL_ERROR = 3, LOG_LEVEL_WARNING = 4, LOG_LEVEL_INFO = 6 };

#define EVENT_BUCKETS 256

/* Warnings about one container or process, which can cause them as fast as it likes. */
struct event_bucket {
	u64 full_ns; /* when it has all its lines again, on the monotonic clock */
	u32 left_out;
};

struct events {
	int fd;
	atomic_ullong lost;
	pthread_mutex_t lock; /* of bucket */
	struct event_bucket bucket[EVENT_BUCKETS];
};

/* fd: the caller's, or -1 */
void events_open(struct events *events, int fd);
/* A warning is left out when there were many lately that begin with the same words up to a colon. */
void events_log(struct events *events, int level, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* A line that the process acts on: see cgpud.h. */
void events_tell(struct events *events, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
