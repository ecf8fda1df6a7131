// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
/*
 * Memory that a part of the driver keeps for itself. UVM duplicates what it maps, and the memory stays until UVM lets
 * go, whatever the container frees meanwhile; and it takes memory by itself, for managed ranges. A transport inside the
 * kernel sees this as it happens; one outside tells it by the calls on UVM's files, and what those answer.
 */
#include "ledger/ledger.h"
#include "registry/registry.h"

/* A channel that a container's client names. */
static u32 named_channel(struct cgpu_state *state, const struct cgpu_reference_request *request)
{
	u32 client = core_client_find(state, request->slot, request->client);
	u32 object = core_object_find(state, client, request->handle);

	return object != CORE_NONE && state->object[object].kind == CORE_OBJECT_CHANNEL ? object : CORE_NONE;
}

/* Object whose memory a reference is to: the channel, or its group. A channel without a group has all of the memory. */
static u32 of_channel(struct cgpu_state *state, const struct cgpu_reference_request *request)
{
	u32 channel = named_channel(state, request);
	u32 object = channel;

	if (channel != CORE_NONE && request->to == CGPU_REFERENCE_GROUP)
		object = state->object[channel].parent;
	if (object == CORE_NONE || state->object[object].memory == CORE_NONE)
		return CORE_NONE;
	if (request->to == CGPU_REFERENCE_GROUP && state->object[object].kind != CORE_OBJECT_CHANNEL_GROUP)
		return CORE_NONE;
	return object;
}

/* The memory that a container's client names, as an object; CORE_NONE for what is not charged. */
static u32 named_memory(struct cgpu_state *state, const struct cgpu_reference_request *request)
{
	u32 client, object;

	if (request->to == CGPU_REFERENCE_MEMORY) {
		client = core_client_find(state, request->slot, request->client);
		object = core_object_find(state, client, request->handle);
		if (object != CORE_NONE && state->object[object].kind != CORE_OBJECT_MEMORY)
			return CORE_NONE;
	} else {
		object = of_channel(state, request);
	}
	if (object == CORE_NONE)
		return CORE_NONE;
	/* The handle may have been given out anew. */
	return request->of && request->of != state->object[object].serial ? CORE_NONE : object;
}

/* An object without a record costs nothing, unless another container gets memory there before the driver looks it
 * up. */
static int judge_unknown(struct cgpu_state *state, const struct cgpu_reference_request *request)
{
	u32 client = core_client_find(state, request->slot, request->client);

	if (request->to != CGPU_REFERENCE_MEMORY || !state->settings.enforce)
		return 0;
	return core_client_anchor(state, client) == CORE_NONE ? -EPERM : 0;
}

/* A pending reference that refers to nothing yet. CORE_NONE: no room for one. */
static u32 reserve(struct cgpu_state *state, const struct cgpu_reference_request *request, u32 pin, u32 gpu,
	struct cgpu_reference *reference)
{
	u32 client = core_client_take(state, request->slot, pin, request->tgid);
	u32 object = client == CORE_NONE ? CORE_NONE : core_object_begin(state, client, CORE_OBJECT_MEMORY, gpu);

	if (object == CORE_NONE) {
		if (client != CORE_NONE)
			core_client_settle(state, client);
		return CORE_NONE;
	}
	reference->object = object;
	reference->pin = client + 1;
	reference->serial = state->object[object].serial;
	return object;
}

static void settle(struct cgpu_state *state, u32 object)
{
	state->client[state->object[object].client].confirmed = 1;
	core_object_confirm(state, object, object + 1, CORE_NONE);
}

static struct core_object *found(struct cgpu_state *state, const struct cgpu_reference *reference)
{
	return reference->serial ? core_object_noted(state, reference->object, reference->serial) : NULL;
}

static int share(struct cgpu_state *state, const struct cgpu_reference_request *request, u32 pin,
	struct cgpu_reference *reference)
{
	u32 named = named_memory(state, request), object;

	if (named == CORE_NONE)
		return judge_unknown(state, request);
	object = reserve(state, request, pin, state->object[named].gpu, reference);
	if (object == CORE_NONE)
		return -ENOSPC;
	reference->of = state->object[named].serial;
	core_memory_share(state, object, state->object[named].memory);
	return 0;
}

static int begin(
	struct cgpu_core *core, const struct cgpu_reference_request *request, u32 pin, struct cgpu_reference *reference)
{
	struct cgpu_state *state = core->state;
	int err = 0;

	memset(reference, 0, sizeof(*reference));
	core_lock(core);
	if (core_container(state, request->slot, request->generation) == NULL)
		err = -ENODEV;
	else if (core_client_of_other(state, request->slot, request->client) != CORE_NONE && state->settings.enforce)
		err = -EPERM;
	/* The driver's own client for exports counts as one of the process that has exported first. */
	else if (core_client_find(state, request->slot, request->client) == CORE_NONE && state->settings.enforce)
		err = -EPERM;
	/* UVM would retain a channel that has no record, uncounted. */
	else if (request->to != CGPU_REFERENCE_MEMORY && named_channel(state, request) == CORE_NONE &&
		state->settings.enforce)
		err = -EPERM;
	if (err == 0)
		err = share(state, request, pin, reference);
	core_unlock(core);
	return err;
}

int cgpu_reference_begin(
	struct cgpu_core *core, const struct cgpu_reference_request *request, struct cgpu_reference *reference)
{
	return begin(core, request, core_pin_handle(request->tgid), reference);
}

int cgpu_reference_on_file(struct cgpu_core *core, const struct cgpu_reference_request *request, u32 file,
	struct cgpu_reference *reference)
{
	if (file >= CORE_FILE_PINS)
		return -EINVAL;
	return begin(core, request, core_file_pin(file), reference);
}

int cgpu_reference_names(
	struct cgpu_core *core, const struct cgpu_reference *reference, const struct cgpu_reference_request *request)
{
	struct cgpu_state *state = core->state;
	const struct core_object *object;
	u32 named;
	int same;

	core_lock(core);
	object = found(state, reference);
	named = named_memory(state, request);
	same = object && named != CORE_NONE && object->memory == state->object[named].memory;
	core_unlock(core);
	return same;
}

/* Pages are given out without the core's lock, up to the last limit that was published. Where some came before the
 * limit that this charge makes, the charge gives way. */
static int pages_came_first(struct cgpu_core *core, u32 gpu, struct core_instance *instance)
{
	core_pages_publish(core);
	core_pages_look_at(core, gpu, instance);
	return instance->counted && core_instance_has(instance) > instance->slice.memsize;
}

static int charge(
	struct cgpu_core *core, const struct cgpu_reference_request *request, struct cgpu_reference *reference)
{
	struct cgpu_state *state = core->state;
	struct core_instance *instance;
	u32 number, object, client;

	instance = core_instance_of(state, request->gpu, request->slot, &number);
	if (instance == NULL)
		return -ENOENT;
	core_pages_look_at(core, request->gpu, instance);
	if (core_unaccounted_refuses(state, request->gpu)) {
		core_stat_short(state, request->gpu, number, CORE_SHORT_UNACCOUNTED);
		return -ENOMEM;
	}
	if (request->bytes > core_memory_room(instance) && state->settings.enforce) {
		core_stat_short(state, request->gpu, number, CORE_SHORT_LIMIT);
		return -ENOMEM;
	}
	object = reserve(state, request, core_pin_handle(request->tgid), request->gpu, reference);
	if (object == CORE_NONE)
		return -ENOSPC;
	client = state->object[object].client;
	if (core_memory_begin(state, object, number, request->bytes) == CORE_NONE) {
		core_object_drop(state, object);
		core_client_settle(state, client);
		reference->serial = 0;
		return -ENOSPC;
	}
	core_memory_mark_managed(state, state->object[object].memory);
	settle(state, object);
	if (request->bytes && state->settings.enforce && pages_came_first(core, request->gpu, instance)) {
		core_object_drop(state, object);
		core_client_settle(state, client);
		reference->serial = 0;
		core_stat_short(state, request->gpu, number, CORE_SHORT_LIMIT);
		return -ENOMEM;
	}
	core_stat_taken(state, request->gpu, number, core_instance_has(instance));
	return 0;
}

int cgpu_reference_charge(
	struct cgpu_core *core, const struct cgpu_reference_request *request, struct cgpu_reference *reference)
{
	int err = -ENODEV;

	memset(reference, 0, sizeof(*reference));
	core_lock(core);
	if (core_container(core->state, request->slot, request->generation))
		err = charge(core, request, reference);
	core_unlock(core);
	return err;
}

int cgpu_reference_confirm(struct cgpu_core *core, const struct cgpu_reference *reference)
{
	struct cgpu_state *state = core->state;
	struct core_object *object;
	int err = -ENOENT;

	core_lock(core);
	object = found(state, reference);
	/* The container may have been removed meanwhile. */
	if (object && object->live == CORE_PENDING && state->client[object->client].slot != CORE_NONE) {
		settle(state, reference->object);
		err = 0;
	}
	core_unlock(core);
	return err;
}

int cgpu_reference_recover(struct cgpu_core *core, const struct cgpu_reference *reference, u32 file)
{
	struct cgpu_state *state = core->state;
	const struct core_object *object;
	int err = -ENOENT;

	core_lock(core);
	object = found(state, reference);
	if (object && object->memory != CORE_NONE && state->client[object->client].handle == core_file_pin(file)) {
		/* The call that would confirm the reference is gone. */
		if (object->handle == 0)
			settle(state, reference->object);
		err = 0;
	}
	core_unlock(core);
	return err;
}

int cgpu_reference_file_next(struct cgpu_core *core, u32 *cursor, struct cgpu_reference *reference)
{
	struct cgpu_state *state = core->state;
	int err = -ENOENT;

	core_lock(core);
	for (; err && *cursor < CGPU_MAX_OBJECTS; (*cursor)++) {
		const struct core_object *object = &state->object[*cursor];

		if (object->live != CORE_LIVE || !core_is_file_pin(&state->client[object->client]))
			continue;
		*reference = (struct cgpu_reference){ .object = *cursor, .serial = object->serial };
		err = 0;
	}
	core_unlock(core);
	return err;
}

void cgpu_reference_shrink(struct cgpu_core *core, const struct cgpu_reference *reference, u64 bytes)
{
	struct cgpu_state *state = core->state;
	const struct core_object *object;
	u64 now;

	core_lock(core);
	object = found(state, reference);
	if (object) {
		now = state->memory[object->memory].bytes;
		core_memory_resize(state, object->memory, now > bytes ? now - bytes : 0);
	}
	core_unlock(core);
}

void cgpu_reference_drop(struct cgpu_core *core, const struct cgpu_reference *reference)
{
	struct cgpu_state *state = core->state;
	struct core_object *object;
	u32 client;

	core_lock(core);
	object = found(state, reference);
	if (object) {
		client = object->client;
		core_object_drop(state, reference->object);
		if (state->client[client].objects == 0)
			core_client_drop(state, client);
		else
			core_orphan_settle(state, client);
	} else {
		core_folded_drop(state, reference);
	}
	core_unlock(core);
}

void cgpu_reference_file_ended(struct cgpu_core *core, u32 file)
{
	struct cgpu_state *state = core->state;
	u32 handle = core_file_pin(file), i, next;

	core_lock(core);
	for (i = core_client_of_handle(state, handle); i != CORE_NONE; i = next) {
		next = state->client[i].next;
		if (state->client[i].handle == handle)
			core_client_drop(state, i);
	}
	core_unlock(core);
}
