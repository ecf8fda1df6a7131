// SPDX-License-Identifier: Apache-2.0
/*
 * A thread is killed while its call is in the driver: its answer is taken back while the worker still holds what it
 * knows of the thread. That may close no file that others have opened meanwhile.
 */
#include <fcntl.h>

#include "processes.h"
#include "reply_cache.h"
#include "child.h"
#include "task.h"

#define OPENED 8

static struct cgpud daemon_state;
static struct in_flight call;

TEST(closes_nothing_of_others)
{
	int opened[OPENED], null = open("/dev/null", O_RDWR | O_CLOEXEC), i;
	struct cgpud *d = &daemon_state;
	struct task_cache *cache = &d->worker[0].cache;
	struct asker asker = asker_of(&d->looks, 0, 1);
	struct task task;
	pid_t pid;

	d->core = bench_new("580.142")->core;
	CHECK_EQ(looks_open(&d->looks, &d->core, &d->events), 0);
	devices_init(&d->devices);
	d->pidfd_thread = process_has_thread_pidfd();
	pid = child_begin();
	task_init(&task, &asker, cache, pid);
	CHECK_EQ(task_open(d, &task), 0);
	child_end(pid);

	call.notif.pid = (u32)pid;
	call.notif.data.args[0] = (u64)null;
	call.call.tgid = pid;
	call.call.generation = 1;
	d->in_flight.busy[0] = 1;
	reply_keep(d, &call);
	CHECK(!d->in_flight.busy[0]);

	for (i = 0; i < OPENED; i++)
		opened[i] = fcntl(null, F_DUPFD_CLOEXEC, 0);
	task_drop(&task);
	task_cache_clear(cache);
	for (i = 0; i < OPENED; i++)
		CHECK(fcntl(opened[i], F_GETFD) >= 0);
}
