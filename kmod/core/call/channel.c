// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0
/*
 * Channel groups and channels. With a group of the graphics engine the driver sets memory of the card aside for the buffers
 * of a context (kernel_channel_group_api.c, ctxBufPoolReserve), and tells it of no process. For a channel outside of any
 * group it makes one (kernel_channel.c).
 */
#include "call/call.h"

static enum cgpu_verdict group_or_channel(
	struct core_call_context *context, const struct core_alloc *alloc, u32 kind, u32 bytes, u32 engine_at)
{
	u32 parent = core_parent_find(context, &alloc->handles);
	enum cgpu_verdict verdict;
	int more;

	if (parent == CORE_NONE)
		return core_answer(context, NV_ERR_INVALID_OBJECT_PARENT);
	if (get64(context->call->top, alloc->params_at) == 0)
		return core_answer(context, NV_ERR_INVALID_PARAM_STRUCT);
	if (kind == CORE_OBJECT_CHANNEL_GROUP &&
		core_tsg_list_full(context->state, context->state->object[parent].gpu, context->call->slot))
		return core_answer(context, NV_ERR_INSUFFICIENT_RESOURCES);
	more = core_alloc_copy_in(context, alloc, bytes);
	if (more)
		return core_alloc_copy_in_verdict(context, more);
	verdict = core_reserve_context(
		context, &alloc->handles, parent, kind, get32(context->call->segment[0].data, engine_at));
	return verdict == CGPU_EXECUTE ? core_execute(context, CORE_OP_ALLOC) : verdict;
}

enum cgpu_verdict core_begin_group(struct core_call_context *context, const struct core_alloc *alloc)
{
	const struct nv_layout_NV_CHANNEL_GROUP_ALLOCATION_PARAMETERS *at =
		&context->abi->NV_CHANNEL_GROUP_ALLOCATION_PARAMETERS;

	return group_or_channel(context, alloc, CORE_OBJECT_CHANNEL_GROUP, at->bytes, at->engineType);
}

/* A channel in a group shares the group's context. It has a record so that it can be disabled. */
static enum cgpu_verdict channel_of_group(
	struct core_call_context *context, const struct core_alloc *alloc, u32 group, u32 params_bytes)
{
	int more = core_alloc_copy_in(context, alloc, params_bytes);

	if (more)
		return core_alloc_copy_in_verdict(context, more);
	if (core_reserve(context, &alloc->handles, CORE_OBJECT_CHANNEL, context->state->object[group].gpu))
		return core_no_records(context);
	/* Before Ampere a group may run elsewhere than it says. */
	if (alloc->class < AMPERE_CHANNEL_GPFIFO_A)
		context->state->object[group].runlist = 0;
	context->state->object[context->call->opaque[CORE_NOTE_OBJECT]].runlist = context->state->object[group].runlist;
	return core_execute(context, CORE_OP_ALLOC);
}

enum cgpu_verdict core_begin_channel(struct core_call_context *context, const struct core_alloc *alloc)
{
	const struct nv_layout_NV_CHANNELGPFIFO_ALLOCATION_PARAMETERS *at =
		&context->abi->NV_CHANNELGPFIFO_ALLOCATION_PARAMETERS;
	u32 client = core_client_find(context->state, context->call->slot, alloc->handles.client);
	u32 parent = core_object_find(context->state, client, alloc->handles.parent);

	if (parent != CORE_NONE && context->state->object[parent].kind == CORE_OBJECT_CHANNEL_GROUP)
		return channel_of_group(context, alloc, parent, at->bytes);
	return group_or_channel(context, alloc, CORE_OBJECT_CHANNEL, at->bytes, at->engineType);
}
