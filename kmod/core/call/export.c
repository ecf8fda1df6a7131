// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0
/* Exporting memory: the open file becomes one more that holds it. Of a list all objects are exported, or none. */
#include "call/call.h"

/* Memory of the card, or of the host, by what the ledger says. */
static int is_memory(const struct cgpu_state *state, u32 object)
{
	u32 kind = object == CORE_NONE ? 0 : state->object[object].kind;

	return kind == CORE_OBJECT_MEMORY || kind == CORE_OBJECT_HOST;
}

/* Nothing is exported that the ledger does not know as memory of this container. */
static enum cgpu_verdict check(struct core_call_context *context, const struct core_transfer *transfer, u32 client)
{
	const u8 *objects = context->call->segment[0].data + transfer->objects;
	int others;
	u32 i;

	if (client == CORE_NONE)
		return core_answer(context, NV_ERR_INSUFFICIENT_PERMISSIONS);
	/* An export could replace in the driver what another container has exported on this file, and its ledger would not see it. */
	core_exports_find(context->state, context->call->slot, context->call->target, &others);
	if (others)
		return core_answer(context, NV_ERR_INSUFFICIENT_PERMISSIONS);
	for (i = 0; i < transfer->count; i++) {
		u32 handle = get32(objects, i * sizeof(u32));
		u32 object = core_object_find(context->state, client, handle);

		/* In a list, 0 empties a place. */
		if (handle == 0 && transfer->most > 1)
			continue;
		if (!is_memory(context->state, object))
			return core_answer(context, NV_ERR_NOT_SUPPORTED);
	}
	return CGPU_EXECUTE;
}

enum cgpu_verdict core_begin_export(struct core_call_context *context, const struct core_transfer *transfer)
{
	const struct nv_layout_NVOS54_PARAMETERS *at = &context->abi->NVOS54_PARAMETERS;
	const u8 *objects = context->call->segment[0].data + transfer->objects;
	struct cgpu_state *state = context->state;
	struct cgpu_call *call = context->call;
	u32 client = core_client_find(state, call->slot, get32(call->top, at->hClient));
	enum cgpu_verdict verdict = check(context, transfer, client);
	u32 pin, i;

	if (verdict != CGPU_EXECUTE)
		return verdict;
	pin = core_exports_take(state, call->slot, call->target, call->tgid);
	if (pin == CORE_NONE)
		return core_no_records(context);
	call->opaque[CORE_NOTE_UNIT] = 0;
	for (i = 0; i < transfer->count; i++) {
		u32 object = core_object_find(state, client, get32(objects, i * sizeof(u32)));

		if (object != CORE_NONE && core_batch_add(context, pin, object)) {
			core_exports_settle(state, pin);
			return core_no_records(context);
		}
	}
	core_transfer_note(call, transfer);
	call->opaque[CORE_NOTE_HANDLES] = pin;
	return core_execute(context, CORE_OP_EXPORT);
}

/* What is at these places now is what the call has put there, or nothing. */
static void put_in_place(struct core_call_context *context, u32 pin, const struct core_transfer *transfer)
{
	const u8 *objects = context->call->segment[0].data + transfer->objects;
	struct cgpu_state *state = context->state;
	u32 count = (u32)context->call->opaque[CORE_NOTE_UNIT], n = 0, i, at = CORE_NONE;

	for (i = 0; i < transfer->count; i++) {
		u32 place = transfer->index + i + 1, old = core_object_find(state, pin, place);

		if (old != CORE_NONE)
			core_object_drop(state, old);
		if (get32(objects, i * sizeof(u32)) == 0 || n == count)
			continue;
		at = n == 0 || at != CORE_NONE ? core_batch_at(state, context->call, n, at) : CORE_NONE;
		n++;
		if (at != CORE_NONE)
			core_object_confirm(state, at, place, CORE_NONE);
	}
}

/* The record of the file that the call was for, if it is still that. */
static u32 holder_of(const struct core_call_context *context)
{
	u64 pin = context->call->opaque[CORE_NOTE_HANDLES];
	const struct core_client *record;

	if (pin >= CGPU_MAX_CLIENTS)
		return CORE_NONE;
	record = &context->state->client[pin];
	if (record->live != CORE_LIVE || !core_client_exports(record) || record->file != context->call->target)
		return CORE_NONE;
	return (u32)pin;
}

void core_end_export(struct core_call_context *context, int done)
{
	u32 pin = holder_of(context);
	struct core_transfer transfer;

	if (pin == CORE_NONE)
		return;
	if (done && core_transfer_noted(context->abi, context->call, &transfer) == 0) {
		context->state->client[pin].confirmed = 1;
		put_in_place(context, pin, &transfer);
	} else {
		core_batch_drop(context);
	}
	core_exports_settle(context->state, pin);
}
