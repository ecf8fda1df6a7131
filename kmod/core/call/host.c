// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0
/*
 * Memory of the host, which is charged to nobody. It has records so that it can leave by a descriptor: only what the driver
 * made as memory of the host when it ran with judged arguments, and references to that, goes for it.
 */
#include "call/call.h"

enum cgpu_verdict core_begin_host(
	struct core_call_context *context, const struct core_handles *handles, enum core_op op)
{
	u32 parent = core_parent_find(context, handles);
	u32 gpu = parent == CORE_NONE ? CORE_NONE : context->state->object[parent].gpu;

	/* Below the client itself is memory of no device. Anything else the driver refuses. */
	if (parent == CORE_NONE && handles->parent != handles->client)
		return CGPU_CONTINUE;
	/* Memory of the card has no records there, so that nothing is exported. */
	if (core_driver_limits(context))
		return CGPU_CONTINUE;
	/* Without a record it can be had, and not be exported. */
	if (core_reserve(context, handles, CORE_OBJECT_HOST, gpu))
		return core_execute(context, CORE_OP_PLAIN);
	return core_execute(context, op);
}

enum cgpu_verdict core_begin_alloc_host(struct core_call_context *context, const struct core_alloc *alloc)
{
	struct core_alloc_shape shape;
	int more;

	if (core_get64(context->call->top, alloc->params_at) == 0)
		return CGPU_CONTINUE;
	more = core_alloc_copy_in(context, alloc, context->abi->NV_MEMORY_ALLOCATION_PARAMS.bytes);
	if (more)
		return core_alloc_copy_in_verdict(context, more);
	core_alloc_shape_read(context, context->call->segment[0].data, &shape);
	/* As the driver has it for the class that could be taken for another (system_mem.c, sysmemConstruct). */
	if (alloc->class == NV01_MEMORY_SYSTEM &&
		(core_shape_location(&shape) == NVOS32_ATTR_LOCATION_VIDMEM ||
			(shape.flags & NVOS32_ALLOC_FLAGS_VIRTUAL)))
		return core_answer(context, NV_ERR_INVALID_ARGUMENT);
	return core_begin_host(context, &alloc->handles, CORE_OP_ALLOC);
}
