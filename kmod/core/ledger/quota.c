// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
/* Fair shares of the pools of records: one container must not be able to starve the others of them, in one life or in several. */
#include "ledger/ledger.h"

/* One container has at most so many, as all of them can become orphans at once. */
#define CLIENTS_MOST CORE_ORPHANED_CLIENTS

struct pool {
	u32 size, taken, orphaned;
};

static struct pool pool_of(const struct cgpu_state *state, enum core_pool pool)
{
	if (pool == CORE_POOL_CLIENTS)
		return (struct pool){ CGPU_MAX_CLIENTS, state->clients, state->orphaned_clients };
	return (struct pool){ CGPU_MAX_OBJECTS, state->objects, state->orphaned_objects };
}

static u32 held(const struct core_container *container, enum core_pool pool)
{
	return pool == CORE_POOL_CLIENTS ? container->clients : container->objects;
}

int core_quota_room(const struct cgpu_state *state, u32 slot, enum core_pool which)
{
	struct pool pool = pool_of(state, which);
	u32 own = held(&state->container[slot], which);
	u32 owed = 0, share, i;

	if (pool.taken >= pool.size || (which == CORE_POOL_CLIENTS && own >= CLIENTS_MOST))
		return 0;
	share = (pool.size - pool.orphaned) / 2 / (state->containers ? state->containers : 1);
	if (own < share)
		return 1;
	for (i = 0; i < CGPU_MAX_CONTAINERS; i++) {
		const struct core_container *other = &state->container[i];

		if (i != slot && other->live == CORE_LIVE && held(other, which) < share)
			owed += share - held(other, which);
	}
	return pool.size - pool.taken > owed;
}

int core_quota_orphans_crowd(const struct cgpu_state *state)
{
	return state->orphaned_clients > CORE_ORPHANED_CLIENTS || state->orphaned_objects > CORE_ORPHANED_OBJECTS;
}
