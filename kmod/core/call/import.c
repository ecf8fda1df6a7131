// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0
/*
 * Importing memory: one more reference, under the charge that it has. Only what this container has exported: else it
 * would hold what is charged to others, or to nobody.
 */
#include "call/call.h"

/* What this container has exported at these places of the file; others are refused. */
static int all_known(const struct core_call_context *context, const struct core_transfer *transfer, u32 pin)
{
	u32 i;

	for (i = 0; i < transfer->count; i++) {
		if (core_object_find(context->state, pin, transfer->index + i + 1) == CORE_NONE)
			return 0;
	}
	return 1;
}

enum cgpu_verdict core_begin_import(struct core_call_context *context, const struct core_transfer *transfer)
{
	const struct nv_layout_NVOS54_PARAMETERS *at = &context->abi->NVOS54_PARAMETERS;
	struct cgpu_state *state = context->state;
	struct cgpu_call *call = context->call;
	u32 handle = get32(call->top, at->hClient), client, pin, i;
	int others;

	pin = core_exports_find(state, call->slot, call->target, &others);
	if (others || !all_known(context, transfer, pin))
		return core_answer(context, NV_ERR_INSUFFICIENT_PERMISSIONS);
	if (transfer->count == 0)
		return core_execute(context, CORE_OP_PLAIN);
	client = core_client_take(state, call->slot, handle, call->tgid);
	if (client == CORE_NONE)
		return core_no_records(context);
	call->opaque[CORE_NOTE_UNIT] = 0;
	for (i = 0; i < transfer->count; i++) {
		if (core_batch_add(context, client, core_object_find(state, pin, transfer->index + i + 1))) {
			core_client_settle(state, client);
			return core_no_records(context);
		}
	}
	core_transfer_note(call, transfer);
	call->opaque[CORE_NOTE_HANDLES] = (u64)handle << 32;
	return core_execute(context, CORE_OP_IMPORT);
}

/* The driver has given them these handles. */
static void confirm_all(struct core_call_context *context, const struct core_transfer *transfer, u32 client)
{
	const u8 *params = context->call->segment[0].data;
	struct cgpu_state *state = context->state;
	u32 count = (u32)context->call->opaque[CORE_NOTE_UNIT], i, next;
	u32 at = core_batch_at(state, context->call, 0, CORE_NONE);

	for (i = 0; i < count && at != CORE_NONE; i++, at = next) {
		u32 handle = get32(params, transfer->objects + i * sizeof(u32));
		u32 parent;

		next = i + 1 < count ? core_batch_at(state, context->call, i + 1, at) : CORE_NONE;
		core_replace_stale(context, client, handle);
		parent = core_object_find(state, client, get32(params, transfer->parent));
		if (parent != CORE_NONE && state->object[parent].kind >= CORE_OBJECT_MEMORY)
			parent = CORE_NONE;
		core_object_confirm(state, at, handle, parent);
	}
}

/* The client that they were to be in, if neither it nor its container went while the driver worked. */
static u32 client_of(const struct core_call_context *context)
{
	u32 first = core_batch_at(context->state, context->call, 0, CORE_NONE);

	if (first == CORE_NONE || context->container == NULL)
		return CORE_NONE;
	return context->state->object[first].client;
}

int core_end_import(struct core_call_context *context, int done)
{
	u32 client = client_of(context), other;
	struct core_transfer transfer;

	if (!done) {
		core_batch_drop(context);
		if (client != CORE_NONE)
			core_client_settle(context->state, client);
		return 0;
	}
	context->call->opaque[CORE_NOTE_DONE] = CORE_DONE_LIST;
	if (client == CORE_NONE || core_transfer_noted(context->abi, context->call, &transfer))
		return 1;
	other = (u32)core_client_done(context, client);
	confirm_all(context, &transfer, client);
	return (int)other;
}

u32 core_import_undo(const struct nv_abi *abi, struct cgpu_call *call)
{
	u64 *at = &call->opaque[CORE_NOTE_DONE];
	struct core_transfer transfer;
	u32 handle = 0;

	if (core_transfer_noted(abi, call, &transfer))
		return 0;
	while (handle == 0 && *at - CORE_DONE_LIST < transfer.count)
		handle = get32(call->segment[0].data, transfer.objects + (u32)((*at)++ - CORE_DONE_LIST) * sizeof(u32));
	return handle;
}
