// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0
/* NV_ESC_RM_VID_HEAP_CONTROL. */
#include "call/call.h"

/* Which class an allocation through the heap gets that is not virtual, as _rmVidHeapControlAllocCommon() derives it
 * (src/nvidia/interface/deprecated/rmapi_deprecated_vidheapctrl.c:138). A version that does not know memory of other
 * sockets gives memory of the card to who asks for that. */
static int is_vidmem(const struct nv_abi *abi, const struct core_alloc_shape *shape)
{
	u32 egm = (shape->attr2 >> NVOS32_ATTR2_USE_EGM_SHIFT) & NVOS32_ATTR2_USE_EGM_MASK;

	if (abi->heap_knows_egm && egm == NVOS32_ATTR2_USE_EGM_TRUE)
		return 0;
	return core_shape_location(shape) == NVOS32_ATTR_LOCATION_VIDMEM;
}

static enum cgpu_verdict heap_alloc(struct core_call_context *context)
{
	struct core_alloc_shape shape;
	struct core_handles handles;
	enum cgpu_verdict verdict;
	u32 parent;

	core_heap_shape_asked(context, &shape);
	if (shape.flags & NVOS32_ALLOC_FLAGS_VIRTUAL)
		return CGPU_CONTINUE;
	core_heap_handles(context, &handles);
	if (!is_vidmem(context->abi, &shape))
		return core_begin_host(context, &handles, CORE_OP_HEAP_ALLOC);
	parent = core_parent_find(context, &handles);
	if (parent == CORE_NONE)
		return core_answer(context, NV_ERR_INVALID_OBJECT_PARENT);
	if (core_driver_limits(context))
		return core_leave_to_driver(context, parent);
	verdict = core_reserve_memory(context, &handles, parent, &shape);
	return verdict == CGPU_EXECUTE ? core_execute(context, CORE_OP_HEAP_ALLOC) : verdict;
}

static enum cgpu_verdict heap_info(struct core_call_context *context)
{
	struct core_handles handles;
	u32 parent;

	core_heap_handles(context, &handles);
	parent = core_parent_find(context, &handles);
	if (parent == CORE_NONE)
		return core_answer(context, NV_ERR_INVALID_OBJECT_PARENT);
	context->call->opaque[CORE_NOTE_GPU] = context->state->object[parent].gpu;
	return core_execute(context, CORE_OP_HEAP_INFO);
}

enum cgpu_verdict core_begin_heap(struct core_call_context *context)
{
	const struct nv_layout_NVOS32_PARAMETERS *at = &context->abi->NVOS32_PARAMETERS;

	switch (core_get32(context->call->top, at->function)) {
	case NVOS32_FUNCTION_ALLOC_SIZE:
	case NVOS32_FUNCTION_ALLOC_TILED_PITCH_HEIGHT:
	case NVOS32_FUNCTION_ALLOC_SIZE_RANGE:
		return heap_alloc(context);
	case NVOS32_FUNCTION_FREE:
		return core_execute(context, CORE_OP_HEAP_FREE);
	case NVOS32_FUNCTION_INFO:
		return heap_info(context);
	case NVOS32_FUNCTION_REACQUIRE_COMPR:
	case NVOS32_FUNCTION_RELEASE_COMPR:
	case NVOS32_FUNCTION_GET_MEM_ALIGNMENT:
	/* Of the caller's own memory, NV01_MEMORY_SYSTEM_OS_DESCRIPTOR. */
	case NVOS32_FUNCTION_ALLOC_OS_DESCRIPTOR:
		return CGPU_CONTINUE;
	default:
		return core_answer(context, NV_ERR_NOT_SUPPORTED);
	}
}
