/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The seccomp listeners of containers: several for one container, each served by any worker. A call of a
 * container can keep its worker for as long as the container likes (memory that is never filled in,
 * userfaultfd(2)). So each container has at most a share of the workers, over all of its listeners.
 */
#ifndef CGPUD_LISTENER_H
#define CGPUD_LISTENER_H

#include <pthread.h>
#include <stdatomic.h>

#include "cgpu_types.h"
#include "fair.h"

#define LISTENERS_MAX 4096
/* Beyond that no new one: the descriptor store has room for 4096, and holds other things too. */
#define LISTENERS_NEW 4032
#define LISTENERS_SHARE 256 /* of one container, where the others have left their fair shares */
#define LISTENER_WAKE 0xffffffffu /* the event of wake_fd */

struct listener {
	int fd; /* -1: entry is free */
	u32 slot;
	u64 generation, serial;
	u32 account; /* of its container */
	u32 users; /* workers that hold it */
	u32 held; /* not armed: its container has its share of the workers */
	u32 dead; /* closed when the last user lets go */
};

/* Account of one registration: a new one in the same slot does not pay for workers of the old one's calls. */
struct account {
	u32 listeners; /* 0: free */
	u32 busy; /* workers */
	u32 held;
};

struct listeners {
	pthread_mutex_t lock;
	int epoll;
	u32 share; /* workers that one container may keep busy */
	u32 limited_from; /* when so many are busy, a container may have only one */
	u32 busy;
	u32 held; /* listeners that are */
	u32 count;
	struct listener at[LISTENERS_MAX];
	struct account account[LISTENERS_MAX];
};

/* Facts of a new listener. */
struct listener_facts {
	u32 slot;
	u64 generation, serial;
};

int listeners_open(struct listeners *l, int wake_fd);
void listeners_close(struct listeners *l);
/* Takes fd over. fair: the containers that there are; NULL: an engine before this one has served it, so it stays. -EDQUOT:
 * its container has its share; -ENOSPC, -EEXIST (a serial twice), or epoll's errno. */
int listener_add(struct listeners *l, int fd, const struct listener_facts *facts, struct fair *fair);
/* Wait for a listener with an event. Returns a value for listener_get, LISTENER_WAKE, or a negative errno;
 * events as epoll(7). The listener stays silent until listener_arm. */
s64 listener_wait(struct listeners *l, u32 *events);
int listener_arm(struct listeners *l, const struct listener *one);
/* Arm it for the other workers, unless its container keeps its share of them busy; listener_put makes up
 * for that. */
void listener_share(struct listeners *l, struct listener *one);
/* Take an entry, by event or by serial, while its descriptor is in use. NULL: gone, or (by event) put off until a
 * worker of its container is done. */
struct listener *listener_get(struct listeners *l, u64 event);
struct listener *listener_find(struct listeners *l, u64 serial);
void listener_put(struct listeners *l, struct listener *one);
/* No task uses the filter any more. Call while holding it. */
void listener_kill(struct listeners *l, struct listener *one);

#endif
