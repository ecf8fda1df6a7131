/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Managed memory: shared mappings of UVM's node. A mapping is charged, and then made by the container's own call. The
 * process's list of mappings shows whether it succeeded, and which mappings are gone. A read of that list waits for the
 * process's memory lock, which a hostile process can hold: so workers of that container read it, never the reaper. And it
 * takes the engine's processor, longer the more mappings there are: so all reads for one container have a budget.
 */
#ifndef CGPUD_MANAGED_H
#define CGPUD_MANAGED_H

#include <pthread.h>
#include <stdatomic.h>

#include "cgpu_core.h"
#include "processes.h"
#include "address_spaces.h"

#define MANAGED_PENDING 32 /* of one container at once */
#define MANAGED_SHARE 20 /* reads of one container's mappings take a 20th of the time */
#define MANAGED_WHILE_MS 20000 /* in which they may have their share at once */

struct cgpud;

/* A mapping that was charged, and may not be made yet. */
struct managed_pending {
	s32 tid; /* 0: free */
	u64 space; /* serial of its address space */
	u64 start, end;
	u64 until; /* milliseconds of the monotonic clock: by then it is there, or failed */
};

struct managed_container {
	pthread_mutex_t order; /* one recount after another, so that none counts by an older list */
	struct managed_pending pending[MANAGED_PENDING]; /* under order */
	atomic_ullong recounted; /* when last, in milliseconds of the monotonic clock */
	u64 generation; /* whose budget it is; under order */
	s64 paid; /* by then all reads until now are within their share, in milliseconds of that clock; under order */
};

struct managed {
	atomic_uint allowed;
	struct address_spaces spaces;
	struct managed_container container[CGPU_MAX_CONTAINERS];
};

struct managed_map {
	struct notice notice; /* of the thread that maps */
	u32 slot;
	u64 generation;
	s32 tid, tgid;
	u64 start, bytes;
};

void managed_open(struct cgpud *d, u32 allowed);
/* Take up managed memory from the ledger of an engine before. Before any call is answered. */
void managed_take_up(struct cgpud *d);
/* A thread is about to map UVM's node. 0; -EPERM: not allowed here; -ENOMEM: its container's limit; -EAGAIN: too many at
 * once, another count does not end, or the budget is spent. */
int managed_map(struct cgpud *d, const struct managed_map *map);
/* Count all processes of a container that have managed memory, if the budget allows. tid: the thread that waits for us, and so
 * has nothing pending. */
void managed_recount(struct cgpud *d, u32 slot, u64 generation, s32 tid);
/* The same, unless the last recount is a moment old, or half of the budget is spent. */
void managed_recount_stale(struct cgpud *d, u32 slot, u64 generation, s32 tid);
/* Give back memory of address spaces that no process uses any more. Any thread. */
void managed_drop_ended(struct cgpud *d, u32 slot);

#endif
