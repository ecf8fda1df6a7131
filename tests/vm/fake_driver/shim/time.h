/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef FAKE_TIME_H
#define FAKE_TIME_H

#include <linux/delay.h>
#include <linux/ktime.h>
#include <linux/math64.h>

struct timespec {
	long tv_sec;
	long tv_nsec;
};

#define clock_gettime(clock, now) fake_clock((clock), (now))

static inline void fake_clock(clockid_t clock, struct timespec *now)
{
	u32 rest;

	now->tv_sec =
		(long)div_u64_rem(clock == CLOCK_REALTIME ? ktime_get_real_ns() : ktime_get_ns(), NSEC_PER_SEC, &rest);
	now->tv_nsec = rest;
}

/* To wait for the card: callers count on no more than that time passes. */
static inline void fake_sleep(const struct timespec *rest)
{
	unsigned long us = (unsigned long)rest->tv_nsec / NSEC_PER_USEC + 1;

	usleep_range(us, us + 50);
}
#define nanosleep(rest, left) fake_sleep(rest)

#endif
