// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
/*
 * VA spaces. The driver frees channel groups, channels and reservations of addresses with the VA space that they were made
 * for (kernel_channel_group_api.c, virtual_mem.c: refAddDependant), so each space has a record from its allocation on.
 */
#include "call/call.h"

u32 core_device_of(const struct cgpu_state *state, u32 object)
{
	u32 at = object;

	while (at != CORE_NONE && state->object[at].kind != CORE_OBJECT_DEVICE)
		at = state->object[at].parent;
	return at;
}

enum cgpu_verdict core_begin_alloc_space(struct core_call_context *context, const struct core_alloc *alloc)
{
	const struct nv_layout_NV_VASPACE_ALLOCATION_PARAMETERS *at = &context->abi->NV_VASPACE_ALLOCATION_PARAMETERS;
	u32 parent = core_parent_find(context, &alloc->handles);
	u32 flags;

	if (parent == CORE_NONE)
		return core_answer(context, NV_ERR_INVALID_OBJECT_PARENT);
	if (alloc->params == NULL)
		return core_answer(context, NV_ERR_INVALID_PARAM_STRUCT);
	flags = get32(alloc->params, at->flags);
	return core_reserve_space(
		context, &alloc->handles, parent, (flags & NV_VASPACE_ALLOCATION_FLAGS_IS_EXTERNALLY_OWNED) != 0);
}

u32 core_space_find(struct core_call_context *context, u32 parent, u32 named, enum cgpu_verdict *verdict)
{
	struct cgpu_state *state = context->state;
	u32 device = core_device_of(state, parent), space;

	*verdict = core_answer(context, NV_ERR_INVALID_OBJECT_PARENT);
	if (named == 0 || device == CORE_NONE)
		return device;
	space = core_object_find(state, state->object[parent].client, named);
	if (space == CORE_NONE)
		*verdict = core_answer(context, NV_ERR_OBJECT_NOT_FOUND);
	else if (state->object[space].kind != CORE_OBJECT_VA_SPACE)
		*verdict = core_answer(context, NV_ERR_INVALID_OBJECT_HANDLE);
	else if (core_device_of(state, space) != device)
		/* The driver asserts that the space is one of the card. Objects made for it would have two ends. */
		*verdict = core_answer(context, NV_ERR_INVALID_DEVICE);
	else
		return space;
	return CORE_NONE;
}
