// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0
/*
 * A call that allocates is charged before it runs, by a pending record, so that two calls at once cannot
 * both take the last of a slice, and so that a record for it surely exists when the driver has done it.
 */
#include "call.h"

u32 core_parent_find(struct core_frame *frame, const struct core_handles *handles)
{
	u32 client = core_client_find(frame->state, frame->call->slot, handles->client);
	u32 parent = core_object_find(frame->state, client, handles->parent);

	if (parent != CORE_NONE && frame->state->object[parent].kind > CORE_OBJECT_SUBDEVICE)
		return CORE_NONE;
	return parent;
}

int core_reserve(struct core_frame *frame, const struct core_handles *handles, u32 kind, u32 gpu)
{
	struct cgpu_call *call = frame->call;
	u32 client = core_client_take(frame->state, call->slot, handles->client, call->tgid);
	u32 object;

	if (client == CORE_NONE)
		return -ENOSPC;
	object = core_object_begin(frame->state, client, kind, gpu);
	if (object == CORE_NONE) {
		core_client_settle(frame->state, client);
		return -ENOSPC;
	}
	call->opaque[CORE_NOTE_OBJECT] = object;
	call->opaque[CORE_NOTE_SERIAL] = frame->state->object[object].serial;
	call->opaque[CORE_NOTE_GPU] = gpu;
	return 0;
}

/* The pending record of this call, if nothing has swept it away. */
static u32 reserved(struct core_frame *frame)
{
	u64 object = frame->call->opaque[CORE_NOTE_OBJECT];
	const struct core_object *record;

	if (object >= CGPU_MAX_OBJECTS)
		return CORE_NONE;
	record = &frame->state->object[object];
	/* Recovery makes a pending record a live one without a handle: its call can still be settled. */
	if (record->live != CORE_PENDING && (record->live != CORE_LIVE || record->handle != 0))
		return CORE_NONE;
	if (record->serial != frame->call->opaque[CORE_NOTE_SERIAL])
		return CORE_NONE;
	/* Its container has been removed since. */
	if (frame->state->client[record->client].slot == CORE_NONE)
		return CORE_NONE;
	return (u32)object;
}

enum cgpu_verdict core_leave_to_driver(struct core_frame *frame, u32 parent)
{
	u32 gpu = frame->state->object[parent].gpu;

	if (core_drift_refuses(frame->state, gpu) && !core_is_native(frame->state, gpu, frame->call->slot))
		return core_answer(frame, NV_ERR_NO_MEMORY);
	return CGPU_CONTINUE;
}

/* An object with a charge. Of memory there is one even for nothing, as its size is settled by the driver's answer. */
static enum cgpu_verdict reserve_charged(
	struct core_frame *frame, const struct core_handles *handles, u32 parent, u32 kind, u64 need)
{
	u32 gpu = frame->state->object[parent].gpu;
	int native = core_is_native(frame->state, gpu, frame->call->slot);
	struct core_instance *instance;
	u32 number = CORE_NATIVE;

	instance = core_instance_of(frame->state, gpu, frame->call->slot, native ? NULL : &number);
	if (instance == NULL && !native)
		return core_answer(frame, NV_ERR_INSUFFICIENT_PERMISSIONS);
	if (instance && core_drift_refuses(frame->state, gpu))
		return core_answer(frame, NV_ERR_NO_MEMORY);
	if (instance && need > core_memory_room(instance) && frame->state->settings.enforce) {
		frame->call->no_room = CGPU_NO_ROOM_LEFT;
		return core_answer(frame, NV_ERR_NO_MEMORY);
	}
	if (core_reserve(frame, handles, kind, gpu))
		return core_no_records(frame);
	if (need == 0 && kind != CORE_OBJECT_MEMORY)
		return CGPU_EXECUTE;
	if (core_memory_begin(frame->state, reserved(frame), number, need) == CORE_NONE) {
		core_settle_failed(frame);
		return core_no_records(frame);
	}
	return CGPU_EXECUTE;
}

enum cgpu_verdict core_reserve_memory(
	struct core_frame *frame, const struct core_handles *handles, u32 parent, const struct core_alloc_shape *shape)
{
	u64 unit = core_charge_unit(shape);

	if (unit == 0)
		return core_answer(frame, NV_ERR_INVALID_ARGUMENT);
	frame->call->opaque[CORE_NOTE_UNIT] = unit;
	return reserve_charged(frame, handles, parent, CORE_OBJECT_MEMORY, core_round_up(shape->size, unit));
}

enum cgpu_verdict core_reserve_context(
	struct core_frame *frame, const struct core_handles *handles, u32 parent, u32 kind, u32 engine)
{
	/* Limits of the driver's own leave contexts out (615.71.09, video_mem.c alone charges), and its count is the slice's. */
	int estimated = core_runlist_of(engine) == 0 && !core_driver_limits(frame);
	enum cgpu_verdict verdict;

	verdict = reserve_charged(frame, handles, parent, kind, estimated ? frame->state->settings.context_memory : 0);
	if (verdict == CGPU_EXECUTE)
		frame->state->object[reserved(frame)].runlist = core_runlist_of(engine);
	return verdict;
}

void core_settle_failed(struct core_frame *frame)
{
	u32 object = reserved(frame);
	u32 client;

	if (object == CORE_NONE)
		return;
	client = frame->state->object[object].client;
	core_object_drop(frame->state, object);
	core_client_settle(frame->state, client);
}

void core_replace_stale(struct core_frame *frame, u32 client, u32 handle)
{
	struct cgpu_state *state = frame->state;
	u32 stale = core_object_find(state, client, handle);
	int other = state->client[client].tgid != frame->call->tgid;

	if (stale == CORE_NONE)
		return;
	/* A new process was given the client handle of one that has ended. */
	if (other && state->object[stale].kind == CORE_OBJECT_DEVICE)
		core_client_adopt(state, client, frame->call->tgid);
	core_object_drop(state, stale);
}

int core_client_done(struct core_frame *frame, u32 client)
{
	struct cgpu_state *state = frame->state;
	u64 file = frame->call->file;

	if (core_client_claimed(state, frame->call->slot, state->client[client].handle) != CORE_NONE &&
		state->settings.enforce)
		return 1;
	state->client[client].confirmed = 1;
	/* Where it was another file, the handle has been given out anew. What the client before it held is dropped when
	 * the driver gives out its handles again, or with the new file: never because of a mere number. */
	if (file)
		core_client_on_file(state, client, file);
	state->client[client].settled = ++state->serial;
	return 0;
}

/* Charge what the driver really took. 1 when that is more than there was room for. */
static int settle_size(struct core_frame *frame, u32 object, const struct core_alloc_shape *shape)
{
	u32 explicit = (shape->attr >> NVOS32_ATTR_PAGE_SIZE_SHIFT) & NVOS32_ATTR_PAGE_SIZE_MASK;
	u64 unit = explicit ? core_charge_unit(shape) : frame->call->opaque[CORE_NOTE_UNIT];
	struct core_memory *memory = &frame->state->memory[frame->state->object[object].memory];
	u64 before = memory->bytes;
	const struct core_instance *instance;

	if (unit == 0)
		unit = frame->call->opaque[CORE_NOTE_UNIT];
	core_memory_resize(frame->state, frame->state->object[object].memory, core_round_up(shape->size, unit));
	if (!frame->state->settings.enforce || memory->instance == CORE_NATIVE)
		return 0;
	instance = &frame->state->gpu[memory->gpu].instance[memory->instance];
	return memory->bytes > before && instance->used > instance->memsize;
}

int core_settle_done(struct core_frame *frame, const struct core_handles *handles, const struct core_alloc_shape *shape)
{
	struct cgpu_call *call = frame->call;
	u32 object = reserved(frame);
	u32 client, parent;
	int claimed;

	call->opaque[CORE_NOTE_DONE] = 1;
	call->opaque[CORE_NOTE_HANDLES] = (u64)handles->client << 32 | handles->object;
	/* The container, or the client, went while the driver worked: nobody is left to charge. */
	if (object == CORE_NONE)
		return 1;
	client = frame->state->object[object].client;
	call->opaque[CORE_NOTE_HANDLES] = (u64)frame->state->client[client].handle << 32 | handles->object;
	claimed = core_client_done(frame, client);
	core_replace_stale(frame, client, handles->object);
	parent = core_object_find(frame->state, client, handles->parent);
	parent = core_space_of(frame, object, parent);
	if (parent != CORE_NONE && frame->state->object[parent].kind >= frame->state->object[object].kind)
		parent = CORE_NONE;
	core_object_confirm(frame->state, object, handles->object, parent);
	if (frame->state->object[object].lane != CORE_NONE)
		call->turn = frame->state->object[object].gpu + 1;
	/* Another container's first call on this client came to its end while this one was under way. */
	if (claimed)
		return 1;
	return shape ? settle_size(frame, object, shape) : 0;
}
