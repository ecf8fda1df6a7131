// SPDX-License-Identifier: Apache-2.0
/*
 * Processor time of the caller of one call to a driver, made each half millisecond after a sleep, as a thread that gives turns
 * does. Usage: paced NVIDIACTL SECONDS. Prints "<ns of a call> <ns of a sleep>".
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <time.h>

#include "nv_abi.h"

#define PACE_NS 500000u
#define SECOND 1000000000u

static uint64_t now(clockid_t clock)
{
	struct timespec at;

	clock_gettime(clock, &at);
	return (uint64_t)at.tv_sec * SECOND + (uint64_t)at.tv_nsec;
}

/* With fd -1 nothing but the sleeps. Returns ns of the processor for each. */
static uint64_t run(int fd, unsigned int count)
{
	uint64_t wake = now(CLOCK_MONOTONIC), start = now(CLOCK_THREAD_CPUTIME_ID);
	unsigned int i;

	for (i = 0; i < count; i++) {
		/* RM_FREE of a handle that no client has: the driver answers, and does nothing. */
		uint32_t nothing[4] = { 0xdead, 0, 0xdead, 0 };
		struct timespec at;

		wake += PACE_NS;
		at = (struct timespec){ .tv_sec = (time_t)(wake / SECOND), .tv_nsec = (long)(wake % SECOND) };
		clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL);
		if (fd >= 0)
			ioctl(fd, _IOC(_IOC_READ | _IOC_WRITE, NV_IOCTL_MAGIC, NV_ESC_RM_FREE, 16), nothing);
	}
	return (now(CLOCK_THREAD_CPUTIME_ID) - start) / count;
}

int main(int argc, char **argv)
{
	int fd = argc == 3 ? open(argv[1], O_RDWR | O_CLOEXEC) : -1;
	unsigned int count = argc == 3 ? (unsigned int)(strtod(argv[2], NULL) * SECOND / PACE_NS / 2) : 0;
	uint64_t asleep, both;

	if (fd < 0 || count == 0)
		return 2;
	prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0);
	asleep = run(-1, count);
	both = run(fd, count);
	printf("%llu %llu\n", (unsigned long long)(both > asleep ? both - asleep : 0), (unsigned long long)asleep);
	return 0;
}
