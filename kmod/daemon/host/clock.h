/* SPDX-License-Identifier: Apache-2.0 */
/* The monotonic clock. */
#ifndef CGPUD_CLOCK_H
#define CGPUD_CLOCK_H

#include <time.h>

#include "cgpu_types.h"

static inline u64 clock_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (u64)now.tv_sec * 1000000000ull + (u64)now.tv_nsec;
}

static inline u64 clock_ms(void)
{
	return clock_ns() / 1000000;
}

static inline struct timespec clock_time(u64 ns)
{
	return (struct timespec){ .tv_sec = (time_t)(ns / 1000000000ull), .tv_nsec = (long)(ns % 1000000000ull) };
}

/* So many milliseconds from now, as pthread_clockjoin_np() and its like want it. */
static inline struct timespec clock_until(u32 ms)
{
	return clock_time(clock_ns() + ms * 1000000ull);
}

#endif
