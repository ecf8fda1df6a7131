// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0
/* Fair shares of the pools of records: one container must not be able to starve the others of them. */
#include "ledger/ledger.h"

static u32 held(const struct core_container *container, enum core_pool pool)
{
	return pool == CORE_POOL_CLIENTS ? container->clients : container->objects;
}

int core_quota_room(const struct cgpu_state *state, u32 slot, enum core_pool pool)
{
	u32 size = pool == CORE_POOL_CLIENTS ? CGPU_MAX_CLIENTS : CGPU_MAX_OBJECTS;
	u32 taken = pool == CORE_POOL_CLIENTS ? state->clients : state->objects;
	u32 owed = 0, share, i;

	if (taken >= size)
		return 0;
	share = size / 2 / (state->containers ? state->containers : 1);
	if (held(&state->container[slot], pool) < share)
		return 1;
	for (i = 0; i < CGPU_MAX_CONTAINERS; i++) {
		const struct core_container *other = &state->container[i];

		if (i != slot && other->live == CORE_LIVE && held(other, pool) < share)
			owed += share - held(other, pool);
	}
	return size - taken > owed;
}
