// SPDX-License-Identifier: Apache-2.0
/*
 * The end of a container's first process is heard of together with the next registration in its place, and after it: the new
 * one stays watched, and registered as long as its own process runs.
 */
#include <semaphore.h>
#include <sys/epoll.h>

#include "child.h"
#include "cgroup.h"
#include "engine.h"
#include "reaper.h"

static sem_t waits, may_look;

int __real_epoll_wait(int epoll, struct epoll_event *events, int most, int timeout);
int __wrap_epoll_wait(int epoll, struct epoll_event *events, int most, int timeout);
int __wrap_cgroup_holds(const char *name, s32 pid);
int __wrap_cgroup_populated(const char *name);
u32 __wrap_reaper_reconcile(struct cgpud *d, s64 slot);

int __wrap_epoll_wait(int epoll, struct epoll_event *events, int most, int timeout)
{
	sem_post(&waits);
	sem_wait(&may_look);
	return __real_epoll_wait(epoll, events, most, timeout);
}

int __wrap_cgroup_holds(const char *name, s32 pid)
{
	return 1;
}

/* Cgroups give no answer: processes alone say what goes on. */
int __wrap_cgroup_populated(const char *name)
{
	return -EINVAL;
}

u32 __wrap_reaper_reconcile(struct cgpud *d, s64 slot)
{
	return 0;
}

/* Let the thread deal with what has come, until it is about to look again. */
static void look(void)
{
	sem_post(&may_look);
	sem_wait(&waits);
}

static void create(struct bench *bench, const char *id, pid_t pid)
{
	char text[128];

	snprintf(text, sizeof(text), "create id=%s pid=%d gpu=0:1073741824", id, (int)pid);
	CHECK_EQ(bench_ctl(bench, text), 0);
}

static u32 registered(struct bench *bench, struct cgpu_container_info *info)
{
	return cgpu_container_next(&bench->core, 0, info) == 0;
}

TEST(of_the_container_before)
{
	struct bench *bench = bench_new("580.142");
	struct cgpud *d = calloc(1, sizeof(*d));
	pid_t first = child_begin(), second = child_begin();
	struct cgpu_container_info info;
	u32 slot;

	CHECK(d);
	d->core = bench->core;
	CHECK_EQ(reaper_open(&d->reaper), 0);
	d->reaper.tick = ~0ull;
	CHECK_EQ(reaper_start(d), 0);
	sem_wait(&waits);

	create(bench, "a", first);
	cgpud_kick(d);
	look();
	CHECK(registered(bench, &info));
	slot = info.slot;
	CHECK(d->reaper.init[slot].pidfd >= 0);

	cgpud_kick(d);
	child_end(first);
	CHECK_EQ(bench_ctl(bench, "destroy id=a"), 0);
	create(bench, "b", second);
	look();
	CHECK(registered(bench, &info));
	CHECK_EQ(info.slot, slot);
	CHECK(d->reaper.init[slot].pidfd >= 0);

	child_end(second);
	look();
	CHECK(!registered(bench, &info));
	atomic_store(&d->stopping, 1);
	sem_post(&may_look);
	reaper_stop(d);
	reaper_close(&d->reaper);
	bench_free(bench);
}
