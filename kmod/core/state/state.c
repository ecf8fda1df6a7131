// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
/* A fresh state. */
#include "state/state.h"

size_t cgpu_state_bytes(void)
{
	return sizeof(struct cgpu_state);
}

void core_links_clear(struct cgpu_state *state)
{
	memset(state->client_hash, 0xff, sizeof(state->client_hash));
	memset(state->tgid_hash, 0xff, sizeof(state->tgid_hash));
	memset(state->file_hash, 0xff, sizeof(state->file_hash));
	memset(state->object_hash, 0xff, sizeof(state->object_hash));
	state->clients = 0;
	state->objects = 0;
	state->orphaned_clients = 0;
	state->orphaned_objects = 0;
}

u32 core_objects_used(const struct cgpu_state *state)
{
	u32 used = CGPU_MAX_OBJECTS;

	while (used && !state->object[used - 1].live && !state->memory[used - 1].live)
		used--;
	return used;
}

void core_free_lists(struct cgpu_state *state, u32 used)
{
	u32 i;

	state->client_free = CORE_NONE;
	state->object_free = used < CGPU_MAX_OBJECTS ? used : CORE_NONE;
	state->memory_free = state->object_free;
	for (i = CGPU_MAX_CLIENTS; i-- > 0;) {
		if (state->client[i].live == CORE_LIVE)
			continue;
		state->client[i].next = state->client_free;
		state->client_free = i;
	}
	for (i = used; i-- > 0;) {
		if (state->object[i].live != CORE_LIVE && state->object[i].live != CORE_PENDING) {
			state->object[i].next = state->object_free;
			state->object_free = i;
		}
		if (state->memory[i].live != CORE_LIVE) {
			state->memory[i].first = state->memory_free;
			state->memory_free = i;
		}
	}
}

void cgpu_state_init(struct cgpu_state *state, u64 key)
{
	memset(state, 0, sizeof(*state));
	state->key = key;
	core_links_clear(state);
	core_free_lists(state, CGPU_MAX_OBJECTS);
	state->settings.enforce = 1;
	state->settings.policy = CGPU_CONFIG_POLICY_DEFAULT;
	state->settings.max_inst = CGPU_CONFIG_MAX_INST_DEFAULT;
	state->settings.prio_ratio = CGPU_CONFIG_PRIO_RATIO_DEFAULT;
	memcpy(state->settings.engine, "cgpud", sizeof("cgpud"));
	memcpy(state->settings.version, "0.1.0", sizeof("0.1.0"));
	state->stat.engine.fresh = CORE_MADE;
	state->bytes = sizeof(*state);
	state->version = CORE_VERSION;
	core_barrier();
	state->magic = CORE_MAGIC;
}
