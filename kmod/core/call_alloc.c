// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0
/* NV_ESC_RM_ALLOC in its two forms, and the two older ways to allocate. */
#include "call.h"

static int decode(struct core_frame *frame, struct core_alloc *alloc)
{
	const struct nv_layout_NVOS64_PARAMETERS *wide = &frame->abi->NVOS64_PARAMETERS;
	const struct nv_layout_NVOS21_PARAMETERS *narrow = &frame->abi->NVOS21_PARAMETERS;
	const u8 *top = frame->call->top;

	alloc->flags = 0;
	if (frame->call->bytes == wide->bytes) {
		alloc->params_at = wide->pAllocParms;
		alloc->rights_at = wide->pRightsRequested;
		frame->status_at = wide->status;
		if (wide->flags != NV_ABI_ABSENT)
			alloc->flags = core_get32(top, wide->flags);
	} else if (frame->call->bytes == narrow->bytes) {
		alloc->params_at = narrow->pAllocParms;
		alloc->rights_at = NV_ABI_ABSENT;
		frame->status_at = narrow->status;
	} else {
		return -EINVAL;
	}
	alloc->class = core_get32(top, narrow->hClass);
	core_alloc_handles(frame, &alloc->handles);
	return 0;
}

int core_alloc_copy_in(struct core_frame *frame, const struct core_alloc *alloc, u32 bytes)
{
	u32 index = 0;
	int more;

	if (core_get64(frame->call->top, alloc->params_at)) {
		more = core_segment(frame, index++, 0, alloc->params_at, bytes);
		if (more)
			return more;
	}
	if (alloc->rights_at == NV_ABI_ABSENT || core_get64(frame->call->top, alloc->rights_at) == 0)
		return 0;
	return core_segment(frame, index, 0, alloc->rights_at, frame->abi->RS_ACCESS_MASK.bytes);
}

enum cgpu_verdict core_alloc_copy_in_verdict(struct core_frame *frame, int more)
{
	return more < 0 ? core_refuse(frame, EINVAL) : CGPU_COPY_IN;
}

static u32 gpu_of_device(struct core_frame *frame, u32 device_instance)
{
	u32 i;

	for (i = 0; i < CGPU_MAX_GPUS; i++) {
		const struct core_gpu *gpu = core_gpu(frame->state, i);

		if (gpu && gpu->facts.device_instance == device_instance)
			return i;
	}
	return CORE_NONE;
}

static enum cgpu_verdict alloc_object(struct core_frame *frame, const struct core_alloc *alloc, u32 kind, u32 gpu)
{
	if (core_reserve(frame, &alloc->handles, kind, gpu))
		return core_no_records(frame);
	return core_execute(frame, CORE_OP_ALLOC);
}

/* 0: none is named. The driver asks nobody whose client it is (device_share.c, deviceInitClientShare). */
static int names_other(struct core_frame *frame, const struct core_alloc *alloc, u32 at)
{
	u32 client = core_get32(frame->call->segment[0].data, at);

	return client && client != alloc->handles.client &&
		core_client_find(frame->state, frame->call->slot, client) == CORE_NONE;
}

static enum cgpu_verdict alloc_device(struct core_frame *frame, const struct core_alloc *alloc)
{
	const struct nv_layout_NV0080_ALLOC_PARAMETERS *at = &frame->abi->NV0080_ALLOC_PARAMETERS;
	int more;
	u32 gpu;

	if (core_get64(frame->call->top, alloc->params_at) == 0)
		return core_answer(frame, NV_ERR_INVALID_PARAM_STRUCT);
	more = core_alloc_copy_in(frame, alloc, at->bytes);
	if (more)
		return core_alloc_copy_in_verdict(frame, more);
	/* It would have the other one's address space, with all that is mapped there. */
	if (names_other(frame, alloc, at->hClientShare) || names_other(frame, alloc, at->hTargetClient))
		return core_answer(frame, NV_ERR_INSUFFICIENT_PERMISSIONS);
	gpu = gpu_of_device(frame, core_get32(frame->call->segment[0].data, at->deviceId));
	if (gpu == CORE_NONE || !core_has_gpu(frame->state, gpu, frame->call->slot))
		return core_answer(frame, NV_ERR_INSUFFICIENT_PERMISSIONS);
	return alloc_object(frame, alloc, CORE_OBJECT_DEVICE, gpu);
}

static enum cgpu_verdict alloc_subdevice(struct core_frame *frame, const struct core_alloc *alloc)
{
	u32 parent = core_parent_find(frame, &alloc->handles);
	int more;

	if (parent == CORE_NONE || frame->state->object[parent].kind != CORE_OBJECT_DEVICE)
		return core_answer(frame, NV_ERR_INVALID_OBJECT_PARENT);
	more = core_alloc_copy_in(frame, alloc, frame->abi->NV2080_ALLOC_PARAMETERS.bytes);
	if (more)
		return core_alloc_copy_in_verdict(frame, more);
	return alloc_object(frame, alloc, CORE_OBJECT_SUBDEVICE, frame->state->object[parent].gpu);
}

static enum cgpu_verdict alloc_vidmem(struct core_frame *frame, const struct core_alloc *alloc)
{
	u32 parent = core_parent_find(frame, &alloc->handles);
	struct core_alloc_shape shape;
	enum cgpu_verdict verdict;
	int more;

	if (parent == CORE_NONE)
		return core_answer(frame, NV_ERR_INVALID_OBJECT_PARENT);
	if (core_get64(frame->call->top, alloc->params_at) == 0)
		return core_answer(frame, NV_ERR_INVALID_PARAM_STRUCT);
	if (core_driver_limits(frame))
		return core_leave_to_driver(frame, parent);
	more = core_alloc_copy_in(frame, alloc, frame->abi->NV_MEMORY_ALLOCATION_PARAMS.bytes);
	if (more)
		return core_alloc_copy_in_verdict(frame, more);
	core_alloc_shape_read(frame, frame->call->segment[0].data, &shape);
	if (core_shape_location(&shape) != NVOS32_ATTR_LOCATION_VIDMEM || (shape.flags & NVOS32_ALLOC_FLAGS_VIRTUAL))
		return core_answer(frame, NV_ERR_INVALID_ARGUMENT);
	verdict = core_reserve_memory(frame, &alloc->handles, parent, &shape);
	return verdict == CGPU_EXECUTE ? core_execute(frame, CORE_OP_ALLOC) : verdict;
}

/* Classes that are about MIG's instances of a card. */
static int is_mig(u32 class)
{
	return class == AMPERE_SMC_PARTITION_REF || class == AMPERE_SMC_EXEC_PARTITION_REF ||
		class == AMPERE_SMC_CONFIG_SESSION || class == AMPERE_SMC_MONITOR_SESSION;
}

/* An instance of a card that the container has whole can be used. What configures instances, or looks at those of all
 * cards, is the node's affair. */
static enum cgpu_verdict alloc_mig(struct core_frame *frame, const struct core_alloc *alloc)
{
	u32 parent = core_parent_find(frame, &alloc->handles);

	/* Below an instance, which is none of the kept objects. */
	if (alloc->class == AMPERE_SMC_EXEC_PARTITION_REF)
		return CGPU_CONTINUE;
	if (alloc->class != AMPERE_SMC_PARTITION_REF || parent == CORE_NONE ||
		!core_is_native(frame->state, frame->state->object[parent].gpu, frame->call->slot))
		return core_answer(frame, NV_ERR_INSUFFICIENT_PERMISSIONS);
	return CGPU_CONTINUE;
}

/* In it the driver tells how much of the card is free, and which processes of the host use it: nothing that could be rewritten,
 * as clients map it (src/common/sdk/nvidia/inc/class/cl00de.h). Where it has none itself it gives this answer. */
static enum cgpu_verdict alloc_shared_data(struct core_frame *frame, const struct core_alloc *alloc)
{
	u32 parent = core_parent_find(frame, &alloc->handles);

	if (parent == CORE_NONE || !core_is_native(frame->state, frame->state->object[parent].gpu, frame->call->slot))
		return core_answer(frame, NV_ERR_NOT_SUPPORTED);
	return CGPU_CONTINUE;
}

/* What it refers to the driver would keep, or pass on, after its charge has ended. */
static enum cgpu_verdict not_charged(struct core_frame *frame, u32 class)
{
	frame->unknown_class = class;
	return core_answer(frame, NV_ERR_NOT_SUPPORTED);
}

static int is_charged(struct core_frame *frame, const struct core_alloc *alloc, u32 at)
{
	u32 client = core_client_find(frame->state, frame->call->slot, alloc->handles.client);
	u32 object = core_object_find(frame->state, client, core_get32(frame->call->segment[0].data, at));

	return object != CORE_NONE && frame->state->object[object].kind == CORE_OBJECT_MEMORY;
}

/* It duplicates the memory that it is made of, and gives handles to that out again (src/nvidia/src/kernel/gpu/mem_mgr/
 * sem_surf.c): only memory of the host. */
static enum cgpu_verdict alloc_surface(struct core_frame *frame, const struct core_alloc *alloc)
{
	const struct nv_layout_NV_SEMAPHORE_SURFACE_ALLOC_PARAMETERS *at =
		&frame->abi->NV_SEMAPHORE_SURFACE_ALLOC_PARAMETERS;
	int more;

	if (at->hSemaphoreMem == NV_ABI_ABSENT)
		return core_answer(frame, NV_ERR_INVALID_CLASS);
	if (core_get64(frame->call->top, alloc->params_at) == 0)
		return core_answer(frame, NV_ERR_INVALID_PARAM_STRUCT);
	more = core_alloc_copy_in(frame, alloc, at->bytes);
	if (more)
		return core_alloc_copy_in_verdict(frame, more);
	if (is_charged(frame, alloc, at->hSemaphoreMem) || is_charged(frame, alloc, at->hMaxSubmittedMem))
		return not_charged(frame, alloc->class);
	return core_execute(frame, CORE_OP_PLAIN);
}

/* It stops and reads what another client has on the card. */
static enum cgpu_verdict alloc_debugger(struct core_frame *frame, const struct core_alloc *alloc)
{
	const struct nv_layout_NV83DE_ALLOC_PARAMETERS *at = &frame->abi->NV83DE_ALLOC_PARAMETERS;
	int more;

	if (core_get64(frame->call->top, alloc->params_at) == 0)
		return core_answer(frame, NV_ERR_INVALID_PARAM_STRUCT);
	more = core_alloc_copy_in(frame, alloc, at->bytes);
	if (more)
		return core_alloc_copy_in_verdict(frame, more);
	if (names_other(frame, alloc, at->hAppClient))
		return core_answer(frame, NV_ERR_INSUFFICIENT_PERMISSIONS);
	return core_execute(frame, CORE_OP_PLAIN);
}

/* The driver asks nobody whose object it is that an event is for (src/nvidia/src/kernel/rmapi/event.c, eventInit): it would tell
 * when another container's work is done, and each one makes the driver's answer to an interrupt longer. */
static enum cgpu_verdict alloc_event(struct core_frame *frame, const struct core_alloc *alloc)
{
	const struct nv_layout_NV0005_ALLOC_PARAMETERS *at = &frame->abi->NV0005_ALLOC_PARAMETERS;
	int more;

	if (core_get64(frame->call->top, alloc->params_at) == 0)
		return core_answer(frame, NV_ERR_INVALID_PARAM_STRUCT);
	more = core_alloc_copy_in(frame, alloc, at->bytes);
	if (more)
		return core_alloc_copy_in_verdict(frame, more);
	if (names_other(frame, alloc, at->hParentClient))
		return core_answer(frame, NV_ERR_INSUFFICIENT_PERMISSIONS);
	return core_execute(frame, CORE_OP_PLAIN);
}

/* By what a class means for video memory. */
static enum cgpu_verdict alloc_other(struct core_frame *frame, u32 class, int memory)
{
	/* By an older call, of whatever card. */
	if (class == RM_USER_SHARED_DATA)
		return core_answer(frame, NV_ERR_NOT_SUPPORTED);
	switch (memory) {
	case NV_CLASS_MEMORY_NONE:
	case NV_CLASS_MEMORY_HOST:
	case NV_CLASS_MEMORY_VIRTUAL:
	case NV_CLASS_MEMORY_MAPPER:
		return CGPU_CONTINUE;
	case NV_CLASS_MEMORY_GROUP:
	case NV_CLASS_MEMORY_CHANNEL:
		/* No older call makes one. */
		return core_answer(frame, NV_ERR_INVALID_CLASS);
	case NV_CLASS_MEMORY_ALIAS:
		return core_answer(frame, NV_ERR_INSUFFICIENT_PERMISSIONS);
	case NV_CLASS_MEMORY_EXPORT:
	case NV_CLASS_MEMORY_FABRIC:
	case NV_CLASS_MEMORY_KEEPER:
		return not_charged(frame, class);
	default:
		frame->unknown_class = class;
		return core_answer(frame, NV_ERR_INVALID_CLASS);
	}
}

/* What is pinned of the caller's own pages can only be had by the caller. */
static int is_host(u32 class, int memory)
{
	return memory == NV_CLASS_MEMORY_HOST && class != NV01_MEMORY_SYSTEM_OS_DESCRIPTOR;
}

/* By the first one the parameters say which of the others is meant. */
static int is_event(u32 class)
{
	return class == NV01_EVENT || class == NV01_EVENT_OS_EVENT || class == NV01_EVENT_KERNEL_CALLBACK ||
		class == NV01_EVENT_KERNEL_CALLBACK_EX;
}

static int is_judged(u32 class, int memory)
{
	return is_event(class) || class == NV01_DEVICE_0 || class == NV20_SUBDEVICE_0 ||
		class == NV_SEMAPHORE_SURFACE || class == GT200_DEBUGGER || memory == NV_CLASS_MEMORY_VIDMEM ||
		memory == NV_CLASS_MEMORY_GROUP || memory == NV_CLASS_MEMORY_CHANNEL || is_host(class, memory);
}

enum cgpu_verdict core_begin_alloc(struct core_frame *frame)
{
	struct core_alloc alloc;
	int memory;

	if (decode(frame, &alloc))
		return core_refuse(frame, EINVAL);
	if (core_is_root(alloc.class))
		return core_begin_root(frame);
	if (is_mig(alloc.class))
		return alloc_mig(frame, &alloc);
	if (alloc.class == RM_USER_SHARED_DATA)
		return alloc_shared_data(frame, &alloc);
	memory = core_class_memory(alloc.class);
	if (!is_judged(alloc.class, memory))
		return alloc_other(frame, alloc.class, memory);
	/* Another encoding of the parameters, which only the driver's own libraries write. */
	if (alloc.flags & NVOS64_FLAGS_FINN_SERIALIZED)
		return core_answer(frame, NV_ERR_NOT_SUPPORTED);
	if (alloc.class == NV01_DEVICE_0)
		return alloc_device(frame, &alloc);
	if (alloc.class == NV20_SUBDEVICE_0)
		return alloc_subdevice(frame, &alloc);
	if (memory == NV_CLASS_MEMORY_GROUP)
		return core_begin_group(frame, &alloc);
	if (memory == NV_CLASS_MEMORY_CHANNEL)
		return core_begin_channel(frame, &alloc);
	if (alloc.class == NV_SEMAPHORE_SURFACE)
		return alloc_surface(frame, &alloc);
	if (alloc.class == GT200_DEBUGGER)
		return alloc_debugger(frame, &alloc);
	if (is_event(alloc.class))
		return alloc_event(frame, &alloc);
	if (is_host(alloc.class, memory))
		return core_begin_alloc_host(frame, &alloc);
	return alloc_vidmem(frame, &alloc);
}

enum cgpu_verdict core_begin_alloc_memory(struct core_frame *frame)
{
	const struct nv_layout_nv_ioctl_nvos02_parameters_with_fd *at = &frame->abi->nv_ioctl_nvos02_parameters_with_fd;
	u32 class;
	int memory;

	if (frame->call->bytes != at->bytes)
		return core_refuse(frame, EINVAL);
	frame->status_at = at->params_status;
	class = core_get32(frame->call->top, at->params_hClass);
	memory = core_class_memory(class);
	if (memory == NV_CLASS_MEMORY_VIDMEM)
		return core_answer(frame, NV_ERR_INSUFFICIENT_PERMISSIONS);
	if (memory < 0) {
		frame->unknown_class = class;
		return core_answer(frame, NV_ERR_INSUFFICIENT_PERMISSIONS);
	}
	return alloc_other(frame, class, memory);
}

enum cgpu_verdict core_begin_alloc_object(struct core_frame *frame)
{
	const struct nv_layout_NVOS05_PARAMETERS *at = &frame->abi->NVOS05_PARAMETERS;
	u32 class;

	if (frame->call->bytes != at->bytes)
		return core_refuse(frame, EINVAL);
	frame->status_at = at->status;
	class = core_get32(frame->call->top, at->hClass);
	if (class == NV01_DEVICE_0 || class == NV20_SUBDEVICE_0 || class == GT200_DEBUGGER || is_mig(class))
		return core_answer(frame, NV_ERR_INVALID_CLASS);
	if (core_is_root(class))
		return core_begin_root(frame);
	if (core_class_memory(class) == NV_CLASS_MEMORY_NONE)
		return alloc_other(frame, class, NV_CLASS_MEMORY_NONE);
	frame->unknown_class = core_class_memory(class) < 0 ? class : 0;
	return core_answer(frame, NV_ERR_INVALID_CLASS);
}
