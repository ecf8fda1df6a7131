/* SPDX-License-Identifier: Apache-2.0 */
/* The monotonic clock, and clocks of processor time. */
#ifndef CGPUD_CLOCK_H
#define CGPUD_CLOCK_H

#include <time.h>

#include "cgpu_types.h"

static inline u64 clock_ns_of(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return (u64)now.tv_sec * 1000000000ull + (u64)now.tv_nsec;
}

static inline u64 clock_ns(void)
{
	return clock_ns_of(CLOCK_MONOTONIC);
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
