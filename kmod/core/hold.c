// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0
/*
 * Memory that a part of the driver keeps for itself. UVM duplicates what it maps, and the memory stays until UVM lets
 * go, whatever the container frees meanwhile; and it takes memory by itself, for managed ranges. A transport inside the
 * kernel sees this as it happens; one outside tells it by the calls on UVM's files, and what those answer.
 */
#include "ledger.h"
#include "registry.h"

/* The memory that a container's client names, as an object; CORE_NONE for what is not charged. */
static u32 named_memory(struct cgpu_state *state, const struct cgpu_hold_request *request)
{
	u32 client = core_client_find(state, request->slot, request->client);
	u32 object = core_object_find(state, client, request->handle);

	if (object == CORE_NONE || state->object[object].kind != CORE_OBJECT_MEMORY)
		return CORE_NONE;
	/* The handle may have been given out anew. */
	return request->of && request->of != state->object[object].serial ? CORE_NONE : object;
}

/* A pending reference that refers to nothing yet. CORE_NONE: no room for one. */
static u32 hold_reserve(
	struct cgpu_state *state, const struct cgpu_hold_request *request, u32 holder, u32 gpu, struct cgpu_hold *hold)
{
	u32 client = core_client_take(state, request->slot, holder, request->tgid);
	u32 object = client == CORE_NONE ? CORE_NONE : core_object_begin(state, client, CORE_OBJECT_MEMORY, gpu);

	if (object == CORE_NONE) {
		if (client != CORE_NONE)
			core_client_settle(state, client);
		return CORE_NONE;
	}
	hold->object = object;
	hold->serial = state->object[object].serial;
	return object;
}

static void hold_settle(struct cgpu_state *state, u32 object)
{
	state->client[state->object[object].client].confirmed = 1;
	core_object_confirm(state, object, object + 1, CORE_NONE);
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

static int hold_share(
	struct cgpu_state *state, const struct cgpu_hold_request *request, u32 holder, struct cgpu_hold *hold)
{
	u32 named = named_memory(state, request), object;

	if (named == CORE_NONE)
		return 0;
	object = hold_reserve(state, request, holder, state->object[named].gpu, hold);
	if (object == CORE_NONE)
		return -ENOSPC;
	hold->of = state->object[named].serial;
	core_memory_share(state, object, state->object[named].memory);
	return 0;
}

static int hold_begin(
	struct cgpu_core *core, const struct cgpu_hold_request *request, u32 holder, struct cgpu_hold *hold)
{
	struct cgpu_state *state = core->state;
	int err = 0;

	memset(hold, 0, sizeof(*hold));
	core_lock(core);
	if (core_container(state, request->slot, request->generation) == NULL)
		err = -ENODEV;
	else if (core_client_claimed(state, request->slot, request->client) != CORE_NONE && state->settings.enforce)
		err = -EPERM;
	/* The driver's own client for exports counts as one of the process that has exported first (client.c:113). */
	else if (core_client_find(state, request->slot, request->client) == CORE_NONE && state->settings.enforce)
		err = -EPERM;
	if (err == 0)
		err = hold_share(state, request, holder, hold);
	core_unlock(core);
	return err;
}

int cgpu_hold_begin(struct cgpu_core *core, const struct cgpu_hold_request *request, struct cgpu_hold *hold)
{
	return hold_begin(core, request, core_holder_handle(request->tgid), hold);
}

int cgpu_hold_on_file(struct cgpu_core *core, const struct cgpu_hold_request *request, u32 file, struct cgpu_hold *hold)
{
	if (file >= CORE_FILE_HOLDERS)
		return -EINVAL;
	return hold_begin(core, request, core_file_holder(file), hold);
}

int cgpu_hold_names(struct cgpu_core *core, const struct cgpu_hold *hold, const struct cgpu_hold_request *request)
{
	struct cgpu_state *state = core->state;
	const struct core_object *object;
	u32 named;
	int same;

	core_lock(core);
	object = held(state, hold);
	named = named_memory(state, request);
	same = object && named != CORE_NONE && object->memory == state->object[named].memory;
	core_unlock(core);
	return same;
}

static int hold_charge(struct cgpu_state *state, const struct cgpu_hold_request *request, struct cgpu_hold *hold)
{
	const struct core_instance *instance;
	u32 number, object, client;

	instance = core_instance_of(state, request->gpu, request->slot, &number);
	if (instance == NULL)
		return -ENOENT;
	if (core_drift_refuses(state, request->gpu))
		return -ENOMEM;
	if (request->bytes > core_memory_room(instance) && state->settings.enforce)
		return -ENOMEM;
	object = hold_reserve(state, request, core_holder_handle(request->tgid), request->gpu, hold);
	if (object == CORE_NONE)
		return -ENOSPC;
	client = state->object[object].client;
	if (core_memory_begin(state, object, number, request->bytes) == CORE_NONE) {
		core_object_drop(state, object);
		core_client_settle(state, client);
		hold->serial = 0;
		return -ENOSPC;
	}
	hold_settle(state, object);
	return 0;
}

int cgpu_hold_charge(struct cgpu_core *core, const struct cgpu_hold_request *request, struct cgpu_hold *hold)
{
	int err = -ENODEV;

	memset(hold, 0, sizeof(*hold));
	core_lock(core);
	if (core_container(core->state, request->slot, request->generation))
		err = hold_charge(core->state, request, hold);
	core_unlock(core);
	return err;
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
		hold_settle(state, hold->object);
		err = 0;
	}
	core_unlock(core);
	return err;
}

int cgpu_hold_recover(struct cgpu_core *core, const struct cgpu_hold *hold, u32 file)
{
	struct cgpu_state *state = core->state;
	const struct core_object *object;
	int err = -ENOENT;

	core_lock(core);
	object = held(state, hold);
	if (object && object->memory != CORE_NONE && state->client[object->client].handle == core_file_holder(file)) {
		/* Nobody has come to confirm it. */
		if (object->handle == 0)
			hold_settle(state, hold->object);
		err = 0;
	}
	core_unlock(core);
	return err;
}

int cgpu_hold_file_next(struct cgpu_core *core, u32 *cursor, struct cgpu_hold *hold)
{
	struct cgpu_state *state = core->state;
	int err = -ENOENT;

	core_lock(core);
	for (; err && *cursor < CGPU_MAX_OBJECTS; (*cursor)++) {
		const struct core_object *object = &state->object[*cursor];

		if (object->live != CORE_LIVE || !core_holds_for_file(&state->client[object->client]))
			continue;
		*hold = (struct cgpu_hold){ .object = *cursor, .serial = object->serial };
		err = 0;
	}
	core_unlock(core);
	return err;
}

void cgpu_hold_shrink(struct cgpu_core *core, const struct cgpu_hold *hold, u64 bytes)
{
	struct cgpu_state *state = core->state;
	const struct core_object *object;
	u64 now;

	core_lock(core);
	object = held(state, hold);
	if (object) {
		now = state->memory[object->memory].bytes;
		core_memory_resize(state, object->memory, now > bytes ? now - bytes : 0);
	}
	core_unlock(core);
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

void cgpu_hold_file_ended(struct cgpu_core *core, u32 file)
{
	struct cgpu_state *state = core->state;
	u32 handle = core_file_holder(file), i, next;

	core_lock(core);
	for (i = core_client_of_handle(state, handle); i != CORE_NONE; i = next) {
		next = state->client[i].next;
		if (state->client[i].handle == handle)
			core_client_drop(state, i);
	}
	core_unlock(core);
}
