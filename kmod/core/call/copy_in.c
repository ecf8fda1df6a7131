// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0
/* Asking the transport for the buffers that a call points to: one after the other, each of a known size. */
#include "call/call.h"

int core_segment(struct core_call_context *context, u32 index, u32 parent, u32 pointer, u32 bytes)
{
	struct cgpu_call *call = context->call;
	const u8 *pin = parent ? call->segment[parent - 1].data : call->top;
	struct cgpu_segment *segment = &call->segment[index];

	if (index < call->segments) {
		if (segment->data == NULL || segment->bytes != bytes || segment->parent != parent)
			return -EINVAL;
		return segment->pointer == pointer ? 0 : -EINVAL;
	}
	if (index != call->segments || index >= CGPU_MAX_SEGMENTS || bytes > CGPU_SEGMENT_MAX)
		return -EINVAL;
	segment->parent = parent;
	segment->pointer = pointer;
	segment->bytes = bytes;
	segment->address = get64(pin, pointer);
	segment->data = NULL;
	call->segments = index + 1;
	return 1;
}

int core_control_params(struct core_call_context *context, u32 bytes, enum cgpu_verdict *verdict)
{
	const struct nv_layout_NVOS54_PARAMETERS *at = &context->abi->NVOS54_PARAMETERS;
	const u8 *top = context->call->top;
	int more = 1;

	if (get32(top, at->flags) & NVOS54_FLAGS_FINN_SERIALIZED) {
		*verdict = core_answer(context, NV_ERR_NOT_SUPPORTED);
	} else if (get32(top, at->paramsSize) != bytes) {
		*verdict = core_answer(context, NV_ERR_INVALID_PARAM_STRUCT);
	} else if (get64(top, at->params) == 0) {
		*verdict = core_answer(context, NV_ERR_INVALID_ARGUMENT);
	} else {
		more = core_segment(context, 0, 0, at->params, bytes);
		*verdict = more < 0 ? core_refuse(context, EINVAL) : CGPU_COPY_IN;
	}
	return more;
}

static int copy_in_params(struct core_call_context *context, const struct core_alloc *alloc, u32 bytes)
{
	const u8 *top = context->call->top;
	u32 index = 0;
	int more;

	if (get64(top, alloc->params_at)) {
		more = core_segment(context, index++, 0, alloc->params_at, bytes);
		if (more)
			return more;
	}
	if (alloc->rights_at == NV_ABI_ABSENT || get64(top, alloc->rights_at) == 0)
		return 0;
	return core_segment(context, index, 0, alloc->rights_at, context->abi->RS_ACCESS_MASK.bytes);
}

int core_alloc_params(
	struct core_call_context *context, const struct core_alloc *alloc, u32 bytes, enum cgpu_verdict *verdict)
{
	if (get64(context->call->top, alloc->params_at) == 0) {
		*verdict = core_answer(context, NV_ERR_INVALID_PARAM_STRUCT);
		return -EINVAL;
	}
	return core_alloc_copy_in(context, alloc, bytes, verdict);
}

int core_alloc_copy_in(
	struct core_call_context *context, const struct core_alloc *alloc, u32 bytes, enum cgpu_verdict *verdict)
{
	int more = copy_in_params(context, alloc, bytes);

	*verdict = more < 0 ? core_refuse(context, EINVAL) : CGPU_COPY_IN;
	return more;
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
