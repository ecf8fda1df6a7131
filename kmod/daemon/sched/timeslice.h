/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Timeslices of channel groups. The driver takes them only by the open file that the group's client lives on, so a
 * worker sets each by a copy of its process's descriptor: the worker that has just made the group by the copy it has at
 * hand, later any worker by one that it takes for this moment; a lasting copy would keep the client's objects alive.
 * Workers have no rights that a container could use, and a worker whose copy cannot be closed, as the container has put
 * a file of its own there, holds up nothing but that container.
 */
#ifndef CGPUD_TIMESLICE_H
#define CGPUD_TIMESLICE_H

#include <pthread.h>
#include <stdatomic.h>

#include "cgpu_core.h"

#define TIMESLICE_CLIENTS CGPU_MAX_CLIENTS
/* Places that a client may have. */
#define TIMESLICE_PROBES 8

/* A client with channel groups, and the descriptor by which it was last reached. */
struct timeslice_client {
	u32 client; /* handle; 0: free */
	s32 tid, tgid;
	s32 number; /* of the descriptor */
	u32 slot;
	u64 generation; /* of its container */
	u32 mark, started; /* look_mark() of the thread, and of the process; 0: not known */
	u32 left; /* bit n: on GPU n its slices are for the next worker that serves it */
	u64 order; /* in which it was told of */
	u64 searched; /* ns: when its processes' descriptors were gone through last; 0: never */
};

struct timeslices {
	pthread_mutex_t lock; /* of at */
	u32 seed;
	u64 order; /* the last one */
	struct timeslice_client at[TIMESLICE_CLIENTS];
	/* Lock of each container, held while a worker sets slices of its clients. */
	pthread_mutex_t busy[CGPU_MAX_CONTAINERS];
	atomic_uint posted; /* bit n: GPU n has slices to be set, or a worker is at it */
	atomic_uint wanted; /* bit n: and no worker has begun */
	atomic_uint left; /* clients that have some left */
	atomic_ullong set;
};

struct cgpud;
struct in_flight;
struct task;

void timeslice_init(struct cgpud *d);
/* Find the record of a client. 1: it is known. */
int timeslice_find(struct timeslices *timeslices, u32 client, struct timeslice_client *found);
/* Record how a client is reached; GPUs with slices left add up. A full table forgets a client that has none left, or
 * else the oldest one: a worker then searches for its descriptor. */
void timeslice_remember(struct timeslices *timeslices, const struct timeslice_client *one);
void timeslice_not_left(struct timeslices *timeslices, u32 client, u32 gpus);
/* Have a worker set all that are due on a GPU. */
void timeslice_post(struct cgpud *d, u32 gpu);
/* A worker sets the posted slices. */
void timeslice_serve(struct cgpud *d);
/* A group, or a channel of it, was made or scheduled by a call: set the slices of that client on the call's descriptor. */
void timeslice_after_call(struct cgpud *d, const struct in_flight *e, struct task *task);
/* A call has come: if its client has slices left, set them on its descriptor. */
void timeslice_before_call(struct cgpud *d, const struct in_flight *e, struct task *task);

#endif
