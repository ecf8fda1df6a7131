// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0
/*
 * Memory that a part of the driver keeps for itself: UVM duplicates what it maps, and the memory stays until UVM lets
 * go, whatever the container frees meanwhile. Only a transport inside the kernel sees this.
 */
#include "ledger.h"
#include "registry.h"

static u32 holder_handle(s32 tgid)
{
	return CORE_HOLDER_BASE | ((u32)tgid & 0x0fffffffu);
}

/* The memory that a container's client names; CORE_NONE for what is not charged. */
static u32 named_memory(struct cgpu_state *state, u32 slot, u32 client, u32 handle, u32 *gpu)
{
	u32 object = core_object_find(state, core_client_find(state, slot, client), handle);

	if (object == CORE_NONE || state->object[object].kind != CORE_OBJECT_MEMORY)
		return CORE_NONE;
	*gpu = state->object[object].gpu;
	return state->object[object].memory;
}

static int hold_reserve(struct cgpu_state *state, u32 slot, s32 tgid, u32 memory, u32 gpu, struct cgpu_hold *hold)
{
	u32 client = core_client_take(state, slot, holder_handle(tgid), tgid);
	u32 object = client == CORE_NONE ? CORE_NONE : core_object_begin(state, client, CORE_OBJECT_MEMORY, gpu);

	if (object == CORE_NONE) {
		if (client != CORE_NONE)
			core_client_settle(state, client);
		return -ENOSPC;
	}
	core_memory_share(state, object, memory);
	hold->object = object;
	hold->serial = state->object[object].serial;
	return 0;
}

int cgpu_hold_begin(struct cgpu_core *core, const struct cgpu_hold_request *request, struct cgpu_hold *hold)
{
	struct cgpu_state *state = core->state;
	u32 memory, gpu = 0;
	int err = 0;

	memset(hold, 0, sizeof(*hold));
	core_lock(core);
	if (core_container(state, request->slot, request->generation) == NULL)
		err = -ENODEV;
	else if (core_client_claimed(state, request->slot, request->client) != CORE_NONE && state->settings.enforce)
		err = -EPERM;
	if (err == 0) {
		memory = named_memory(state, request->slot, request->client, request->handle, &gpu);
		if (memory != CORE_NONE)
			err = hold_reserve(state, request->slot, request->tgid, memory, gpu, hold);
	}
	core_unlock(core);
	return err;
}

static struct core_object *held(struct cgpu_state *state, const struct cgpu_hold *hold)
{
	struct core_object *object;

	if (hold->serial == 0 || hold->object >= CGPU_MAX_OBJECTS)
		return NULL;
	object = &state->object[hold->object];
	return object->serial == hold->serial && (object->live == CORE_LIVE || object->live == CORE_PENDING) ? object :
													       NULL;
}

int cgpu_hold_confirm(struct cgpu_core *core, const struct cgpu_hold *hold)
{
	struct cgpu_state *state = core->state;
	struct core_object *object;
	int err = -ENOENT;

	core_lock(core);
	object = held(state, hold);
	/* The container may have been removed meanwhile, and what was under way with it. */
	if (object && object->live == CORE_PENDING) {
		state->client[object->client].confirmed = 1;
		core_object_confirm(state, hold->object, hold->object + 1, CORE_NONE);
		err = 0;
	}
	core_unlock(core);
	return err;
}

void cgpu_hold_drop(struct cgpu_core *core, const struct cgpu_hold *hold)
{
	struct cgpu_state *state = core->state;
	struct core_object *object;
	u32 client;

	core_lock(core);
	object = held(state, hold);
	if (object) {
		client = object->client;
		core_object_drop(state, hold->object);
		if (state->client[client].objects == 0)
			core_client_drop(state, client);
		else
			core_orphan_settle(state, client);
	}
	core_unlock(core);
}
