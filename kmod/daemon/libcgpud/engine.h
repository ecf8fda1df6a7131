/* SPDX-License-Identifier: Apache-2.0 */
/* The engine's process-wide structure; functions get a pointer to the whole of it. */
#ifndef CGPUD_ENGINE_H
#define CGPUD_ENGINE_H

#include <pthread.h>
#include <stdatomic.h>

#include "cgpud.h"
#include "device.h"
#include "driver.h"
#include "events.h"
#include "in_flight.h"
#include "external.h"
#include "files.h"
#include "reaper.h"
#include "listener.h"
#include "looks.h"
#include "managed.h"
#include "sharing.h"
#include "timeslice.h"
#include "task.h"

#define WORKERS_MAX 128
#define WORKERS_SHARE 4 /* that one container may keep busy */

/* Work that the layer above hands to workers, which know their threads alone. */
struct worker_work {
	void (*serve)(struct cgpud *d, struct task_cache *cache, u64 event, u32 events); /* event: of listener_wait() */
	void (*housekeeping)(struct cgpud *d); /* after workers_wake() */
	void (*take_up)(struct cgpud *d, struct task_cache *cache); /* answer the calls that the engine before left */
};

struct worker {
	struct cgpud *d;
	pthread_t thread;
	u32 joined; /* it has ended, and is waited for no more */
	u32 ending; /* engine_must_end() */
	pthread_mutex_t busy; /* held while it works; the reaper closes descriptors of idle workers */
	u64 served, tidied; /* calls until now, and until the last look */
	struct task_cache cache;
};

/*
 * Calls of a container that went to the driver, by their kind. An answer that no thread has taken stands only
 * while no call of the other kind came after it: a free undoes an allocation, a new object takes a freed handle.
 * Counted under the container's order.
 */
struct call_counts {
	atomic_ullong made, freed;
};

struct counters {
	atomic_ullong supervised, executed, continued, refused, interrupted, faults;
	atomic_uint recovered;
};

struct cgpud {
	struct cgpu_core core;
	struct cgpu_ops ops;
	pthread_mutex_t core_lock;
	/* Held from the core's decision until the driver's answer is in the ledger: see engine_order(). */
	pthread_mutex_t order[CGPU_MAX_CONTAINERS];
	struct call_counts counts[CGPU_MAX_CONTAINERS];
	struct events events;
	struct driver driver;
	struct cgpu_gpu_facts facts[CGPU_MAX_GPUS]; /* of the cards, as asked before the ledger has them */
	u64 memfree[CGPU_MAX_GPUS];
	struct devices devices;
	struct looks looks;
	struct in_flight_table in_flight;
	struct listeners listeners;
	struct reaper reaper;
	struct managed managed;
	struct external external;
	struct files files;
	struct sharing sharing;
	struct timeslices timeslices;
	struct counters counters;
	atomic_uint enforce;
	atomic_uint stopping;
	int wake_fd; /* readable: workers have housekeeping to do, or must end */
	const struct worker_work *work;
	u32 workers; /* to begin with */
	pthread_mutex_t workers_lock; /* guards the start of workers, and the order to threads to end */
	atomic_uint started, idle;
	atomic_uint taking_up; /* workers that search for calls of the daemon before */
	u32 follows; /* of the options */
	u32 pidfd_thread; /* the kernel gives a pidfd for a thread */
	size_t notif_bytes, resp_bytes;
	struct worker worker[WORKERS_MAX];
};

/*
 * The driver and the ledger must see a container's allocations, duplicates and frees in one order. Else a
 * duplicate made while its source is not in the ledger yet, or a free that is settled after its handle was
 * given out again, leaves memory without a charge. Never touch the caller's memory meanwhile: that can take
 * for ever.
 */
static inline pthread_mutex_t *engine_order(struct cgpud *d, u32 slot)
{
	return &d->order[slot % CGPU_MAX_CONTAINERS];
}

/* Each thread of the engine asks whether it must end. After a yes, in *ending, it ends even if the stop is given up. */
static inline u32 engine_must_end(struct cgpud *d, u32 *ending)
{
	if (!atomic_load(&d->stopping))
		return 0;
	pthread_mutex_lock(&d->workers_lock);
	*ending = atomic_load(&d->stopping);
	pthread_mutex_unlock(&d->workers_lock);
	return *ending;
}

static inline struct call_counts *engine_call_counts(struct cgpud *d, u32 slot)
{
	return &d->counts[slot % CGPU_MAX_CONTAINERS];
}

#endif
