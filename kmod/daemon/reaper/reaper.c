// SPDX-License-Identifier: Apache-2.0
/* The reaper thread: ends of processes and containers, and the work of each second. */
#define _GNU_SOURCE
#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "cgroup.h"
#include "clock.h"
#include "descriptors.h"
#include "engine.h"
#include "processes.h"
#include "worker.h"

#define TICK_MS 1000
#define PROBES 32 /* places where a process may stand in the table */
#define EVENT_KICK (~0ull)
#define EVENT_INIT (1ull << 32)

int reaper_open(struct reaper *reaper)
{
	struct epoll_event event = { .events = EPOLLIN, .data.u64 = EVENT_KICK };
	u32 i;

	memset(reaper, 0, sizeof(*reaper));
	pthread_mutex_init(&reaper->lock, NULL);
	for (i = 0; i < CGPU_MAX_CONTAINERS; i++)
		reaper->init[i].pidfd = -1;
	reaper->epoll = epoll_create1(EPOLL_CLOEXEC);
	reaper->kick_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (reaper->epoll < 0 || reaper->kick_fd < 0)
		return -errno;
	return epoll_ctl(reaper->epoll, EPOLL_CTL_ADD, reaper->kick_fd, &event) < 0 ? -errno : 0;
}

void reaper_close(struct reaper *reaper)
{
	u32 i;

	for (i = 0; i < WATCH_MAX; i++)
		if (reaper->watch[i].tgid)
			close(reaper->watch[i].pidfd);
	for (i = 0; i < CGPU_MAX_CONTAINERS; i++)
		close_any(reaper->init[i].pidfd);
	close_any(reaper->epoll);
	close_any(reaper->kick_fd);
	pthread_mutex_destroy(&reaper->lock);
}

void cgpud_kick(struct cgpud *d)
{
	u64 n = 1;

	if (write(d->reaper.kick_fd, &n, sizeof(n)) != sizeof(n))
		events_log(&d->events, LOG_LEVEL_WARNING, "cannot wake the reaper thread: %s", strerror(errno));
}

/* A child of ours may have a copy for as long as it takes to close it, and would keep the event: an end must be told once. */
static void watch_no_more(struct reaper *reaper, int *pidfd)
{
	if (*pidfd >= 0)
		epoll_ctl(reaper->epoll, EPOLL_CTL_DEL, *pidfd, NULL);
	close_one(pidfd);
}

/* The entry of a process, or a free place for it; NULL when its places are all taken. */
static struct watch *watch_find(struct reaper *reaper, s32 tgid)
{
	struct watch *place = NULL;
	u32 i;

	for (i = 0; i < PROBES; i++) {
		struct watch *w = &reaper->watch[((u32)tgid * 2654435761u + i) % WATCH_MAX];

		if (w->tgid == tgid)
			return w;
		if (!w->tgid && !place)
			place = w;
	}
	return place;
}

void reaper_watch(struct cgpud *d, u32 slot, s32 tgid)
{
	struct reaper *reaper = &d->reaper;
	struct epoll_event event = { .events = EPOLLIN };
	struct watch *w;
	int fd;

	pthread_mutex_lock(&reaper->lock);
	w = watch_find(reaper, tgid);
	slot %= CGPU_MAX_CONTAINERS;
	if (w && w->tgid != tgid && reaper->watched[slot] < WATCH_SHARE) {
		fd = process_open(tgid, 0);
		event.data.u64 = (u64)(w - reaper->watch);
		if (fd >= 0 && epoll_ctl(reaper->epoll, EPOLL_CTL_ADD, fd, &event) < 0)
			close_one(&fd);
		/* The periodic check finds the end of a process that is not watched, a second later. */
		if (fd >= 0) {
			*w = (struct watch){ .tgid = tgid, .pidfd = fd, .slot = slot };
			reaper->watched[slot]++;
		}
	}
	pthread_mutex_unlock(&reaper->lock);
}

/* Be told when an init process ends; takes pidfd over when it succeeds. */
static int add_init(struct reaper *reaper, u32 slot, int pidfd)
{
	struct epoll_event event = { .events = EPOLLIN, .data.u64 = EVENT_INIT | slot };

	if (epoll_ctl(reaper->epoll, EPOLL_CTL_ADD, pidfd, &event) < 0)
		return -errno;
	reaper->init[slot].pidfd = pidfd;
	return 0;
}

/* Begin to watch the init process of a registration that is new to us. */
static void watch_init(struct cgpud *d, const struct cgpu_container_info *info)
{
	struct init_watch *init = &d->reaper.init[info->slot];
	int fd;

	*init = (struct init_watch){ .generation = info->generation, .pidfd = -1 };
	fd = process_open(info->pid, 0);
	/* The number may belong to another process by now. */
	if (fd < 0 || !cgroup_holds(info->cgroup, info->pid) || add_init(&d->reaper, info->slot, fd) < 0)
		close_any(fd);
}

/* The registration that was watched in a slot is not there any more. */
static u32 forget_init(struct reaper *reaper, u32 slot)
{
	struct init_watch *init = &reaper->init[slot];

	if (!init->generation)
		return 0;
	watch_no_more(reaper, &init->pidfd);
	init->generation = 0;
	return 1;
}

/* Forget containers that other threads have removed since the last time, in slots [from, to). Returns how many. */
static u32 forget_removed(struct reaper *reaper, u32 from, u32 to)
{
	u32 forgotten = 0, slot;

	for (slot = from; slot < to && slot < CGPU_MAX_CONTAINERS; slot++)
		forgotten += forget_init(reaper, slot);
	return forgotten;
}

/* Watch the init process of every registered container; remove a container whose init has ended and whose control group
 * holds no process any more. Returns how many were removed, by this or, since the last time, by others. */
static u32 reclaim_containers(struct cgpud *d)
{
	struct reaper *reaper = &d->reaper;
	struct cgpu_container_info info;
	u32 at, removed = 0;

	for (at = 0; cgpu_container_next(&d->core, at, &info) == 0; at = info.slot + 1) {
		if (info.slot >= CGPU_MAX_CONTAINERS)
			continue;
		removed += forget_removed(reaper, at, info.slot);
		if (reaper->init[info.slot].generation != info.generation) {
			removed += forget_init(reaper, info.slot);
			watch_init(d, &info);
		}
		if (reaper->init[info.slot].pidfd >= 0 || cgroup_populated(info.cgroup) == 1)
			continue;
		if (cgpu_container_remove(&d->core, info.slot, info.generation) < 0)
			continue;
		removed += forget_init(reaper, info.slot);
		events_log(&d->events, LOG_LEVEL_INFO, "container %s: reclaimed, its processes are gone", info.id);
	}
	return removed + forget_removed(reaper, at, CGPU_MAX_CONTAINERS);
}

/* The driver cleans up on its own time, and a container that was removed may have left something behind. */
static void check_soon(struct reaper *reaper, u64 now)
{
	reaper->attempt = 0;
	reaper->due = now;
}

static void on_event(struct cgpud *d, u64 event, u64 now)
{
	struct reaper *reaper = &d->reaper;
	u64 n;

	if (event == EVENT_KICK) {
		/* A container that was only registered leaves nothing behind. */
		if (read(reaper->kick_fd, &n, sizeof(n)) != sizeof(n) || reclaim_containers(d) == 0)
			return;
	} else if (event & EVENT_INIT) {
		struct init_watch *init = &reaper->init[event & 0xffffffff];

		/* The event may come after the next registration in this slot, which has a process of its own. */
		if (init->pidfd >= 0 && process_ended(init->pidfd))
			watch_no_more(reaper, &init->pidfd);
	} else {
		struct watch *w = &reaper->watch[event];

		pthread_mutex_lock(&reaper->lock);
		watch_no_more(reaper, &w->pidfd);
		reaper->watched[w->slot]--;
		*w = (struct watch){ 0 };
		pthread_mutex_unlock(&reaper->lock);
	}
	check_soon(reaper, now);
}

/* A container that was removed in the usual way leaves nothing for longer than milliseconds. */
static void say_orphaned(struct cgpud *d, u32 gpu)
{
	u64 bytes = cgpu_gpu_orphaned(&d->core, gpu);
	u32 *ticks = &d->reaper.orphaned[gpu];

	if (bytes && *ticks == 1)
		events_log(&d->events, LOG_LEVEL_WARNING,
			"GPU %u: %llu bytes of containers that were removed are still held, by descriptors or as mapped managed "
			"memory; they are not promised again until the processes that have these end",
			gpu, (unsigned long long)bytes);
	else if (!bytes && *ticks > 1)
		events_log(&d->events, LOG_LEVEL_INFO, "GPU %u: nothing is held for removed containers any more", gpu);
	*ticks = !bytes ? 0 : *ticks < 2 ? *ticks + 1 : 2;
}

static void tick(struct cgpud *d, u64 now)
{
	u32 gpu;

	/* The tree shows the cards' mode; a registration asks by itself. */
	d->ops.cards(d, ~0u);
	devices_read_majors(&d->devices);
	reaper_reconcile(d, -1);
	unaccounted_sample(d);
	if (reclaim_containers(d))
		check_soon(&d->reaper, now);
	for (gpu = 0; gpu < d->driver.gpus; gpu++)
		say_orphaned(d, gpu);
	workers_tidy(d);
	looks_tidy(&d->looks);
	if (atomic_load(&d->in_flight.kept))
		workers_wake(d);
}

static void on_time(struct cgpud *d, u64 now)
{
	static const u32 wait_ms[] = { 1, 4, 15, 80, 900 };
	struct reaper *reaper = &d->reaper;

	if (reaper->due && now >= reaper->due) {
		reaper_reconcile(d, -1);
		if (reclaim_containers(d))
			reaper->attempt = 0;
		reaper->due =
			reaper->attempt < sizeof(wait_ms) / sizeof(wait_ms[0]) ? now + wait_ms[reaper->attempt++] : 0;
	}
	if (now >= reaper->tick) {
		tick(d, now);
		reaper->tick = now + TICK_MS;
	}
}

static void *reaper_main(void *arg)
{
	struct cgpud *d = arg;
	struct reaper *reaper = &d->reaper;
	struct epoll_event events[64];
	u64 now, next;
	int i, n;

	prctl(PR_SET_NAME, "cgpud-reaper");
	while (!engine_must_end(d, &reaper->ending)) {
		now = clock_ms();
		on_time(d, now);
		next = reaper->due && reaper->due < reaper->tick ? reaper->due : reaper->tick;
		n = epoll_wait(reaper->epoll, events, 64, next > now ? (int)(next - now) : 0);
		for (i = 0; i < n; i++)
			on_event(d, events[i].data.u64, clock_ms());
	}
	return NULL;
}

int reaper_start(struct cgpud *d)
{
	sigset_t all, old;
	int r;

	if (d->reaper.ending && d->reaper.running)
		d->reaper.running = pthread_join(d->reaper.thread, NULL) != 0;
	if (d->reaper.running)
		return 0;
	d->reaper.ending = 0;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	r = pthread_create(&d->reaper.thread, NULL, reaper_main, d);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	d->reaper.running = r == 0;
	return -r;
}

void reaper_stop(struct cgpud *d)
{
	if (!d->reaper.running)
		return;
	cgpud_kick(d);
	pthread_join(d->reaper.thread, NULL);
	d->reaper.running = 0;
}

u32 reaper_pause(struct cgpud *d, u32 ms)
{
	struct timespec until;

	if (!d->reaper.running)
		return 0;
	cgpud_kick(d);
	until = clock_until(ms);
	d->reaper.running = pthread_clockjoin_np(d->reaper.thread, NULL, CLOCK_MONOTONIC, &until) != 0;
	return d->reaper.running;
}
