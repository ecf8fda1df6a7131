// SPDX-License-Identifier: Apache-2.0
/* Counts places of a table by container, and decides whether a container may have another one. */
#include <string.h>

#include "fair.h"

void fair_begin(struct fair *fair, struct cgpu_core *core)
{
	struct cgpu_container_info info;
	u32 at;

	memset(fair, 0, sizeof(*fair));
	for (at = 0; cgpu_container_next(core, at, &info) == 0; at = info.slot + 1) {
		fair->generation[info.slot] = info.generation;
		fair->containers++;
	}
}

void fair_count(struct fair *fair, u32 slot, u64 generation)
{
	fair->taken++;
	if (slot < CGPU_MAX_CONTAINERS && generation == fair->generation[slot])
		fair->held[slot]++;
}

int fair_has_room(const struct fair *fair, u32 slot, u32 size, u32 most)
{
	u32 share = size / 2 / (fair->containers ? fair->containers : 1), owed = 0, i;

	if (fair->taken >= size || slot >= CGPU_MAX_CONTAINERS || fair->held[slot] >= most)
		return 0;
	if (fair->held[slot] < share)
		return 1;
	for (i = 0; i < CGPU_MAX_CONTAINERS; i++) {
		if (i != slot && fair->generation[i] && fair->held[i] < share)
			owed += share - fair->held[i];
	}
	return size - fair->taken > owed;
}
