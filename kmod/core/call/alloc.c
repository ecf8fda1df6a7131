// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
/*
 * NV_ESC_RM_ALLOC in its two forms, and the two older ways to allocate. Each class has its verdict in kmod/abi/classes.json,
 * with the reason; what is judged there is judged here, or by the function that the table `judges` names. When a judge is
 * called the parameters are copied, and the rights that are asked for.
 */
#include "call/call.h"

static void decode(struct core_call_context *context, struct core_alloc *alloc)
{
	const struct nv_layout_NVOS64_PARAMETERS *wide = &context->abi->NVOS64_PARAMETERS;
	const struct nv_layout_NVOS21_PARAMETERS *narrow = &context->abi->NVOS21_PARAMETERS;
	const u8 *top = context->call->top;

	alloc->flags = 0;
	alloc->params = NULL;
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

/* Whether the parameters name another container's client; 0 names none. The driver does not check whose client it is
 * (device_share.c, deviceInitClientShare). */
static int names_other(struct core_call_context *context, const struct core_alloc *alloc, u32 at)
{
	u32 client = get32(alloc->params, at);

	return client && client != alloc->handles.client && !core_is_own_client(context, client);
}

/* Judge a class whose parameters name a client at `client_at`: another container's client is refused. */
static enum cgpu_verdict alloc_naming(struct core_call_context *context, const struct core_alloc *alloc, u32 client_at)
{
	if (alloc->params == NULL)
		return core_answer(context, NV_ERR_INVALID_PARAM_STRUCT);
	if (names_other(context, alloc, client_at))
		return core_answer(context, NV_ERR_INSUFFICIENT_PERMISSIONS);
	return core_execute(context, CORE_OP_PLAIN);
}

static enum cgpu_verdict alloc_device(struct core_call_context *context, const struct core_alloc *alloc)
{
	const struct nv_layout_NV0080_ALLOC_PARAMETERS *at = &context->abi->NV0080_ALLOC_PARAMETERS;
	u32 gpu;

	if (alloc->params == NULL)
		return core_answer(context, NV_ERR_INVALID_PARAM_STRUCT);
	/* The device would have the other client's address space, with all that is mapped there. */
	if (names_other(context, alloc, at->hClientShare) || names_other(context, alloc, at->hTargetClient))
		return core_answer(context, NV_ERR_INSUFFICIENT_PERMISSIONS);
	gpu = gpu_of_device(context, get32(alloc->params, at->deviceId));
	if (gpu == CORE_NONE || !core_has_gpu(context->state, gpu, context->call->slot))
		return core_answer(context, NV_ERR_INSUFFICIENT_PERMISSIONS);
	return alloc_object(context, alloc, CORE_OBJECT_DEVICE, gpu);
}

static enum cgpu_verdict alloc_subdevice(struct core_call_context *context, const struct core_alloc *alloc)
{
	u32 parent = core_parent_find(context, &alloc->handles);

	if (parent == CORE_NONE || context->state->object[parent].kind != CORE_OBJECT_DEVICE)
		return core_answer(context, NV_ERR_INVALID_OBJECT_PARENT);
	return alloc_object(context, alloc, CORE_OBJECT_SUBDEVICE, context->state->object[parent].gpu);
}

static enum cgpu_verdict alloc_vidmem(struct core_call_context *context, const struct core_alloc *alloc)
{
	u32 parent = core_parent_find(context, &alloc->handles);
	struct core_alloc_shape shape;

	if (parent == CORE_NONE)
		return core_answer(context, NV_ERR_INVALID_OBJECT_PARENT);
	if (alloc->params == NULL)
		return core_answer(context, NV_ERR_INVALID_PARAM_STRUCT);
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
 * An encrypted channel on a card before Hopper, which has none. There 550.76 to 550.163.01 read a property of the keys'
 * manager at NULL, with the locks that all calls take (kernel_channel.c, kchannelConstruct_IMPL).
 */
static int is_secure_before_hopper(const struct core_call_context *context, const struct core_alloc *alloc)
{
	u32 at = context->abi->NV_CHANNELGPFIFO_ALLOCATION_PARAMETERS.flags;

	return alloc->class < HOPPER_CHANNEL_GPFIFO_A && alloc->params &&
		(get32(alloc->params, at) & NVOS04_FLAGS_CC_SECURE);
}

static enum cgpu_verdict group_or_channel(
	struct core_call_context *context, const struct core_alloc *alloc, u32 kind, u32 engine_at, u32 space_at)
{
	u32 parent = core_parent_find(context, &alloc->handles), space;
	enum cgpu_verdict verdict;

	if (parent == CORE_NONE)
		return core_answer(context, NV_ERR_INVALID_OBJECT_PARENT);
	if (alloc->params == NULL)
		return core_answer(context, NV_ERR_INVALID_PARAM_STRUCT);
	if (kind == CORE_OBJECT_CHANNEL_GROUP &&
		core_tsg_list_full(context->state, context->state->object[parent].gpu, context->call->slot))
		return core_answer(context, NV_ERR_INSUFFICIENT_RESOURCES);
	if (kind == CORE_OBJECT_CHANNEL && is_secure_before_hopper(context, alloc))
		return core_answer(context, NV_ERR_NOT_SUPPORTED);
	space = get32(alloc->params, space_at);
	if (core_space_find(context, parent, space, &verdict) == CORE_NONE)
		return verdict;
	return core_reserve_context(context, &alloc->handles, parent, kind, get32(alloc->params, engine_at));
}

static enum cgpu_verdict alloc_group(struct core_call_context *context, const struct core_alloc *alloc)
{
	const struct nv_layout_NV_CHANNEL_GROUP_ALLOCATION_PARAMETERS *at =
		&context->abi->NV_CHANNEL_GROUP_ALLOCATION_PARAMETERS;
	struct core_object *group;
	enum cgpu_verdict verdict;

	verdict = group_or_channel(context, alloc, CORE_OBJECT_CHANNEL_GROUP, at->engineType, at->hVASpace);
	if (verdict != CGPU_EXECUTE)
		return verdict;
	/* The driver only notes them: call/notifier.c asks what they are when a channel is made. */
	group = &context->state->object[core_pending(context)];
	group->notifier[0] = get32(alloc->params, at->hObjectError);
	group->notifier[1] = get32(alloc->params, at->hObjectEccError);
	return verdict;
}

/* A channel in a group shares the group's context. It has a record so that it can be disabled. */
static enum cgpu_verdict channel_of_group(struct core_call_context *context, const struct core_alloc *alloc, u32 group)
{
	enum cgpu_verdict verdict;

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
		return channel_of_group(context, alloc, parent);
	return group_or_channel(context, alloc, CORE_OBJECT_CHANNEL, at->engineType, at->hVASpace);
}

/* A container may use a MIG instance of its passthrough GPU, and objects below the instance, none of which has a
 * record. Classes that configure instances, or list those of all cards, are the node's affair; nvidia-smi asks for
 * one each time. */
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

/* The driver writes into this memory how much of the card is free, and which processes of the host use it. Clients
 * map it, so nothing in it can be rewritten (src/common/sdk/nvidia/inc/class/cl00de.h). A driver without it gives
 * this answer. */
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
	u32 object = core_own_object(context, alloc->handles.client, get32(alloc->params, at));

	return object != CORE_NONE && context->state->object[object].kind == CORE_OBJECT_MEMORY;
}

/* A semaphore surface duplicates the memory that it is made of, and hands out handles to the duplicate
 * (src/nvidia/src/kernel/gpu/mem_mgr/sem_surf.c): only memory of the host may be named. */
static enum cgpu_verdict alloc_surface(struct core_call_context *context, const struct core_alloc *alloc)
{
	const struct nv_layout_NV_SEMAPHORE_SURFACE_ALLOC_PARAMETERS *at =
		&context->abi->NV_SEMAPHORE_SURFACE_ALLOC_PARAMETERS;

	if (at->hSemaphoreMem == NV_ABI_ABSENT)
		return core_answer(context, NV_ERR_INVALID_CLASS);
	if (alloc->params == NULL)
		return core_answer(context, NV_ERR_INVALID_PARAM_STRUCT);
	if (is_charged(context, alloc, at->hSemaphoreMem) || is_charged(context, alloc, at->hMaxSubmittedMem))
		return refuse(context, alloc->class, NV_ERR_NOT_SUPPORTED);
	return core_execute(context, CORE_OP_PLAIN);
}

/* A debugger stops and reads another client's work on the card. */
static enum cgpu_verdict alloc_debugger(struct core_call_context *context, const struct core_alloc *alloc)
{
	const struct nv_layout_NV83DE_ALLOC_PARAMETERS *at = &context->abi->NV83DE_ALLOC_PARAMETERS;

	return alloc_naming(context, alloc, at->hAppClient);
}

/* The driver does not check whose object an event is for (src/nvidia/src/kernel/rmapi/event.c, eventInit): it would
 * tell when another container's work is done, and each event makes the driver's answer to an interrupt longer. */
static enum cgpu_verdict alloc_event(struct core_call_context *context, const struct core_alloc *alloc)
{
	const struct nv_layout_NV0005_ALLOC_PARAMETERS *at = &context->abi->NV0005_ALLOC_PARAMETERS;

	return alloc_naming(context, alloc, at->hParentClient);
}

static enum cgpu_verdict alloc_root(struct core_call_context *context, const struct core_alloc *alloc)
{
	(void)alloc;
	return core_begin_root(context);
}

/* A function that judges a class, and the size of the parameters that it judges by, as CORE_ABI(); 0: by none. */
struct class_judge {
	enum cgpu_verdict (*begin)(struct core_call_context *context, const struct core_alloc *alloc);
	u32 params;
};
#define BY(layout) CORE_ABI(layout.bytes)

/* By the name that kmod/abi/classes.json has for each. */
static const struct class_judge judges[NV_CLASS_JUDGES] = {
	[NV_CLASS_BY_ROOT] = { alloc_root, 0 },
	[NV_CLASS_BY_DEVICE] = { alloc_device, BY(NV0080_ALLOC_PARAMETERS) },
	[NV_CLASS_BY_SUBDEVICE] = { alloc_subdevice, BY(NV2080_ALLOC_PARAMETERS) },
	[NV_CLASS_BY_VIDMEM] = { alloc_vidmem, BY(NV_MEMORY_ALLOCATION_PARAMS) },
	[NV_CLASS_BY_HOST] = { core_begin_alloc_host, BY(NV_MEMORY_ALLOCATION_PARAMS) },
	[NV_CLASS_BY_GROUP] = { alloc_group, BY(NV_CHANNEL_GROUP_ALLOCATION_PARAMETERS) },
	[NV_CLASS_BY_CHANNEL] = { alloc_channel, BY(NV_CHANNELGPFIFO_ALLOCATION_PARAMETERS) },
	[NV_CLASS_BY_ADDRESSES] = { core_begin_alloc_addresses, BY(NV_MEMORY_ALLOCATION_PARAMS) },
	[NV_CLASS_BY_RANGE] = { core_begin_alloc_range, BY(NV_MEMORY_VIRTUAL_ALLOCATION_PARAMS) },
	[NV_CLASS_BY_SPACE] = { core_begin_alloc_space, BY(NV_VASPACE_ALLOCATION_PARAMETERS) },
	[NV_CLASS_BY_SURFACE] = { alloc_surface, BY(NV_SEMAPHORE_SURFACE_ALLOC_PARAMETERS) },
	[NV_CLASS_BY_DEBUGGER] = { alloc_debugger, BY(NV83DE_ALLOC_PARAMETERS) },
	[NV_CLASS_BY_EVENT] = { alloc_event, BY(NV0005_ALLOC_PARAMETERS) },
	[NV_CLASS_BY_MIG] = { alloc_mig, 0 },
	[NV_CLASS_BY_SHARED_DATA] = { alloc_shared_data, 0 },
};

/* Another encoding of the parameters, which only the driver's own libraries write. A class that makes a client has none. */
static int is_serialized(const struct core_call_context *context)
{
	return context->plan->class->by != NV_CLASS_BY_ROOT &&
		(context->plan->alloc.flags & NVOS64_FLAGS_FINN_SERIALIZED);
}

void core_plan_alloc(struct core_call_context *context)
{
	struct core_alloc *alloc = &context->plan->alloc;
	const u8 *top = context->call->top;
	u32 params;

	decode(context, alloc);
	context->plan->class = core_class(alloc->class);
	if (context->plan->class == NULL || context->plan->class->verdict != NV_CLASS_JUDGE || is_serialized(context))
		return;
	params = judges[context->plan->class->by].params;
	if (params == 0)
		return;
	context->plan->may_run = 1;
	if (get64(top, alloc->params_at))
		alloc->params = core_plan_buffer(context, 0, alloc->params_at, core_abi_at(context->abi, params));
	if (alloc->rights_at != NV_ABI_ABSENT && get64(top, alloc->rights_at))
		core_plan_buffer(context, 0, alloc->rights_at, context->abi->RS_ACCESS_MASK.bytes);
}

enum cgpu_verdict core_begin_alloc(struct core_call_context *context)
{
	const struct nv_class *class = context->plan->class;

	if (class == NULL)
		return refuse(context, context->plan->alloc.class, NV_ERR_INVALID_CLASS);
	if (class->verdict == NV_CLASS_PASS)
		return CGPU_CONTINUE;
	if (class->verdict == NV_CLASS_REFUSE)
		return refuse(context, class->id, class->status);
	if (is_serialized(context))
		return core_answer(context, NV_ERR_NOT_SUPPORTED);
	if (judges[class->by].begin == NULL)
		return core_answer(context, NV_ERR_INVALID_CLASS);
	return judges[class->by].begin(context, &context->plan->alloc);
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
	/* Memory that is allocated this way has no record, so it is not exported; addresses that are reserved this
	 * way get no mappings (rmapi_deprecated_allocmemory.c, _rmAllocMemorySystemDynamic). */
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
