// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
/* NV_ESC_RM_VID_HEAP_CONTROL, and memory of the host, which comes by that and by NV_ESC_RM_ALLOC. */
#include "call/call.h"

/*
 * Memory of the host, which is charged to nobody. It has records so that it can leave by a descriptor: only what the driver
 * made as memory of the host when it ran with judged arguments, and references to that, goes for it.
 */

enum cgpu_verdict core_begin_host(
	struct core_call_context *context, const struct core_handles *handles, enum core_op op)
{
	u32 parent = core_parent_find(context, handles);
	u32 gpu = parent == CORE_NONE ? CORE_NONE : context->state->object[parent].gpu;

	/* Memory below the client itself belongs to no device. The driver refuses any other parent. */
	if (parent == CORE_NONE && handles->parent != handles->client)
		return CGPU_CONTINUE;
	/* Memory without a record can be allocated, but not exported. */
	if (core_reserve(context, handles, CORE_OBJECT_HOST, gpu))
		return core_execute(context, CORE_OP_PLAIN);
	return core_execute(context, op);
}

enum cgpu_verdict core_begin_alloc_host(struct core_call_context *context, const struct core_alloc *alloc)
{
	struct core_alloc_shape shape;

	if (alloc->params == NULL)
		return CGPU_CONTINUE;
	core_alloc_shape(context, &shape);
	/* As the driver has it for the class that could be taken for another (system_mem.c, sysmemConstruct). */
	if (alloc->class == NV01_MEMORY_SYSTEM &&
		(core_shape_location(&shape) == NVOS32_ATTR_LOCATION_VIDMEM ||
			(shape.flags & NVOS32_ALLOC_FLAGS_VIRTUAL)))
		return core_answer(context, NV_ERR_INVALID_ARGUMENT);
	return core_begin_host(context, &alloc->handles, CORE_OP_ALLOC);
}

/* Class of an allocation through the heap that is not virtual, as _rmVidHeapControlAllocCommon() derives it
 * (src/nvidia/interface/deprecated/rmapi_deprecated_vidheapctrl.c:138). A version that does not know memory of other
 * sockets gives memory of the card to a caller that asks for that. */
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
	u32 parent;

	core_heap_shape_asked(context, &shape);
	if (shape.flags & NVOS32_ALLOC_FLAGS_VIRTUAL)
		return core_begin_heap_addresses(context, &shape);
	core_heap_handles(context, &handles);
	if (!is_vidmem(context->abi, &shape))
		return core_begin_host(context, &handles, CORE_OP_HEAP_ALLOC);
	parent = core_parent_find(context, &handles);
	if (parent == CORE_NONE)
		return core_answer(context, NV_ERR_INVALID_OBJECT_PARENT);
	return core_reserve_memory(context, &handles, parent, &shape, CORE_OP_HEAP_ALLOC);
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

	switch (get32(context->call->top, at->function)) {
	case NVOS32_FUNCTION_ALLOC_SIZE:
	case NVOS32_FUNCTION_ALLOC_TILED_PITCH_HEIGHT:
	case NVOS32_FUNCTION_ALLOC_SIZE_RANGE:
		return heap_alloc(context);
	case NVOS32_FUNCTION_FREE:
		if (core_frees_notifier(context, get32(context->call->top, at->hRoot),
			    get32(context->call->top, at->data_Free_hMemory)))
			return core_answer(context, NV_ERR_IN_USE);
		return core_execute(context, CORE_OP_HEAP_FREE);
	case NVOS32_FUNCTION_INFO:
		return heap_info(context);
	case NVOS32_FUNCTION_REACQUIRE_COMPR:
	case NVOS32_FUNCTION_RELEASE_COMPR:
	case NVOS32_FUNCTION_GET_MEM_ALIGNMENT:
	/* This function describes the caller's own memory, as NV01_MEMORY_SYSTEM_OS_DESCRIPTOR. */
	case NVOS32_FUNCTION_ALLOC_OS_DESCRIPTOR:
		return CGPU_CONTINUE;
	default:
		return core_answer(context, NV_ERR_NOT_SUPPORTED);
	}
}
