// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
/*
 * Clients of removed containers. A descriptor that was handed to a process outside keeps a client and its
 * memory alive: the card does not have that memory, so it must not be promised, until the driver drops it.
 */
#include "ledger/ledger.h"
#include "registry/registry.h"

/* Drop calls under way: they find their record gone and are undone. No others come after it. A reference of a pin
 * stays: its owner drops it, and an export ends with its file alone. */
static void sweep(struct cgpu_state *state, u32 client)
{
	u32 at, next;

	for (at = state->client[client].first; at != CORE_NONE; at = next) {
		next = core_object_after(state, at);
		/* A record under way has nothing below it. */
		if (state->object[at].live == CORE_PENDING && !core_is_pin(&state->client[client]))
			core_object_drop(state, at);
	}
}

/* Groups and channels are charged, too, if with nothing but their numbers: work that runs on must be kept from the
 * card. */
static void orphan(struct cgpu_state *state, u32 client)
{
	struct core_client *record = &state->client[client];
	struct core_container *container = &state->container[record->slot];
	u32 at;

	if (record->memories == 0) {
		core_client_drop(state, client);
		return;
	}
	for (at = record->first; at != CORE_NONE; at = core_object_after(state, at)) {
		if (state->object[at].memory != CORE_NONE)
			core_memory_orphan(state, state->object[at].memory);
	}
	container->clients--;
	container->objects -= record->objects;
	state->orphaned_clients++;
	state->orphaned_objects += record->objects;
	record->slot = CORE_NONE;
	record->generation = 0;
	/* Channels of a passthrough GPU were in no TSG list. */
	for (at = record->first; at != CORE_NONE; at = core_object_after(state, at)) {
		if (state->object[at].live == CORE_LIVE && state->object[at].tsg_list == CORE_NONE)
			core_tsg_link(state, at);
	}
}

static int is_of(const struct core_client *client, u32 slot)
{
	return client->live == CORE_LIVE && client->slot == slot;
}

void core_clients_orphan(struct cgpu_state *state, u32 slot)
{
	u32 i;

	for (i = 0; i < CGPU_MAX_CLIENTS; i++) {
		if (!is_of(&state->client[i], slot))
			continue;
		sweep(state, i);
		core_client_thin(state, i);
	}
	core_container_fold(state, slot);
	for (i = 0; i < CGPU_MAX_CLIENTS; i++) {
		if (is_of(&state->client[i], slot))
			orphan(state, i);
	}
}

void core_orphan_settle(struct cgpu_state *state, u32 client)
{
	const struct core_client *record = &state->client[client];

	if (record->live == CORE_LIVE && record->slot == CORE_NONE && record->memories == 0)
		core_client_drop(state, client);
}

u32 cgpu_orphans(struct cgpu_core *core)
{
	u32 clients;

	core_lock(core);
	clients = core->state->orphaned_clients;
	core_unlock(core);
	return clients;
}

u64 cgpu_gpu_orphaned(struct cgpu_core *core, u32 gpu)
{
	const struct core_gpu *found;
	u64 bytes;

	core_lock(core);
	core_pages_look(core, gpu);
	found = core_gpu(core->state, gpu);
	bytes = found ? core_gpu_left(found) : 0;
	core_unlock(core);
	return bytes;
}

/* Whether memory or records of orphans may be the cause of a refused registration or write. */
static int are_in_the_way(struct cgpu_core *core, int err)
{
	u64 bytes = 0;
	int crowd;
	u32 gpu;

	if (err == -ENOSPC) {
		core_lock(core);
		crowd = core_quota_orphans_crowd(core->state);
		core_unlock(core);
		return crowd;
	}
	for (gpu = 0; gpu < CGPU_MAX_GPUS && err == -ENOMEM; gpu++)
		bytes |= cgpu_gpu_orphaned(core, gpu);
	return err == -ENOMEM && (bytes || cgpu_orphans(core));
}

int core_orphans_settle(struct cgpu_core *core, int err)
{
	if (core->ops->orphans == NULL || !are_in_the_way(core, err))
		return 0;
	core->ops->orphans(core->ctx);
	return 1;
}

int cgpu_orphan_next(struct cgpu_core *core, u32 *cursor, s32 *tgid, u32 *client)
{
	int err = -ENOENT;

	core_lock(core);
	for (; err && *cursor < CGPU_MAX_CLIENTS; (*cursor)++) {
		const struct core_client *record = &core->state->client[*cursor];

		if (record->live != CORE_LIVE || record->slot != CORE_NONE || core_is_pin(record))
			continue;
		*tgid = record->tgid;
		*client = record->handle;
		err = 0;
	}
	core_unlock(core);
	return err;
}

int cgpu_orphan_gone(struct cgpu_core *core, s32 tgid, u32 client)
{
	return core_client_forget(core, CORE_NONE, tgid, client);
}
