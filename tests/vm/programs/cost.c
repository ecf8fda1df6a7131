// SPDX-License-Identifier: Apache-2.0
/*
 * cost N: how long calls take: the median in nanoseconds of N of each kind, one line for each. The kinds take turns, so
 * that what slows the machine down for a while slows all of them.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#include "clock.h"
#include "client.h"

#define MOST 100000u

static struct settings settings;
static struct session session;
static uint32_t failed;
static int nowhere, program;

/* One of the driver's shortest calls: it has nothing to allocate and nothing to copy but the structure itself. */
static void call_free(void)
{
	failed |= session_free(&session, 0xdead);
}

static void call_info(void)
{
	struct sizes sizes;

	failed |= info_v2(&session, &sizes);
}

static void call_alloc_free(void)
{
	struct grant grant;

	failed |= memory_alloc(&session, 65536, &grant);
	failed |= memory_free_at(&session, session.count - 1);
}

/* A character device of another driver. */
static void call_open(void)
{
	int fd = open("/dev/null", O_RDWR | O_CLOEXEC);

	failed |= fd < 0;
	close(fd);
}

/* An ioctl that the filter of cgpud lets pass, and one that it notifies of; both are no terminal's. */
static void call_passing(void)
{
	struct termios terminal;

	failed |= ioctl(nowhere, TCGETS, &terminal) == 0;
}

static void call_notified(void)
{
	unsigned int number;

	failed |= ioctl(nowhere, TIOCGPTN, &number) == 0;
}

/* A mapping of a file, which may be the driver's. */
static void call_map(void)
{
	void *page = mmap(NULL, 4096, PROT_READ, MAP_SHARED, program, 0);

	failed |= page == MAP_FAILED || munmap(page, 4096);
}

/* Calls that come near no probe: only the machine varies here. */
static void call_elsewhere(void)
{
	failed |= getppid() < 0;
}

static const struct kind {
	const char *name;
	void (*call)(void);
} kinds[] = {
	{ "free-nothing", call_free },
	{ "fb-info-v2", call_info },
	{ "alloc-free", call_alloc_free },
	{ "open-null", call_open },
	{ "ioctl-passing", call_passing },
	{ "ioctl-notified", call_notified },
	{ "map-unmap", call_map },
	{ "getppid", call_elsewhere },
};
#define KINDS (sizeof(kinds) / sizeof(kinds[0]))

static uint64_t times[KINDS][MOST];

static void measure(uint32_t count)
{
	uint32_t i, kind;

	for (i = 0; i < count; i++) {
		for (kind = 0; kind < KINDS; kind++) {
			uint64_t start = clock_now();

			kinds[kind].call();
			times[kind][i] = clock_now() - start;
		}
	}
}

int main(int argc, char **argv)
{
	uint32_t count, kind;

	client_begin(&settings, &argc, &argv, 0);
	count = argc == 1 ? (uint32_t)strtoul(argv[0], NULL, 0) : 0;
	if (count == 0 || count > MOST)
		return 2;
	settings.own_handles = false;
	client_open(&session, &settings);
	nowhere = open("/dev/null", O_RDWR | O_CLOEXEC);
	program = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	/* Once for what is made at the first call only. */
	measure(count / 10 + 1);
	measure(count);
	for (kind = 0; kind < KINDS; kind++) {
		clock_sort(times[kind], count);
		printf("%s %llu\n", kinds[kind].name, (unsigned long long)times[kind][count / 2]);
	}
	return failed != 0;
}
