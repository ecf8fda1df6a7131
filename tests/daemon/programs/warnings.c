// SPDX-License-Identifier: Apache-2.0
/* Bound on a container's log lines, for any acts of its processes: without a driver, and without looks. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <unistd.h>

#include "bench.h"
#include "engine.h"

#define PROCESSES 200
#define BURST 10

int __wrap_look_copy(const struct asker *asker, int pidfd, int number, const struct identity *identity);

int __wrap_look_copy(const struct asker *asker, int pidfd, int number, const struct identity *identity)
{
	return -EMFILE;
}

static u32 count_lines(int fd)
{
	static char text[PROCESSES * EVENT_BYTES];
	ssize_t n = read(fd, text, sizeof(text)), i;
	u32 lines = 0;

	for (i = 0; i < n; i++)
		lines += text[i] == '\n';
	return lines;
}

TEST(processes_of_a_container_have_no_lines_of_their_own)
{
	struct bench *bench = bench_new("580.142");
	struct cgpud *d = calloc(1, sizeof(*d));
	struct caller caller;
	struct asker asker;
	struct task task;
	int end[2];
	s32 tgid;

	CHECK(d && pipe2(end, O_NONBLOCK) == 0);
	CHECK_EQ(bench_ctl(bench, "create id=a pid=1 gpu=0:1048576000"), 0);
	caller = bench_caller(bench, "a", 100);
	d->core = bench->core;
	events_open(&d->events, end[1]);
	asker = asker_of(&d->looks, caller.slot, caller.generation);
	for (tgid = 1; tgid <= PROCESSES; tgid++) {
		task_init(&task, &asker, NULL, tgid);
		task.tgid = tgid;
		CHECK_EQ(task_copy(d, &task), -EPERM);
	}
	CHECK_EQ(count_lines(end[0]), BURST);
	free(d);
}
