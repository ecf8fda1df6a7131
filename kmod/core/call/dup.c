// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
/* NV_ESC_RM_DUP_OBJECT: another reference, under the same charge. NV_ESC_RM_SHARE: who may make one. */
#include "call/call.h"

/* Whether a duplicate would lie below an object of its own kind. No record does, or the end of one would have to
 * search for the other; no program asks for it. */
static int is_below_its_like(const struct core_call_context *context, const struct core_handles *handles, u32 kind)
{
	u32 parent = core_own_object(context, handles->client, handles->parent);

	return parent != CORE_NONE && context->state->object[parent].kind >= kind;
}

/* An object without a record costs nothing: memory of the host, for one. But another container that has the same client could
 * put memory under this handle before the driver makes the duplicate, and free it afterwards. So one object of the client
 * keeps the others off until the call has ended. */
static enum cgpu_verdict begin_uncharged(struct core_call_context *context, u32 client)
{
	u32 anchor = core_client_anchor(context->state, client);

	if (anchor == CORE_NONE)
		return core_answer(context, NV_ERR_OBJECT_NOT_FOUND);
	context->call->opaque[CORE_NOTE_OBJECT] = anchor;
	context->call->opaque[CORE_NOTE_SERIAL] = context->state->object[anchor].serial;
	return core_execute(context, CORE_OP_DUP_UNCHARGED);
}

int core_end_dup_uncharged(struct core_call_context *context)
{
	u64 *notes = context->call->opaque;
	const struct core_object *anchor =
		core_object_noted(context->state, notes[CORE_NOTE_OBJECT], notes[CORE_NOTE_SERIAL]);
	struct core_handles handles;

	if (!context->done || anchor || !context->state->settings.enforce)
		return 0;
	core_dup_handles(context, &handles);
	notes[CORE_NOTE_OBJECT] = CORE_NONE;
	notes[CORE_NOTE_DONE] = 1;
	notes[CORE_NOTE_HANDLES] = (u64)handles.client << 32 | handles.object;
	return 1;
}

enum cgpu_verdict core_begin_dup(struct core_call_context *context)
{
	const struct nv_layout_NVOS55_PARAMETERS *at = &context->abi->NVOS55_PARAMETERS;
	struct cgpu_state *state = context->state;
	struct core_handles handles;
	u32 client, source;

	client = core_client_find(state, context->call->slot, get32(context->call->top, at->hClientSrc));
	if (client == CORE_NONE)
		return core_answer(context, NV_ERR_INSUFFICIENT_PERMISSIONS);
	source = core_object_find(state, client, get32(context->call->top, at->hObjectSrc));
	core_dup_handles(context, &handles);
	if (!core_parent_is_known(context, &handles))
		return core_answer(context, NV_ERR_OBJECT_NOT_FOUND);
	if (source == CORE_NONE)
		return begin_uncharged(context, client);
	/* The driver makes one only for the same space of another device (_virtmemCopyConstruct), which no program asks for. */
	if (state->object[source].kind == CORE_OBJECT_VIRTUAL)
		return core_answer(context, NV_ERR_INVALID_DEVICE);
	if (is_below_its_like(context, &handles, state->object[source].kind))
		return core_answer(context, NV_ERR_INVALID_OBJECT_PARENT);
	if (state->object[source].kind == CORE_OBJECT_CHANNEL_GROUP &&
		core_tsg_list_full(state, state->object[source].gpu, context->call->slot))
		return core_answer(context, NV_ERR_INSUFFICIENT_RESOURCES);
	if (core_reserve(context, &handles, state->object[source].kind, state->object[source].gpu))
		return core_no_records(context);
	state->object[context->call->opaque[CORE_NOTE_OBJECT]].runlist = state->object[source].runlist;
	/* From now on, so that the charge stays if the source goes meanwhile. */
	if (state->object[source].memory != CORE_NONE)
		core_memory_share(state, (u32)context->call->opaque[CORE_NOTE_OBJECT], state->object[source].memory);
	return core_execute(context, CORE_OP_DUP);
}

/* A container may let others duplicate its objects: duplicates by another container are judged by the ledger. Only
 * clients that the container has on record may be named: the driver checks the owner neither of the object's client
 * nor of the client that gets the right, which it locks and notes this in (rs_server.c,
 * _serverShareResourceAccessClient); and a new right replaces those of others. */
enum cgpu_verdict core_begin_share(struct core_call_context *context)
{
	const struct nv_layout_NVOS57_PARAMETERS *at = &context->abi->NVOS57_PARAMETERS;
	const u8 *top = context->call->top;

	if (!core_is_own_client(context, get32(top, at->hClient)))
		return core_answer(context, NV_ERR_INSUFFICIENT_PERMISSIONS);
	if (get16(top, at->sharePolicy_type) == RS_SHARE_TYPE_CLIENT &&
		!core_is_own_client(context, get32(top, at->sharePolicy_target)))
		return core_answer(context, NV_ERR_INSUFFICIENT_PERMISSIONS);
	return core_execute(context, CORE_OP_PLAIN);
}
