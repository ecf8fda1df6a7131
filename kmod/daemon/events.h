/* SPDX-License-Identifier: Apache-2.0 */
/* Lines to the process that loaded the library. */
#ifndef CGPUD_EVENTS_H
#define CGPUD_EVENTS_H

#include <stdatomic.h>

#include "cgpu_types.h"

#define EVENT_BYTES 1024

enum { LOG_LEVEL_ERROR = 3, LOG_LEVEL_WARNING = 4, LOG_LEVEL_INFO = 6 };

struct events {
	int fd;
	atomic_ullong lost;
};

void events_log(struct events *events, int level, const char *format, ...) __attribute__((format(printf, 3, 4)));
void events_gone(struct events *events, u64 serial);

#endif
