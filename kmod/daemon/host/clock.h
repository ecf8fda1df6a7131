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

/* So many milliseconds from now, as pthread_clockjoin_np() and its like want it. */
static inline void clock_until(struct timespec *until, u32 ms)
{
	u64 ns = clock_ns() + ms * 1000000ull;

	until->tv_sec = (time_t)(ns / 1000000000ull);
	until->tv_nsec = (long)(ns % 1000000000ull);
}

#endif
