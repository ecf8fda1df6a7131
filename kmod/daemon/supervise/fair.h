/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fair shares of a table that all containers use, by the rule of the core's records (kmod/core/ledger/quota.c): half of it is kept
 * for equal shares, the other half goes to containers as they come, and none has more than a fixed number.
 */
#ifndef CGPUD_FAIR_H
#define CGPUD_FAIR_H

#include "cgpu_core.h"

/* How many each container has. */
struct fair {
	u64 generation[CGPU_MAX_CONTAINERS]; /* 0: none in this slot */
	u32 held[CGPU_MAX_CONTAINERS];
	u32 containers, taken;
};

/* The containers that there are. Takes the core's lock. */
void fair_begin(struct fair *fair, struct cgpu_core *core);
/* One place of the table is a container's. */
void fair_count(struct fair *fair, u32 slot, u64 generation);
/* Whether a container may have one more of a table of `size` places, and `most` at all. */
int fair_has_room(const struct fair *fair, u32 slot, u32 size, u32 most);

#endif
