// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE
#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "clock.h"
#include "unaccounted.h"
#include "engine.h"
#include "processes.h"
#include "reclaim.h"
#include "worker.h"

#define TICK_MS 1000
#define PROBES 32 /* places where a process may stand in the table */
#define EVENT_KICK (~0ull)
#define EVENT_INIT (1ull << 32)

int lever_open(struct lever *lever)
{
	struct epoll_event event = { .events = EPOLLIN, .data.u64 = EVENT_KICK };
	u32 i;

	memset(lever, 0, sizeof(*lever));
	pthread_mutex_init(&lever->lock, NULL);
	for (i = 0; i < CGPU_MAX_CONTAINERS; i++)
		lever->init[i].pidfd = -1;
	lever->epoll = epoll_create1(EPOLL_CLOEXEC);
	lever->kick_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (lever->epoll < 0 || lever->kick_fd < 0)
		return -errno;
	return epoll_ctl(lever->epoll, EPOLL_CTL_ADD, lever->kick_fd, &event) < 0 ? -errno : 0;
}

void lever_close(struct lever *lever)
{
	u32 i;

	for (i = 0; i < WATCH_MAX; i++)
		if (lever->watch[i].tgid)
			close(lever->watch[i].pidfd);
	for (i = 0; i < CGPU_MAX_CONTAINERS; i++)
		if (lever->init[i].pidfd >= 0)
			close(lever->init[i].pidfd);
	if (lever->epoll >= 0)
		close(lever->epoll);
	if (lever->kick_fd >= 0)
		close(lever->kick_fd);
	pthread_mutex_destroy(&lever->lock);
}

void lever_kick(struct cgpud *d)
{
	u64 n = 1;

	if (write(d->lever.kick_fd, &n, sizeof(n)) != sizeof(n))
		events_log(&d->events, LOG_LEVEL_WARNING, "cannot wake the lever thread: %s", strerror(errno));
}

/* The entry of a process, or a free place for it; NULL when its places are all taken. */
static struct watch *watch_find(struct lever *lever, s32 tgid)
{
	struct watch *place = NULL;
	u32 i;

	for (i = 0; i < PROBES; i++) {
		struct watch *w = &lever->watch[((u32)tgid * 2654435761u + i) % WATCH_MAX];

		if (w->tgid == tgid)
			return w;
		if (!w->tgid && !place)
			place = w;
	}
	return place;
}

void lever_watch(struct cgpud *d, u32 slot, s32 tgid)
{
	struct lever *lever = &d->lever;
	struct epoll_event event = { .events = EPOLLIN };
	struct watch *w;
	int fd;

	pthread_mutex_lock(&lever->lock);
	w = watch_find(lever, tgid);
	slot %= CGPU_MAX_CONTAINERS;
	if (w && w->tgid != tgid && lever->watched[slot] < WATCH_SHARE) {
		fd = process_open(tgid, 0);
		event.data.u64 = (u64)(w - lever->watch);
		if (fd >= 0 && epoll_ctl(lever->epoll, EPOLL_CTL_ADD, fd, &event) < 0) {
			close(fd);
			fd = -1;
		}
		/* Not watched: the periodic look finds its end, a second later. */
		if (fd >= 0) {
			*w = (struct watch){ .tgid = tgid, .pidfd = fd, .slot = slot };
			lever->watched[slot]++;
		}
	}
	pthread_mutex_unlock(&lever->lock);
}

/* Ends are looked at again soon: the driver cleans up on its own time. */
static void look_again(struct lever *lever, u64 now)
{
	lever->attempt = 0;
	lever->due = now;
}

static void on_event(struct cgpud *d, u64 event, u64 now)
{
	struct lever *lever = &d->lever;
	u64 n;

	if (event == EVENT_KICK) {
		if (read(lever->kick_fd, &n, sizeof(n)) == sizeof(n))
			reclaim_containers(d);
		/* A container that was removed may have left something behind. */
		look_again(lever, now);
	} else if (event & EVENT_INIT) {
		struct init_watch *init = &lever->init[event & 0xffffffff];

		/* It may be heard of after the next registration in its place, which has a process of its own. */
		if (init->pidfd >= 0 && process_ended(init->pidfd)) {
			close(init->pidfd);
			init->pidfd = -1;
		}
		look_again(lever, now);
	} else {
		struct watch *w = &lever->watch[event];

		pthread_mutex_lock(&lever->lock);
		close(w->pidfd);
		lever->watched[w->slot]--;
		*w = (struct watch){ 0 };
		pthread_mutex_unlock(&lever->lock);
		look_again(lever, now);
	}
}

int lever_watch_init(struct lever *lever, u32 slot, int pidfd)
{
	struct epoll_event event = { .events = EPOLLIN, .data.u64 = EVENT_INIT | slot };

	if (epoll_ctl(lever->epoll, EPOLL_CTL_ADD, pidfd, &event) < 0)
		return -errno;
	lever->init[slot].pidfd = pidfd;
	return 0;
}

/* A container that was removed in the usual way leaves nothing for longer than milliseconds. */
static void say_orphaned(struct cgpud *d, u32 gpu)
{
	u64 bytes = cgpu_gpu_orphaned(&d->core, gpu);
	u32 *ticks = &d->lever.orphaned[gpu];

	if (bytes && *ticks == 1)
		events_log(&d->events, LOG_LEVEL_WARNING,
			"GPU %u: %llu bytes of containers that were removed are still held, by descriptors or as mapped managed "
			"memory; they are not promised again until the processes that have these end",
			gpu, (unsigned long long)bytes);
	else if (!bytes && *ticks > 1)
		events_log(&d->events, LOG_LEVEL_INFO, "GPU %u: nothing is held for removed containers any more", gpu);
	*ticks = !bytes ? 0 : *ticks < 2 ? *ticks + 1 : 2;
}

static void tick(struct cgpud *d)
{
	u32 gpu;

	/* Into the tree; a registration asks by itself. */
	d->ops.cards(d, ~0u);
	devices_read_majors(&d->devices);
	lever_reconcile(d, -1);
	drift_look(d);
	reclaim_containers(d);
	for (gpu = 0; gpu < d->driver.gpus; gpu++)
		say_orphaned(d, gpu);
	workers_tidy(d);
	if (atomic_load(&d->exchanges.kept))
		workers_wake(d);
}

static void on_time(struct cgpud *d, u64 now)
{
	static const u32 wait_ms[] = { 1, 4, 15, 80, 900 };
	struct lever *lever = &d->lever;

	if (lever->due && now >= lever->due) {
		lever_reconcile(d, -1);
		if (reclaim_containers(d))
			lever->attempt = 0;
		lever->due =
			lever->attempt < sizeof(wait_ms) / sizeof(wait_ms[0]) ? now + wait_ms[lever->attempt++] : 0;
	}
	if (now >= lever->tick) {
		tick(d);
		lever->tick = now + TICK_MS;
	}
}

static void *lever_main(void *arg)
{
	struct cgpud *d = arg;
	struct lever *lever = &d->lever;
	struct epoll_event events[64];
	u64 now, next;
	int i, n;

	prctl(PR_SET_NAME, "cgpud-lever");
	while (!engine_must_end(d, &lever->ending)) {
		now = clock_ms();
		on_time(d, now);
		next = lever->due && lever->due < lever->tick ? lever->due : lever->tick;
		n = epoll_wait(lever->epoll, events, 64, next > now ? (int)(next - now) : 0);
		for (i = 0; i < n; i++)
			on_event(d, events[i].data.u64, clock_ms());
	}
	return NULL;
}

int lever_start(struct cgpud *d)
{
	sigset_t all, old;
	int r;

	if (d->lever.ending && d->lever.running)
		d->lever.running = pthread_join(d->lever.thread, NULL) != 0;
	if (d->lever.running)
		return 0;
	d->lever.ending = 0;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	r = pthread_create(&d->lever.thread, NULL, lever_main, d);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	d->lever.running = r == 0;
	return -r;
}

void lever_stop(struct cgpud *d)
{
	if (!d->lever.running)
		return;
	lever_kick(d);
	pthread_join(d->lever.thread, NULL);
	d->lever.running = 0;
}

u32 lever_pause(struct cgpud *d, u32 ms)
{
	struct timespec until;

	if (!d->lever.running)
		return 0;
	lever_kick(d);
	clock_until(&until, ms);
	d->lever.running = pthread_clockjoin_np(d->lever.thread, NULL, CLOCK_MONOTONIC, &until) != 0;
	return d->lever.running;
}
