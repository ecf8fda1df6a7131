/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The reaper is the thread that keeps its capabilities and takes no input from containers: it watches processes end,
 * compares charges with the driver's own figures, and reclaims containers whose processes are gone.
 */
#ifndef CGPUD_REAPER_H
#define CGPUD_REAPER_H

#include <pthread.h>
#include <stdatomic.h>

#include "cgpu_core.h"

#define WATCH_MAX 8192
#define WATCH_SHARE 1024 /* of one container: the ends of more of its processes are found a second later */

struct watch {
	s32 tgid; /* 0: free */
	int pidfd;
	u32 slot; /* the container that the place counts for */
};

struct init_watch {
	u64 generation; /* of the registration it belongs to; 0: none */
	int pidfd; /* -1 when it has ended */
};

#define RESTLESS_MAX 64 /* the oldest is forgotten for another one */
#define UNSEEN_MAX 64 /* as above */

/* The reaper inspects filters between its other duties, so inspections are short and few. */
struct inspections {
	u64 ends; /* no inspection begins later; milliseconds of the monotonic clock, as `until` */
	u32 next; /* place of the next process that did not stand still */
	struct {
		s32 tgid;
		u32 mark; /* look_mark() */
		u64 until; /* not inspected again before */
	} restless[RESTLESS_MAX];
	u32 next_unseen; /* place of the next process whose calls its filter holds, and nobody has seen */
	struct {
		s32 tgid;
		u32 mark;
		u64 since;
	} unseen[UNSEEN_MAX];
};

struct reaper {
	pthread_t thread;
	pthread_mutex_t lock; /* of watch */
	u32 running, ending;
	int epoll, kick_fd;
	u32 attempt; /* next of the checks that follow an end */
	u32 orphaned[CGPU_MAX_GPUS]; /* ticks in a row that found orphans there, up to two */
	u64 due, tick; /* milliseconds of the monotonic clock */
	struct inspections inspections;
	struct watch watch[WATCH_MAX];
	u32 watched[CGPU_MAX_CONTAINERS]; /* places of each slot */
	struct init_watch init[CGPU_MAX_CONTAINERS];
};

struct cgpud;

int reaper_open(struct reaper *reaper);
int reaper_start(struct cgpud *d);
void reaper_stop(struct cgpud *d);
/* The same as reaper_stop(), for a time: 1 when the reaper has not ended by then. */
u32 reaper_pause(struct cgpud *d, u32 ms);
void reaper_close(struct reaper *reaper);
/* A process has made a driver call: be told when it ends. Any thread. */
void reaper_watch(struct cgpud *d, u32 slot, s32 tgid);
/* Compare the charges of one container (slot), or of all (-1), with the driver's figures. Returns how many
 * are left to processes that have ended: the driver has not cleaned up yet. Any thread. */
u32 reaper_reconcile(struct cgpud *d, s64 slot);
/* Another container has a client on record that a container (slot) names: drop that record if it is stale.
 * Any thread. */
void reaper_drop_stale_client(struct cgpud *d, u32 slot, u32 client);
/* Room is short, and removed containers have left memory behind: drop charges of memory that the driver has
 * freed, and wait a moment for memory that it is about to free. Any thread. */
void reaper_drop_orphans(struct cgpud *d);
/* Ask the driver about each card, and tell the core, which works out unaccounted memory. */
void unaccounted_sample(struct cgpud *d);

#endif
