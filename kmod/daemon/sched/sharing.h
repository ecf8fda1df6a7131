/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shares of GPU time, as the core decides them. Each GPU has a thread that enables and disables channels when a grant ends, so
 * that a card that hangs holds up no other one. The thread sleeps until then, or until the core says that something has
 * changed; while no container has channels it does nothing. It takes no input from containers: workers set timeslices
 * (timeslice.h).
 */
#ifndef CGPUD_SHARING_H
#define CGPUD_SHARING_H

#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>

#include "sched_client.h"

struct cgpud;
struct in_flight;
struct task;

struct sharing_gpu {
	struct cgpud *d;
	u32 gpu;
	pthread_t thread;
	u32 running, ending;
	/* Held while channels are changed. A worker takes door before lock, so that the thread waits for one worker at
	 * most. */
	pthread_mutex_t door, lock;
	atomic_uint waiting; /* workers that want the lock */
	atomic_uint begun; /* 1: channels have been set, or could not be */
	struct sched_client sched_client; /* opened under the lock, closed by the thread under the lock */
	u64 retry; /* ns: not before then, as the driver is gone; 0: it is there */
	/* Only the thread uses these. */
	u64 sample_due; /* ns: when samples are due */
	u64 posted; /* ns: when timeslices were left to a worker last */
	atomic_uint due; /* 1: something has changed; the thread waits for it by a futex */
};

struct sharing {
	struct sharing_gpu at[CGPU_MAX_GPUS];
	sem_t begun; /* one for each thread that has begun */
	atomic_ullong rounds, changed, failed;
};

void sharing_init(struct cgpud *d);
/* For the core. */
u64 sharing_clock(void *ctx);
void sharing_wake(void *ctx, u32 gpu);
/* Start the threads, and wait until they have set all channels; not for long, where a card does not answer. 0 or a negative
 * errno. */
int sharing_start(struct cgpud *d);
#define SHARING_STOP_MS 3000
/* Returns how many threads a driver keeps from ending in this time. */
u32 sharing_stop(struct cgpud *d, u32 ms);
void sharing_close(struct cgpud *d);
/* The driver has done a call: apply its scheduling controls before its caller goes on. */
void sharing_after_call(struct cgpud *d, const struct in_flight *e, struct task *task);

#endif
