// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0
/*
 * NV_ESC_RM_ALLOC in its two forms, and the two older ways to allocate. Each class has its verdict in kmod/abi/classes.json,
 * with the reason; what is judged there is judged here, or by the function that the table `judges` names.
 */
#include "call/call.h"

static void decode(struct core_call_context *context, struct core_alloc *alloc)
{
	const struct nv_layout_NVOS64_PARAMETERS *wide = &context->abi->NVOS64_PARAMETERS;
	const struct nv_layout_NVOS21_PARAMETERS *narrow = &context->abi->NVOS21_PARAMETERS;
	const u8 *top = context->call->top;

	alloc->flags = 0;
	if (context->call->bytes == wide->bytes) {
		alloc->params_at = wide->pAllocParms;
		alloc->rights_at = wide->pRightsRequested;
		if (wide->flags != NV_ABI_ABSENT)
			alloc->flags = get32(top, wide->flags);
	} else {
		alloc->params_at = narrow->pAllocParms;
		alloc->rights_at = NV_ABI_ABSENT;
	}
	alloc->class = get32(top, narrow->hClass);
	core_alloc_handles(context, &alloc->handles);
}

static u32 gpu_of_device(struct core_call_context *context, u32 device_instance)
{
	u32 i;

	for (i = 0; i < CGPU_MAX_GPUS; i++) {
		const struct core_gpu *gpu = core_gpu(context->state, i);

		if (gpu && gpu->facts.device_instance == device_instance)
			return i;
	}
	return CORE_NONE;
}

static enum cgpu_verdict alloc_object(
	struct core_call_context *context, const struct core_alloc *alloc, u32 kind, u32 gpu)
{
	if (core_reserve(context, &alloc->handles, kind, gpu))
		return core_no_records(context);
	return core_execute(context, CORE_OP_ALLOC);
}

/* 0: none is named. The driver asks nobody whose client it is (device_share.c, deviceInitClientShare). */
static int names_other(struct core_call_context *context, const struct core_alloc *alloc, u32 at)
{
	u32 client = get32(context->call->segment[0].data, at);

	return client && client != alloc->handles.client && !core_is_own_client(context, client);
}

/* What is made of the client that its parameters name at `client_at`. */
static enum cgpu_verdict alloc_naming(
	struct core_call_context *context, const struct core_alloc *alloc, u32 bytes, u32 client_at)
{
	enum cgpu_verdict verdict;

	if (core_alloc_params(context, alloc, bytes, &verdict))
		return verdict;
	if (names_other(context, alloc, client_at))
		return core_answer(context, NV_ERR_INSUFFICIENT_PERMISSIONS);
	return core_execute(context, CORE_OP_PLAIN);
}

static enum cgpu_verdict alloc_device(struct core_call_context *context, const struct core_alloc *alloc)
{
	const struct nv_layout_NV0080_ALLOC_PARAMETERS *at = &context->abi->NV0080_ALLOC_PARAMETERS;
	enum cgpu_verdict verdict;
	u32 gpu;

	if (core_alloc_params(context, alloc, at->bytes, &verdict))
		return verdict;
	/* It would have the other one's address space, with all that is mapped there. */
	if (names_other(context, alloc, at->hClientShare) || names_other(context, alloc, at->hTargetClient))
		return core_answer(context, NV_ERR_INSUFFICIENT_PERMISSIONS);
	gpu = gpu_of_device(context, get32(context->call->segment[0].data, at->deviceId));
	if (gpu == CORE_NONE || !core_has_gpu(context->state, gpu, context->call->slot))
		return core_answer(context, NV_ERR_INSUFFICIENT_PERMISSIONS);
	return alloc_object(context, alloc, CORE_OBJECT_DEVICE, gpu);
}

static enum cgpu_verdict alloc_subdevice(struct core_call_context *context, const struct core_alloc *alloc)
{
	u32 parent = core_parent_find(context, &alloc->handles);
	enum cgpu_verdict verdict;

	if (parent == CORE_NONE || context->state->object[parent].kind != CORE_OBJECT_DEVICE)
		return core_answer(context, NV_ERR_INVALID_OBJECT_PARENT);
	if (core_alloc_copy_in(context, alloc, context->abi->NV2080_ALLOC_PARAMETERS.bytes, &verdict))
		return verdict;
	return alloc_object(context, alloc, CORE_OBJECT_SUBDEVICE, context->state->object[parent].gpu);
}

static enum cgpu_verdict alloc_vidmem(struct core_call_context *context, const struct core_alloc *alloc)
{
	u32 parent = core_parent_find(context, &alloc->handles);
	struct core_alloc_shape shape;
	enum cgpu_verdict verdict;

	if (parent == CORE_NONE)
		return core_answer(context, NV_ERR_INVALID_OBJECT_PARENT);
	if (get64(context->call->top, alloc->params_at) == 0)
		return core_answer(context, NV_ERR_INVALID_PARAM_STRUCT);
	if (core_alloc_copy_in(context, alloc, context->abi->NV_MEMORY_ALLOCATION_PARAMS.bytes, &verdict))
		return verdict;
	core_alloc_shape(context, &shape);
	if (core_shape_location(&shape) != NVOS32_ATTR_LOCATION_VIDMEM || (shape.flags & NVOS32_ALLOC_FLAGS_VIRTUAL))
		return core_answer(context, NV_ERR_INVALID_ARGUMENT);
	return core_reserve_memory(context, &alloc->handles, parent, &shape, CORE_OP_ALLOC);
}

/*
 * Channel groups and channels. With a group of the graphics engine the driver sets memory of the card aside for the buffers
 * of a context (kernel_channel_group_api.c, ctxBufPoolReserve), and tells it of no process. For a channel outside of any
 * group it makes one (kernel_channel.c).
 */

/*
 * An encrypted channel, which cards before Hopper have none of. On one of these 550.76 to 550.163.01 read a property of what would
 * manage the keys, at NULL, with the locks that all calls take (kernel_channel.c, kchannelConstruct_IMPL).
 */
static int is_secure_before_hopper(const struct core_call_context *context, const struct core_alloc *alloc)
{
	const u8 *params = core_alloc_judged_params(context);
	u32 at = context->abi->NV_CHANNELGPFIFO_ALLOCATION_PARAMETERS.flags;

	return alloc->class < HOPPER_CHANNEL_GPFIFO_A && params && (get32(params, at) & NVOS04_FLAGS_CC_SECURE);
}

static enum cgpu_verdict group_or_channel(struct core_call_context *context, const struct core_alloc *alloc, u32 kind,
	u32 bytes, u32 engine_at, u32 space_at)
{
	u32 parent = core_parent_find(context, &alloc->handles), space;
	enum cgpu_verdict verdict;

	if (parent == CORE_NONE)
		return core_answer(context, NV_ERR_INVALID_OBJECT_PARENT);
	if (get64(context->call->top, alloc->params_at) == 0)
		return core_answer(context, NV_ERR_INVALID_PARAM_STRUCT);
	if (kind == CORE_OBJECT_CHANNEL_GROUP &&
		core_tsg_list_full(context->state, context->state->object[parent].gpu, context->call->slot))
		return core_answer(context, NV_ERR_INSUFFICIENT_RESOURCES);
	if (core_alloc_copy_in(context, alloc, bytes, &verdict))
		return verdict;
	if (kind == CORE_OBJECT_CHANNEL && is_secure_before_hopper(context, alloc))
		return core_answer(context, NV_ERR_NOT_SUPPORTED);
	space = get32(context->call->segment[0].data, space_at);
	if (core_space_find(context, parent, space, &verdict) == CORE_NONE)
		return verdict;
	return core_reserve_context(
		context, &alloc->handles, parent, kind, get32(context->call->segment[0].data, engine_at));
}

static enum cgpu_verdict alloc_group(struct core_call_context *context, const struct core_alloc *alloc)
{
	const struct nv_layout_NV_CHANNEL_GROUP_ALLOCATION_PARAMETERS *at =
		&context->abi->NV_CHANNEL_GROUP_ALLOCATION_PARAMETERS;
	struct core_object *group;
	enum cgpu_verdict verdict;

	verdict = group_or_channel(context, alloc, CORE_OBJECT_CHANNEL_GROUP, at->bytes, at->engineType, at->hVASpace);
	if (verdict != CGPU_EXECUTE)
		return verdict;
	/* The driver only notes them: call/notifier.c asks what they are when a channel is made. */
	group = &context->state->object[core_pending(context)];
	group->notifier[0] = get32(context->call->segment[0].data, at->hObjectError);
	group->notifier[1] = get32(context->call->segment[0].data, at->hObjectEccError);
	return verdict;
}

/* A channel in a group shares the group's context. It has a record so that it can be disabled. */
static enum cgpu_verdict channel_of_group(
	struct core_call_context *context, const struct core_alloc *alloc, u32 group, u32 params_bytes)
{
	enum cgpu_verdict verdict;

	if (core_alloc_copy_in(context, alloc, params_bytes, &verdict))
		return verdict;
	if (is_secure_before_hopper(context, alloc))
		return core_answer(context, NV_ERR_NOT_SUPPORTED);
	verdict = core_reserve_channel(context, &alloc->handles, group);
	if (verdict != CGPU_EXECUTE)
		return verdict;
	/* Before Ampere a group may run elsewhere than it says. */
	if (alloc->class < AMPERE_CHANNEL_GPFIFO_A)
		context->state->object[group].runlist = 0;
	context->state->object[context->call->opaque[CORE_NOTE_OBJECT]].runlist = context->state->object[group].runlist;
	return verdict;
}

static enum cgpu_verdict alloc_channel(struct core_call_context *context, const struct core_alloc *alloc)
{
	const struct nv_layout_NV_CHANNELGPFIFO_ALLOCATION_PARAMETERS *at =
		&context->abi->NV_CHANNELGPFIFO_ALLOCATION_PARAMETERS;
	u32 parent = core_own_object(context, alloc->handles.client, alloc->handles.parent);

	if (parent != CORE_NONE && context->state->object[parent].kind == CORE_OBJECT_CHANNEL_GROUP)
		return channel_of_group(context, alloc, parent, at->bytes);
	return group_or_channel(context, alloc, CORE_OBJECT_CHANNEL, at->bytes, at->engineType, at->hVASpace);
}

/* An instance of a card that the container has whole can be used, and what is below one, which is none of the kept objects. What
 * configures instances, or looks at those of all cards, is the node's affair; nvidia-smi asks for it each time. */
static enum cgpu_verdict alloc_mig(struct core_call_context *context, const struct core_alloc *alloc)
{
	u32 parent = core_parent_find(context, &alloc->handles);

	if (alloc->class == AMPERE_SMC_EXEC_PARTITION_REF)
		return CGPU_CONTINUE;
	if (alloc->class != AMPERE_SMC_PARTITION_REF || parent == CORE_NONE ||
		!core_is_passthrough(context->state, context->state->object[parent].gpu, context->call->slot))
		return core_answer(context, NV_ERR_INSUFFICIENT_PERMISSIONS);
	return CGPU_CONTINUE;
}

/* In it the driver tells how much of the card is free, and which processes of the host use it: nothing that could be rewritten,
 * as clients map it (src/common/sdk/nvidia/inc/class/cl00de.h). Where it has none itself it gives this answer. */
static enum cgpu_verdict alloc_shared_data(struct core_call_context *context, const struct core_alloc *alloc)
{
	u32 parent = core_parent_find(context, &alloc->handles);

	if (parent == CORE_NONE ||
		!core_is_passthrough(context->state, context->state->object[parent].gpu, context->call->slot))
		return core_answer(context, NV_ERR_NOT_SUPPORTED);
	return CGPU_CONTINUE;
}

static enum cgpu_verdict refuse(struct core_call_context *context, u32 class, u32 status)
{
	context->refused_class = class;
	return core_answer(context, status);
}

static int is_charged(struct core_call_context *context, const struct core_alloc *alloc, u32 at)
{
	u32 object = core_own_object(context, alloc->handles.client, get32(context->call->segment[0].data, at));

	return object != CORE_NONE && context->state->object[object].kind == CORE_OBJECT_MEMORY;
}

/* It duplicates the memory that it is made of, and gives handles to that out again (src/nvidia/src/kernel/gpu/mem_mgr/
 * sem_surf.c): only memory of the host. */
static enum cgpu_verdict alloc_surface(struct core_call_context *context, const struct core_alloc *alloc)
{
	const struct nv_layout_NV_SEMAPHORE_SURFACE_ALLOC_PARAMETERS *at =
		&context->abi->NV_SEMAPHORE_SURFACE_ALLOC_PARAMETERS;
	enum cgpu_verdict verdict;

	if (at->hSemaphoreMem == NV_ABI_ABSENT)
		return core_answer(context, NV_ERR_INVALID_CLASS);
	if (core_alloc_params(context, alloc, at->bytes, &verdict))
		return verdict;
	if (is_charged(context, alloc, at->hSemaphoreMem) || is_charged(context, alloc, at->hMaxSubmittedMem))
		return refuse(context, alloc->class, NV_ERR_NOT_SUPPORTED);
	return core_execute(context, CORE_OP_PLAIN);
}

/* It stops and reads what another client has on the card. */
static enum cgpu_verdict alloc_debugger(struct core_call_context *context, const struct core_alloc *alloc)
{
	const struct nv_layout_NV83DE_ALLOC_PARAMETERS *at = &context->abi->NV83DE_ALLOC_PARAMETERS;

	return alloc_naming(context, alloc, at->bytes, at->hAppClient);
}

/* The driver asks nobody whose object it is that an event is for (src/nvidia/src/kernel/rmapi/event.c, eventInit): it would tell
 * when another container's work is done, and each one makes the driver's answer to an interrupt longer. */
static enum cgpu_verdict alloc_event(struct core_call_context *context, const struct core_alloc *alloc)
{
	const struct nv_layout_NV0005_ALLOC_PARAMETERS *at = &context->abi->NV0005_ALLOC_PARAMETERS;

	return alloc_naming(context, alloc, at->bytes, at->hParentClient);
}

static enum cgpu_verdict alloc_root(struct core_call_context *context, const struct core_alloc *alloc)
{
	(void)alloc;
	return core_begin_root(context);
}

/* What judges a class, by the name that kmod/abi/classes.json has for it. */
static enum cgpu_verdict (*const judges[])(struct core_call_context *context, const struct core_alloc *alloc) = {
	[NV_CLASS_BY_ROOT] = alloc_root,
	[NV_CLASS_BY_DEVICE] = alloc_device,
	[NV_CLASS_BY_SUBDEVICE] = alloc_subdevice,
	[NV_CLASS_BY_VIDMEM] = alloc_vidmem,
	[NV_CLASS_BY_HOST] = core_begin_alloc_host,
	[NV_CLASS_BY_GROUP] = alloc_group,
	[NV_CLASS_BY_CHANNEL] = alloc_channel,
	[NV_CLASS_BY_ADDRESSES] = core_begin_alloc_addresses,
	[NV_CLASS_BY_RANGE] = core_begin_alloc_range,
	[NV_CLASS_BY_SPACE] = core_begin_alloc_space,
	[NV_CLASS_BY_SURFACE] = alloc_surface,
	[NV_CLASS_BY_DEBUGGER] = alloc_debugger,
	[NV_CLASS_BY_EVENT] = alloc_event,
	[NV_CLASS_BY_MIG] = alloc_mig,
	[NV_CLASS_BY_SHARED_DATA] = alloc_shared_data,
	[NV_CLASS_JUDGES] = NULL,
};

enum cgpu_verdict core_begin_alloc(struct core_call_context *context)
{
	const struct nv_class *class;
	struct core_alloc alloc;

	decode(context, &alloc);
	class = core_class(alloc.class);
	if (class == NULL)
		return refuse(context, alloc.class, NV_ERR_INVALID_CLASS);
	if (class->verdict == NV_CLASS_PASS)
		return CGPU_CONTINUE;
	if (class->verdict == NV_CLASS_REFUSE)
		return refuse(context, class->id, class->status);
	/* Another encoding of the parameters, which only the driver's own libraries write. */
	if (class->by != NV_CLASS_BY_ROOT && (alloc.flags & NVOS64_FLAGS_FINN_SERIALIZED))
		return core_answer(context, NV_ERR_NOT_SUPPORTED);
	return judges[class->by] ? judges[class->by](context, &alloc) : core_answer(context, NV_ERR_INVALID_CLASS);
}

/* An older call has none of the parameters that a class is judged by. */
static enum cgpu_verdict older(struct core_call_context *context, const struct nv_class *class)
{
	switch (class->verdict) {
	case NV_CLASS_PASS:
		return CGPU_CONTINUE;
	case NV_CLASS_REFUSE:
		return refuse(context, class->id, class->status);
	default:
		return core_answer(context, class->status);
	}
}

enum cgpu_verdict core_begin_alloc_memory(struct core_call_context *context)
{
	const struct nv_layout_nv_ioctl_nvos02_parameters_with_fd *at =
		&context->abi->nv_ioctl_nvos02_parameters_with_fd;
	const struct nv_class *class;
	u32 number;

	number = get32(context->call->top, at->params_hClass);
	class = core_class(number);
	if (class == NULL)
		return refuse(context, number, NV_ERR_INSUFFICIENT_PERMISSIONS);
	/* Made in this way it has no record, and is not exported; in addresses that come so nothing is mapped
	 * (rmapi_deprecated_allocmemory.c, _rmAllocMemorySystemDynamic). */
	if (class->by == NV_CLASS_BY_HOST || class->by == NV_CLASS_BY_RANGE)
		return CGPU_CONTINUE;
	return older(context, class);
}

enum cgpu_verdict core_begin_alloc_object(struct core_call_context *context)
{
	const struct nv_layout_NVOS05_PARAMETERS *at = &context->abi->NVOS05_PARAMETERS;
	const struct nv_class *class;
	u32 number;

	number = get32(context->call->top, at->hClass);
	class = core_class(number);
	if (class == NULL)
		return refuse(context, number, NV_ERR_INVALID_CLASS);
	if (class->by == NV_CLASS_BY_ROOT)
		return core_begin_root(context);
	/* No memory comes by this call. */
	if (class->memory != NV_CLASS_MEMORY_NONE)
		return core_answer(context, NV_ERR_INVALID_CLASS);
	return older(context, class);
}
