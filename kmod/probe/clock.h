/* SPDX-License-Identifier: Apache-2.0 */
/* Times of single calls, in nanoseconds. */
#ifndef PROBE_CLOCK_H
#define PROBE_CLOCK_H

#include <stdint.h>
#include <stdlib.h>
#include <time.h>

static inline uint64_t clock_now(void)
{
	struct timespec at;

	clock_gettime(CLOCK_MONOTONIC, &at);
	return (uint64_t)at.tv_sec * 1000000000u + (uint64_t)at.tv_nsec;
}

static inline int clock_compare(const void *left, const void *right)
{
	uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;

	return (a > b) - (a < b);
}

/* The median is then in the middle. */
static inline void clock_sort(uint64_t *times, size_t count)
{
	qsort(times, count, sizeof(*times), clock_compare);
}

#endif
