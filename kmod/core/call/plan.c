// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
/*
 * Plans name the buffers that a call's pointers lead to, and the file of a descriptor in them, before the call is judged. The call
 * alone decides that, and no record of the ledger: a plan needs no lock, and stays right while the transport fetches. A call
 * is judged only if it has exactly what its plan names, so that the driver follows no pointer of the caller's.
 */
#include "call/call.h"

#define TOO_MANY (CGPU_MAX_SEGMENTS + 1u)

/* The copy of a planned buffer. NULL: the transport has not fetched it. */
static const u8 *copy_of(const struct core_call_context *context, u32 index)
{
	const struct core_buffer *buffer = &context->plan->buffer[index];
	const struct cgpu_segment *segment = &context->call->segment[index];

	if (index >= context->call->segments || segment->parent != buffer->parent ||
		segment->pointer != buffer->pointer || segment->bytes != buffer->bytes)
		return NULL;
	return segment->data;
}

const u8 *core_plan_buffer(struct core_call_context *context, u32 parent, u32 pointer, u32 bytes)
{
	struct core_plan *plan = context->plan;

	if (plan->buffers >= CGPU_MAX_SEGMENTS || bytes > CGPU_SEGMENT_MAX) {
		plan->buffers = TOO_MANY;
		return NULL;
	}
	plan->buffer[plan->buffers] = (struct core_buffer){ parent, pointer, bytes };
	return copy_of(context, plan->buffers++);
}

int core_plan_is_met(const struct core_call_context *context)
{
	const struct core_plan *plan = context->plan;
	const struct cgpu_call *call = context->call;
	u32 i;

	if (call->segments != plan->buffers || plan->buffers > CGPU_MAX_SEGMENTS)
		return 0;
	for (i = 0; i < plan->buffers; i++) {
		if (copy_of(context, i) == NULL)
			return 0;
	}
	return !plan->names_file || (call->found && call->descriptor == plan->descriptor);
}

u32 core_params_status(const struct core_call_context *context)
{
	const struct nv_layout_NVOS54_PARAMETERS *at = &context->abi->NVOS54_PARAMETERS;
	u32 bytes = core_abi_at(context->abi, context->plan->control->bytes);
	const u8 *top = context->call->top;

	/* The driver has no such control. */
	if (bytes == 0)
		return NV_ERR_NOT_SUPPORTED;
	if (get32(top, at->flags) & NVOS54_FLAGS_FINN_SERIALIZED)
		return NV_ERR_NOT_SUPPORTED;
	if (get32(top, at->paramsSize) != bytes)
		return NV_ERR_INVALID_PARAM_STRUCT;
	return get64(top, at->params) == 0 ? NV_ERR_INVALID_ARGUMENT : NV_OK;
}

const u8 *core_plan_params(struct core_call_context *context)
{
	if (core_params_status(context) != NV_OK)
		return NULL;
	context->plan->may_run = 1;
	return core_plan_buffer(context, 0, context->abi->NVOS54_PARAMETERS.params,
		core_abi_at(context->abi, context->plan->control->bytes));
}

const u8 *core_alloc_judged_params(const struct core_call_context *context)
{
	const struct cgpu_segment *params = &context->call->segment[0];

	/* Without parameters a first segment has the rights that are asked for. */
	if (context->call->nr != NV_ESC_RM_ALLOC || context->call->segments == 0 ||
		params->pointer != context->abi->NVOS64_PARAMETERS.pAllocParms)
		return NULL;
	return params->data;
}
