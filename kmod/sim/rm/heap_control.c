// SPDX-License-Identifier: Apache-2.0
/* NV_ESC_RM_VID_HEAP_CONTROL: the older way to memory (rmapi_deprecated_vidheapctrl.c). */
#include "backing.h"
#include "sim.h"

#define IVC_HEAP_NONE 0xff

/* Places of the fields in the parts of the structure that allocate; 0: there is none. */
struct part {
	uint32_t function;
	uint16_t owner, handle, type, flags, attr, attr2, size, alignment, offset, limit, address, height, pitch;
};

#define PART(number, name)                                                                                           \
	.function = NVOS32_FUNCTION_##number, .owner = at->data_##name##_owner, .handle = at->data_##name##_hMemory, \
	.type = at->data_##name##_type, .flags = at->data_##name##_flags, .attr = at->data_##name##_attr,            \
	.attr2 = at->data_##name##_attr2, .size = at->data_##name##_size, .alignment = at->data_##name##_alignment,  \
	.offset = at->data_##name##_offset, .limit = at->data_##name##_limit, .address = at->data_##name##_address

static bool part_of(const struct call *call, struct part *part)
{
	const struct nv_layout_NVOS32_PARAMETERS *at = &call->sim->abi->NVOS32_PARAMETERS;

	switch (get32(call->data, at->function)) {
	case NVOS32_FUNCTION_ALLOC_SIZE:
		*part = (struct part){ PART(ALLOC_SIZE, AllocSize) };
		return true;
	case NVOS32_FUNCTION_ALLOC_SIZE_RANGE:
		*part = (struct part){ PART(ALLOC_SIZE_RANGE, AllocSizeRange) };
		return true;
	case NVOS32_FUNCTION_ALLOC_TILED_PITCH_HEIGHT:
		*part = (struct part){ PART(ALLOC_TILED_PITCH_HEIGHT, AllocTiledPitchHeight),
			.height = at->data_AllocTiledPitchHeight_height,
			.pitch = at->data_AllocTiledPitchHeight_pitch };
		return true;
	default:
		return false;
	}
}

static void read_request(const struct call *call, const struct part *part, struct memory_request *request)
{
	*request = (struct memory_request){
		.owner = get32(call->data, part->owner),
		.type = get32(call->data, part->type),
		.flags = get32(call->data, part->flags),
		.attr = get32(call->data, part->attr),
		.attr2 = get32(call->data, part->attr2),
		.va_space = get32(call->data, call->sim->abi->NVOS32_PARAMETERS.hVASpace),
		.size = get64(call->data, part->size),
		.alignment = get64(call->data, part->alignment),
		.offset = get64(call->data, part->offset),
	};
	/* (NvU64)height * pitch, where the pitch is an NvS32. */
	if (part->pitch)
		request->size =
			get32(call->data, part->height) * (uint64_t)(int64_t)(int32_t)get32(call->data, part->pitch);
}

static void write_request(
	struct call *call, const struct part *part, const struct memory_request *request, uint32_t handle)
{
	put32(call->data, part->handle, handle);
	put32(call->data, part->attr, request->attr);
	put32(call->data, part->attr2, request->attr2);
	put64(call->data, part->size, request->size);
	put64(call->data, part->offset, request->offset);
	put64(call->data, part->limit, request->limit);
	put64(call->data, part->address, 0);
}

/* The class that a request means (the order is the driver's). */
static uint32_t class_of(const struct sim *sim, const struct memory_request *request)
{
	/* Others do not look at that bit. */
	bool knows_egm = version_at_least(sim, 550, 40, 7) && !version_at_least(sim, 595, 44, 2);

	if (request->flags & NVOS32_ALLOC_FLAGS_VIRTUAL)
		return NV50_MEMORY_VIRTUAL;
	if (knows_egm && (request->attr2 >> NVOS32_ATTR2_USE_EGM_SHIFT & NVOS32_ATTR2_USE_EGM_MASK))
		return NV_MEMORY_EXTENDED_USER;
	if ((request->attr >> NVOS32_ATTR_LOCATION_SHIFT & NVOS32_ATTR_LOCATION_MASK) == NVOS32_ATTR_LOCATION_VIDMEM)
		return NV01_MEMORY_LOCAL_USER;
	return NV01_MEMORY_SYSTEM;
}

static uint32_t alloc_part(struct call *call, const struct part *part, struct client *client, struct object *parent)
{
	const struct nv_layout_NVOS32_PARAMETERS *at = &call->sim->abi->NVOS32_PARAMETERS;
	struct memory_request request;
	struct object *created;
	uint32_t handle = 0, status, class_id;

	read_request(call, part, &request);
	if (request.flags & NVOS32_ALLOC_FLAGS_MEMORY_HANDLE_PROVIDED)
		handle = get32(call->data, part->handle);
	put64(call->data, at->free, 0);
	put64(call->data, at->total, 0);
	class_id = class_of(call->sim, &request);
	if (parent->class_id != NV01_DEVICE_0 && parent->class_id != NV20_SUBDEVICE_0)
		return NV_ERR_INVALID_OBJECT_PARENT;
	if (request.size == 0 || request.size > UINT64_MAX - SIM_PAGE)
		return request.size == 0 ? NV_ERR_INVALID_ARGUMENT : NV_ERR_NO_MEMORY;
	if (class_id == NV01_MEMORY_LOCAL_USER) {
		status = class_create_video_memory(call->sim, parent, handle, &request, &created);
	} else {
		request.size = (request.size + SIM_PAGE - 1) / SIM_PAGE * SIM_PAGE;
		request.limit = request.size - 1;
		status = object_create(call->sim, client, parent, &handle, class_id, &created);
		if (status == NV_OK)
			status = memory_describe(call->sim, created, &request);
	}
	if (status == NV_OK)
		write_request(call, part, &request, created->handle);
	return status;
}

/* Memory of the caller's, which the driver makes known to the card (_nvos32FunctionAllocOsDesc). */
static uint32_t alloc_os_descriptor(struct call *call, struct client *client, struct object *parent)
{
	const struct nv_layout_NVOS32_PARAMETERS *at = &call->sim->abi->NVOS32_PARAMETERS;
	struct object *created;
	uint32_t handle = 0, status;

	if (get32(call->data, at->data_AllocOsDesc_flags) & NVOS32_ALLOC_FLAGS_MEMORY_HANDLE_PROVIDED)
		handle = get32(call->data, at->data_AllocOsDesc_hMemory);
	if (parent->class_id != NV01_DEVICE_0)
		return NV_ERR_INVALID_OBJECT_PARENT;
	status = pinned_check_range(
		get64(call->data, at->data_AllocOsDesc_descriptor), get64(call->data, at->data_AllocOsDesc_limit));
	if (status == NV_OK)
		status = pinned_check_attr(get32(call->data, at->data_AllocOsDesc_attr));
	if (status != NV_OK)
		return status;
	status = object_create(call->sim, client, parent, &handle, NV01_MEMORY_SYSTEM_OS_DESCRIPTOR, &created);
	if (status != NV_OK)
		return status;
	created->backing = backing_of_process(client->process, get64(call->data, at->data_AllocOsDesc_descriptor),
		get64(call->data, at->data_AllocOsDesc_limit) + 1);
	put32(call->data, at->data_AllocOsDesc_hMemory, created->handle);
	return status;
}

static uint32_t heap_free(struct call *call, struct client *client)
{
	const struct nv_layout_NVOS32_PARAMETERS *at = &call->sim->abi->NVOS32_PARAMETERS;

	if (!(get32(call->data, at->data_Free_flags) & NVOS32_FREE_FLAGS_MEMORY_HANDLE_PROVIDED))
		return NV_ERR_INVALID_ARGUMENT;
	return free_handle(call->sim, client, get32(call->data, at->data_Free_hMemory));
}

static uint32_t heap_info(struct call *call, const struct object *device)
{
	const struct nv_layout_NVOS32_PARAMETERS *at = &call->sim->abi->NVOS32_PARAMETERS;
	const struct card *card;

	if (device->class_id != NV01_DEVICE_0)
		return NV_ERR_INVALID_OBJECT_PARENT;
	card = &call->sim->cards[device->card];
	put64(call->data, at->free, card->bytes - card->used);
	put64(call->data, at->total, card->bytes);
	put64(call->data, at->data_Info_base, 0);
	put64(call->data, at->data_Info_size, card->bytes - card->used);
	put64(call->data, at->data_Info_offset, 0);
	return NV_OK;
}

static uint32_t answer(struct call *call, uint32_t function)
{
	const struct nv_layout_NVOS32_PARAMETERS *at = &call->sim->abi->NVOS32_PARAMETERS;
	struct client *client;
	struct object *parent;
	struct part part;
	uint32_t status = client_for_call(call, get32(call->data, at->hRoot), &client);

	if (status != NV_OK)
		return status;
	if (function == NVOS32_FUNCTION_FREE)
		return heap_free(call, client);
	parent = object_find(call->sim, client, get32(call->data, at->hObjectParent));
	if (!parent)
		return NV_ERR_INVALID_OBJECT_PARENT;
	if (function == NVOS32_FUNCTION_INFO)
		return heap_info(call, parent);
	if (part_of(call, &part))
		return alloc_part(call, &part, client, parent);
	return alloc_os_descriptor(call, client, parent);
}

int escape_heap_control(struct call *call)
{
	const struct nv_layout_NVOS32_PARAMETERS *at = &call->sim->abi->NVOS32_PARAMETERS;
	uint32_t function = get32(call->data, at->function), status;
	int16_t ivc_heap;

	memcpy(&ivc_heap, call->data + at->ivcHeapNumber, sizeof(ivc_heap));
	switch (ivc_heap > IVC_HEAP_NONE ? UINT32_MAX : function) {
	case NVOS32_FUNCTION_ALLOC_SIZE:
	case NVOS32_FUNCTION_ALLOC_SIZE_RANGE:
	case NVOS32_FUNCTION_ALLOC_TILED_PITCH_HEIGHT:
	case NVOS32_FUNCTION_ALLOC_OS_DESCRIPTOR:
	case NVOS32_FUNCTION_FREE:
	case NVOS32_FUNCTION_INFO:
		pthread_mutex_lock(&call->sim->lock);
		status = answer(call, function);
		pthread_mutex_unlock(&call->sim->lock);
		break;
	default:
		status = NV_ERR_NOT_SUPPORTED;
	}
	put32(call->data, at->status, status);
	return 0;
}
