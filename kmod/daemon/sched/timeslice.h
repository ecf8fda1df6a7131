/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Timeslices of channel groups. The driver takes them only by the open file that the group's client lives on, so each is set
 * by a copy of its process's descriptor: by the worker that has just made the group on the one it has at hand, and later by
 * any worker, on one that it takes for this moment; a copy that is kept would keep what the client has alive. Workers have no
 * rights that a container could use, and one whose copy cannot be closed, as the container has put a file of its own there,
 * holds up nothing but that container.
 */
#ifndef CGPUD_TIMESLICE_H
#define CGPUD_TIMESLICE_H

#include <pthread.h>
#include <stdatomic.h>

#include "cgpu_core.h"

#define TIMESLICE_CLIENTS CGPU_MAX_CLIENTS
/* Places that a client may have. */
#define TIMESLICE_PROBES 8

/* How a client with channel groups was last reached. */
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
	/* Of each container: held while slices of its clients are set. */
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
/* How a client was last reached. 1: it is known. */
int timeslice_find(struct timeslices *timeslices, u32 client, struct timeslice_client *found);
/* What is left adds up. Where all of its places are taken, one that has nothing left is forgotten, or the one that was told of
 * first: its descriptor is then searched for. */
void timeslice_remember(struct timeslices *timeslices, const struct timeslice_client *one);
void timeslice_not_left(struct timeslices *timeslices, u32 client, u32 gpus);
/* Have a worker set all that are due on a GPU. */
void timeslice_post(struct cgpud *d, u32 gpu);
/* A worker does what was posted. */
void timeslice_serve(struct cgpud *d);
/* A group, or a channel of it, was made or scheduled by a call: set the slices of that client on the call's descriptor. */
void timeslice_after_call(struct cgpud *d, const struct in_flight *e, struct task *task);
/* A call has come: if its client has slices left, set them on its descriptor. */
void timeslice_before_call(struct cgpud *d, const struct in_flight *e, struct task *task);

#endif
