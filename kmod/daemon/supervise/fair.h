/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Divides a table of fixed size between containers, by the rule that the core uses for its records
 * (kmod/core/ledger/quota.c): half of the places are reserved in equal parts for all containers, the other half goes to
 * whichever container asks first. No container gets more places than a fixed maximum.
 */
#ifndef CGPUD_FAIR_H
#define CGPUD_FAIR_H

#include "cgpu_core.h"

/* Places of the table by container. */
struct fair {
	u64 generation[CGPU_MAX_CONTAINERS]; /* of the container in the slot; 0: the slot is empty */
	u32 held[CGPU_MAX_CONTAINERS]; /* places of the container in the slot */
	u32 containers, taken; /* number of containers; places taken by all of them, and by removed ones */
};

/* Find the containers that exist, and set all counts of places to 0. Takes the core's lock. */
void fair_begin(struct fair *fair, struct cgpu_core *core);
/* Count one place of the table for a container. */
void fair_count(struct fair *fair, u32 slot, u64 generation);
/* Whether a container may take one more place of a table of `size` places. `most`: the maximum for one container. */
int fair_has_room(const struct fair *fair, u32 slot, u32 size, u32 most);

#endif
