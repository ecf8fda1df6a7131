/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shares of GPU time, as the core decides them (kmod/core/cgpu_round.h). Each GPU has a thread that opens and closes gates when
 * a turn ends, so that a card that hangs holds up no other one. It sleeps until then, or until the core says that something has
 * changed; while nobody has channels it does nothing. It takes no input from containers: time slices are slicing.h's.
 */
#ifndef CGPUD_SHARING_H
#define CGPUD_SHARING_H

#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>

#include "gating.h"

struct cgpud;
struct exchange;
struct task;

struct sharing_gpu {
	struct cgpud *d;
	u32 gpu;
	pthread_t thread;
	u32 running, ending;
	/* Held while gates are set. A worker that wants it waits at the door first, so that the thread has one of them
	 * before it at most. */
	pthread_mutex_t door, lock;
	atomic_uint waiting; /* workers that want the lock */
	atomic_uint begun; /* 1: gates have been set, or could not be */
	struct gating gating; /* opened under the lock, closed by the thread under the lock */
	u64 retry; /* ns: not before then, as the driver is gone; 0: it is there */
	/* Of the thread alone. */
	u64 look; /* ns: the next look at samples */
	u64 posted; /* ns: when time slices were left to a worker last */
	atomic_uint due; /* 1: something has changed; the thread waits for it by a futex */
};

struct sharing {
	struct sharing_gpu at[CGPU_MAX_GPUS];
	sem_t begun; /* one for each thread that has begun */
	atomic_ullong turns, gates, failed;
};

void sharing_init(struct cgpud *d);
/* For the core. */
u64 sharing_clock(void *ctx);
void sharing_wake(void *ctx, u32 gpu);
/* Start the threads, and wait until they have set all gates; not for long, where a card does not answer. 0 or a negative
 * errno. */
int sharing_start(struct cgpud *d);
#define SHARING_STOP_MS 3000
/* Returns how many threads a driver keeps from ending in this time. */
u32 sharing_stop(struct cgpud *d, u32 ms);
void sharing_close(struct cgpud *d);
/* The driver has done a call: set what it asks for before its caller goes on. */
void sharing_after_call(struct cgpud *d, const struct exchange *e, struct task *task);

#endif
