// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
/*
 * A call that allocates is charged before it runs, by a pending record, so that two calls at once cannot
 * both take the last of a slice, and so that a record for it surely exists when the driver has done it.
 */
#include "call/call.h"
#include "ledger/tables.h"

u32 core_parent_find(struct core_call_context *context, const struct core_handles *handles)
{
	u32 parent = core_own_object(context, handles->client, handles->parent);

	if (parent != CORE_NONE && context->state->object[parent].kind > CORE_OBJECT_SUBDEVICE)
		return CORE_NONE;
	return parent;
}

int core_reserve(struct core_call_context *context, const struct core_handles *handles, u32 kind, u32 gpu)
{
	struct cgpu_call *call = context->call;
	u32 client = core_client_take(context->state, call->slot, handles->client, call->tgid);
	u32 object;

	if (client == CORE_NONE)
		return -ENOSPC;
	object = core_object_begin(context->state, client, kind, gpu);
	if (object == CORE_NONE) {
		core_client_settle(context->state, client);
		return -ENOSPC;
	}
	call->opaque[CORE_NOTE_OBJECT] = object;
	call->opaque[CORE_NOTE_SERIAL] = context->state->object[object].serial;
	call->opaque[CORE_NOTE_GPU] = gpu;
	return 0;
}

u32 core_pending(struct core_call_context *context)
{
	const u64 *notes = context->call->opaque;
	const struct core_object *record =
		core_object_noted(context->state, notes[CORE_NOTE_OBJECT], notes[CORE_NOTE_SERIAL]);

	if (record == NULL || !core_object_under_way(record))
		return CORE_NONE;
	/* Its container has been removed since. */
	if (context->state->client[record->client].slot == CORE_NONE)
		return CORE_NONE;
	return (u32)notes[CORE_NOTE_OBJECT];
}

enum cgpu_verdict core_refuse_room(struct core_call_context *context, u32 gpu, u32 number)
{
	context->call->no_room = CGPU_NO_ROOM_LEFT;
	return core_short_of(context, gpu, number, CORE_SHORT_LIMIT);
}

enum cgpu_verdict core_check_room(struct core_call_context *context, u32 gpu, int takes, u64 need, u32 *number)
{
	struct cgpu_state *state = context->state;
	struct core_instance *instance = core_instance_of(state, gpu, context->call->slot, number);

	if (instance == NULL) {
		*number = CORE_PASSTHROUGH;
		return core_is_passthrough(state, gpu, context->call->slot) ?
			CGPU_EXECUTE :
			core_answer(context, NV_ERR_INSUFFICIENT_PERMISSIONS);
	}
	core_pages_look_at(context->core, gpu, instance);
	if (takes && core_unaccounted_refuses(state, gpu))
		return core_short_of(context, gpu, *number, CORE_SHORT_UNACCOUNTED);
	if (need <= core_memory_room(instance) || !state->settings.enforce)
		return CGPU_EXECUTE;
	return core_refuse_room(context, gpu, *number);
}

/*
 * Reserve an object with a charge. Memory has one even for 0 bytes, as the driver's answer settles its size; a group or
 * channel has one for its numbers. A VA space whose tables are not the driver's has none.
 */
static enum cgpu_verdict reserve_charged(struct core_call_context *context, const struct core_handles *handles,
	u32 parent, u32 kind, u64 need, enum core_op op)
{
	const struct core_object *above = &context->state->object[parent];
	u32 gpu = above->gpu, number;
	/* A channel takes nothing beside its group's context. */
	enum cgpu_verdict verdict =
		core_check_room(context, gpu, above->kind != CORE_OBJECT_CHANNEL_GROUP, need, &number);

	if (verdict != CGPU_EXECUTE)
		return verdict;
	if (core_reserve(context, handles, kind, gpu))
		return core_no_records(context);
	if (need == 0 && kind == CORE_OBJECT_VA_SPACE)
		return core_execute(context, op);
	if (core_memory_begin(context->state, core_pending(context), number, need) == CORE_NONE) {
		core_settle_failed(context);
		return core_no_records(context);
	}
	return core_execute(context, op);
}

/* The driver has no number left for another group or channel. */
static enum cgpu_verdict no_ids(struct core_call_context *context)
{
	context->call->no_room = CGPU_NO_ROOM_LEFT;
	return core_answer(context, NV_ERR_NO_FREE_FIFOS);
}

enum cgpu_verdict core_reserve_memory(struct core_call_context *context, const struct core_handles *handles, u32 parent,
	const struct core_alloc_shape *shape, enum core_op op)
{
	u64 unit = core_charge_unit(shape);

	if (unit == 0)
		return core_answer(context, NV_ERR_INVALID_ARGUMENT);
	context->call->opaque[CORE_NOTE_UNIT] = unit;
	return reserve_charged(context, handles, parent, CORE_OBJECT_MEMORY, core_round_up(shape->size, unit), op);
}

enum cgpu_verdict core_reserve_space(
	struct core_call_context *context, const struct core_handles *handles, u32 parent, int external)
{
	u64 need = core_tables_peak(context->state, CORE_NONE, 0);

	if (!external)
		return reserve_charged(context, handles, parent, CORE_OBJECT_VA_SPACE, need, CORE_OP_ALLOC);
	/* Its record goes without one of memory: see core_tables_external(). */
	if (core_reserve(context, handles, CORE_OBJECT_VA_SPACE, context->state->object[parent].gpu))
		return core_no_records(context);
	return core_execute(context, CORE_OP_ALLOC);
}

enum cgpu_verdict core_reserve_context(
	struct core_call_context *context, const struct core_handles *handles, u32 parent, u32 kind, u32 engine)
{
	/* Where pages are counted, those of the context are among them. */
	int estimated = core_runlist_of(engine) == 0 && !core_pages_counted(context->core);
	u64 need = estimated ? context->state->settings.context_memory : 0;
	u32 channel_ids = kind == CORE_OBJECT_CHANNEL;
	enum cgpu_verdict verdict;

	if (!core_tsg_ids_left(context->state, context->state->object[parent].gpu, context->call->slot, 1, channel_ids))
		return no_ids(context);
	verdict = reserve_charged(context, handles, parent, kind, need, CORE_OP_ALLOC);
	if (verdict != CGPU_EXECUTE)
		return verdict;
	context->state->object[core_pending(context)].runlist = core_runlist_of(engine);
	core_memory_number(context->state, core_pending(context), 1, channel_ids);
	return verdict;
}

enum cgpu_verdict core_reserve_channel(struct core_call_context *context, const struct core_handles *handles, u32 group)
{
	struct cgpu_state *state = context->state;
	enum cgpu_verdict verdict;

	if (!core_tsg_ids_left(state, state->object[group].gpu, context->call->slot, 0, 1))
		return no_ids(context);
	verdict = reserve_charged(context, handles, group, CORE_OBJECT_CHANNEL, 0, CORE_OP_ALLOC);
	if (verdict == CGPU_EXECUTE)
		core_memory_number(state, core_pending(context), 0, 1);
	return verdict;
}

/* The memory that a pending record is charged with, if that is an instance's. */
static const struct core_memory *charged_by(const struct core_call_context *context, u32 object)
{
	const struct core_object *record = &context->state->object[object];
	const struct core_memory *memory;

	if (record->memory == CORE_NONE)
		return NULL;
	memory = &context->state->memory[record->memory];
	return memory->instance < CGPU_MAX_INST ? memory : NULL;
}

void core_note_card_short(struct core_call_context *context)
{
	u32 object = core_pending(context);
	const struct core_memory *memory = object == CORE_NONE ? NULL : charged_by(context, object);

	if (memory && context->result == 0 && get32(context->call->top, context->status_at) == NV_ERR_NO_MEMORY)
		core_stat_short(context->state, memory->gpu, memory->instance, CORE_SHORT_CARD);
}

void core_settle_failed(struct core_call_context *context)
{
	u32 object = core_pending(context);
	u32 client;

	if (object == CORE_NONE)
		return;
	client = context->state->object[object].client;
	core_object_drop(context->state, object);
	core_client_settle(context->state, client);
}

void core_replace_stale(struct core_call_context *context, u32 client, u32 handle)
{
	struct cgpu_state *state = context->state;
	u32 stale = core_object_find(state, client, handle);
	int other = state->client[client].tgid != context->call->tgid;

	if (stale == CORE_NONE)
		return;
	/* A new process was given the client handle of one that has ended. */
	if (other && state->object[stale].kind == CORE_OBJECT_DEVICE)
		core_client_adopt(state, client, context->call->tgid);
	core_object_drop(state, stale);
}

int core_client_done(struct core_call_context *context, u32 client)
{
	struct cgpu_state *state = context->state;
	u64 file = context->call->file;

	if (core_client_of_other(state, context->call->slot, state->client[client].handle) != CORE_NONE &&
		state->settings.enforce)
		return 1;
	state->client[client].confirmed = 1;
	/* On another file the handle has been given out anew. The objects of the client before it are dropped when
	 * the driver gives out their handles again, or with the new file: never because of a mere number. */
	if (file)
		core_client_on_file(state, client, file);
	state->client[client].settled = ++state->serial;
	return 0;
}

/* Count a charge for the instance's peak, now that the driver has given the memory. */
static void note_taken(struct core_call_context *context, u32 object)
{
	const struct core_memory *memory = charged_by(context, object);
	struct core_instance *instance;

	if (memory == NULL)
		return;
	instance = &context->state->gpu[memory->gpu].instance[memory->instance];
	core_pages_look_at(context->core, memory->gpu, instance);
	core_stat_taken(context->state, memory->gpu, memory->instance, core_instance_has(instance));
}

/* Charge what the driver really took. 1 when that is more than there was room for. */
static int settle_size(struct core_call_context *context, u32 object, const struct core_alloc_shape *shape)
{
	u32 explicit = (shape->attr >> NVOS32_ATTR_PAGE_SIZE_SHIFT) & NVOS32_ATTR_PAGE_SIZE_MASK;
	u64 unit = explicit ? core_charge_unit(shape) : context->call->opaque[CORE_NOTE_UNIT];
	struct core_memory *memory = &context->state->memory[context->state->object[object].memory];
	u64 before = memory->bytes;
	struct core_instance *instance;

	if (unit == 0)
		unit = context->call->opaque[CORE_NOTE_UNIT];
	core_memory_resize(context->state, context->state->object[object].memory, core_round_up(shape->size, unit));
	if (!context->state->settings.enforce || memory->instance == CORE_PASSTHROUGH)
		return 0;
	instance = &context->state->gpu[memory->gpu].instance[memory->instance];
	core_pages_look_at(context->core, memory->gpu, instance);
	if (memory->bytes <= before || core_instance_has(instance) <= instance->slice.memsize)
		return 0;
	core_stat_short(context->state, memory->gpu, memory->instance, CORE_SHORT_LIMIT);
	return 1;
}

/* Where the judged parameters of a class name a VA space; NV_ABI_ABSENT: nowhere. */
static u32 space_at(const struct core_call_context *context, u32 kind)
{
	const struct nv_abi *abi = context->abi;

	switch (kind) {
	case CORE_OBJECT_CHANNEL_GROUP:
		return abi->NV_CHANNEL_GROUP_ALLOCATION_PARAMETERS.hVASpace;
	case CORE_OBJECT_CHANNEL:
		return abi->NV_CHANNELGPFIFO_ALLOCATION_PARAMETERS.hVASpace;
	case CORE_OBJECT_VIRTUAL:
		return get32(context->call->top, abi->NVOS21_PARAMETERS.hClass) == NV01_MEMORY_VIRTUAL ?
			abi->NV_MEMORY_VIRTUAL_ALLOCATION_PARAMS.hVASpace :
			abi->NV_MEMORY_ALLOCATION_PARAMS.hVASpace;
	default:
		return NV_ABI_ABSENT;
	}
}

/* The VA space that the call names; 0: that of the device. */
static u32 named_va_space(const struct core_call_context *context, u32 kind)
{
	const u8 *params = core_alloc_judged_params(context);
	u32 at;

	if (context->call->nr == NV_ESC_RM_VID_HEAP_CONTROL && kind == CORE_OBJECT_VIRTUAL)
		return get32(context->call->top, context->abi->NVOS32_PARAMETERS.hVASpace);
	at = params ? space_at(context, kind) : NV_ABI_ABSENT;
	return at == NV_ABI_ABSENT ? 0 : get32(params, at);
}

/* The record that an object ends with, as it is now. The call may have named another one when it began. */
static u32 parent_of(const struct core_call_context *context, u32 object, u32 handle)
{
	struct cgpu_state *state = context->state;
	u32 client = state->object[object].client, kind = state->object[object].kind;
	u32 parent = core_object_find(state, client, handle);
	u32 space = core_object_find(state, client, named_va_space(context, kind));

	/* A channel in a group uses the group's. */
	if (space != CORE_NONE && state->object[space].kind == CORE_OBJECT_VA_SPACE && parent != CORE_NONE &&
		state->object[parent].kind <= CORE_OBJECT_SUBDEVICE)
		parent = space;
	return parent != CORE_NONE && state->object[parent].kind < kind ? parent : CORE_NONE;
}

int core_settle_done(
	struct core_call_context *context, const struct core_handles *handles, const struct core_alloc_shape *shape)
{
	struct cgpu_call *call = context->call;
	u32 object = core_pending(context);
	u32 client, parent;
	int other;

	call->opaque[CORE_NOTE_DONE] = 1;
	call->opaque[CORE_NOTE_HANDLES] = (u64)handles->client << 32 | handles->object;
	/* The container, or the client, went while the driver worked: nobody is left to charge. */
	if (object == CORE_NONE)
		return 1;
	client = context->state->object[object].client;
	call->opaque[CORE_NOTE_HANDLES] = (u64)context->state->client[client].handle << 32 | handles->object;
	other = core_client_done(context, client);
	core_replace_stale(context, client, handles->object);
	parent = parent_of(context, object, handles->parent);
	core_object_confirm(context->state, object, handles->object, parent);
	if (context->state->object[object].tsg_list != CORE_NONE)
		call->round = context->state->object[object].gpu + 1;
	/* Another container's first call on this client came to its end while this one was under way. */
	if (other || (shape && settle_size(context, object, shape)))
		return 1;
	note_taken(context, object);
	return 0;
}
