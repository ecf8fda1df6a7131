/* SPDX-License-Identifier: GPL-2.0-only */
/* References of the core on memory that a part of the driver has duplicated for itself. */
#ifndef CGPU_KM_REFERENCES_H
#define CGPU_KM_REFERENCES_H

#include "engine/engine.h"

struct km_reference {
	struct hlist_node node;
	const void *owner; /* whose duplicate it is, as that part of the driver names it */
	u32 handle;
	bool releasing;
	struct cgpu_reference hold, also; /* also: of the group, where a channel is retained */
	struct rcu_head rcu;
};
/* The driver has made it, and its charge is confirmed. */
void km_reference_add(struct km_reference *reference, const void *owner, u32 handle);
/* Whether there is such a reference. Any context. */
bool km_reference_known(const void *owner, u32 handle);
/* Around the driver's own release of it. NULL: there is none, or another thread releases it. */
struct km_reference *km_reference_release(const void *owner, u32 handle);
void km_reference_released(struct km_reference *reference, bool done);

/* A call by which a part of the driver makes a duplicate for itself. */
struct km_reference_call {
	u32 client, handle; /* of the original */
	const void *call; /* for both functions */
	u32 (*run)(const void *call); /* where the task is of no container */
	/* In the container's order. The reference is the function's, to be added or freed. */
	u32 (*run_ordered)(struct km_engine *engine, struct cgpu_reference_request *request, const void *call,
		struct km_reference *reference);
};
/* For its probe: whether the task is of a container, and this is no call of our own. */
bool km_reference_wants(struct pt_regs *regs);
/* Run one in place of the driver's function, and leave the probe. Returns the driver's status. */
u32 km_reference_run(const struct km_reference_call *what);

#endif
