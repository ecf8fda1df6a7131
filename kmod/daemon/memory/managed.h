/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Managed memory: shared mappings of UVM's node. Only their making is seen here, and it goes on in the container after it
 * was charged; what has become of it, and what was unmapped, is found by looking at the process's mappings. A process is
 * looked at by the worker that answers its own container, never by the lever thread: the look waits for the process's
 * memory, which a hostile one can keep locked.
 */
#ifndef CGPUD_MANAGED_H
#define CGPUD_MANAGED_H

#include <pthread.h>
#include <stdatomic.h>

#include "cgpu_core.h"
#include "processes.h"
#include "va_spaces.h"

#define MANAGED_PENDING 32 /* of one container at once */

struct cgpud;

/* A mapping that was let go on, and may not be there yet. */
struct managed_pending {
	s32 tid; /* 0: free */
	u64 space; /* serial of its address space */
	u64 start, end;
	u64 until; /* milliseconds of the monotonic clock: by then it is there, or failed */
};

struct managed_container {
	pthread_mutex_t order; /* one look after another, so that none counts by an older one */
	struct managed_pending pending[MANAGED_PENDING]; /* under order */
	u64 counted; /* bytes by the last look, and by what was let go on since; under order */
	atomic_ullong looked; /* when last */
};

struct managed {
	atomic_uint allowed;
	struct spaces spaces;
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
void managed_close(struct managed *managed);
/* What an engine before this one has on its books. Before any call is answered. */
void managed_take_up(struct cgpud *d);
/* A thread is about to map UVM's node. 0; -EPERM: not allowed here; -ENOMEM: its container's limit; -EAGAIN: too many at
 * once, or another look does not end. */
int managed_map(struct cgpud *d, const struct managed_map *map);
/* Look at all processes of a container that have managed memory. tid: the thread that waits for us, and so has nothing
 * pending. */
void managed_look(struct cgpud *d, u32 slot, u64 generation, s32 tid);
/* The same, unless somebody has looked a moment ago. */
void managed_look_again(struct cgpud *d, u32 slot, u64 generation, s32 tid);
/* Give back what lay in address spaces that nobody uses any more. Any thread. */
void managed_drop_ended(struct cgpud *d, u32 slot);

#endif
