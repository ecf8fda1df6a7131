// SPDX-License-Identifier: Apache-2.0
/*
 * Inspects the filters of process INSPECTED, which need not be ours, and prints the result of each of TIMES. An
 * inspection may leave nothing in this process.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <stdio.h>
#include <unistd.h>

#include "bench.h"
#include "looks.h"

static u32 count_threads(void)
{
	DIR *folder = opendir("/proc/self/task");
	u32 count = 0;

	CHECK(folder != NULL);
	while (readdir(folder))
		count++;
	closedir(folder);
	return count;
}

TEST(inspects)
{
	static struct looks looks;
	static struct events events;
	struct stuck_owner owner = { .key = 1 };
	struct asker asker = { &looks, CGPU_ORPHANS, 1, LOOKS_MS };
	s32 pid = atoi(getenv("INSPECTED"));
	u32 before = count_threads();
	int times, tries;

	events_open(&events, -1);
	CHECK_EQ(looks_open(&looks, &bench_new("580.142")->core, &events), 0);
	for (times = atoi(getenv("TIMES")); times; times--)
		printf("%d\n", look_filters(&asker, pid, "/"));
	CHECK_EQ(count_threads(), before);
	for (tries = 0; looks.stuck.count && tries < 100; tries++) {
		usleep(10000);
		stuck_has_room(&looks.stuck, &owner);
	}
	CHECK_EQ(looks.stuck.count, 0);
}
