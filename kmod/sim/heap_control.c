// SPDX-License-Identifier: Apache-2.0
/* NV_ESC_RM_VID_HEAP_CONTROL: the older way to memory (rmapi_deprecated_vidheapctrl.c). */
#include "sim.h"

#define IVC_HEAP_NONE 0xff

static void read_request(const struct call *call, struct memory_request *request)
{
	const struct nv_layout_NVOS32_PARAMETERS *at = &call->sim->abi->NVOS32_PARAMETERS;

	*request = (struct memory_request){
		.owner = get32(call->data, at->data_AllocSize_owner),
		.type = get32(call->data, at->data_AllocSize_type),
		.flags = get32(call->data, at->data_AllocSize_flags),
		.attr = get32(call->data, at->data_AllocSize_attr),
		.attr2 = get32(call->data, at->data_AllocSize_attr2),
		.va_space = get32(call->data, at->hVASpace),
		.size = get64(call->data, at->data_AllocSize_size),
		.alignment = get64(call->data, at->data_AllocSize_alignment),
		.offset = get64(call->data, at->data_AllocSize_offset),
	};
}

static void write_request(struct call *call, const struct memory_request *request, uint32_t handle)
{
	const struct nv_layout_NVOS32_PARAMETERS *at = &call->sim->abi->NVOS32_PARAMETERS;

	put32(call->data, at->data_AllocSize_hMemory, handle);
	put32(call->data, at->data_AllocSize_attr, request->attr);
	put32(call->data, at->data_AllocSize_attr2, request->attr2);
	put64(call->data, at->data_AllocSize_size, request->size);
	put64(call->data, at->data_AllocSize_offset, request->offset);
	put64(call->data, at->data_AllocSize_limit, request->limit);
	put64(call->data, at->data_AllocSize_address, 0);
}

/* Which class a request means (the order is the driver's). */
static uint32_t class_of(const struct memory_request *request)
{
	if (request->flags & NVOS32_ALLOC_FLAGS_VIRTUAL)
		return NV50_MEMORY_VIRTUAL;
	if (request->attr2 >> NVOS32_ATTR2_USE_EGM_SHIFT & NVOS32_ATTR2_USE_EGM_MASK)
		return NV_MEMORY_EXTENDED_USER;
	if ((request->attr >> NVOS32_ATTR_LOCATION_SHIFT & NVOS32_ATTR_LOCATION_MASK) == NVOS32_ATTR_LOCATION_VIDMEM)
		return NV01_MEMORY_LOCAL_USER;
	return NV01_MEMORY_SYSTEM;
}

static uint32_t alloc_size(struct call *call, struct client *client, struct object *parent)
{
	const struct nv_layout_NVOS32_PARAMETERS *at = &call->sim->abi->NVOS32_PARAMETERS;
	struct memory_request request;
	struct object *created;
	uint32_t handle = 0, status, class_id;

	read_request(call, &request);
	if (request.flags & NVOS32_ALLOC_FLAGS_MEMORY_HANDLE_PROVIDED)
		handle = get32(call->data, at->data_AllocSize_hMemory);
	put64(call->data, at->free, 0);
	put64(call->data, at->total, 0);
	class_id = class_of(&request);
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
	}
	if (status == NV_OK)
		write_request(call, &request, created->handle);
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
	uint32_t status = client_for_call(call, get32(call->data, at->hRoot), &client);

	if (status != NV_OK)
		return status;
	if (function == NVOS32_FUNCTION_FREE)
		return heap_free(call, client);
	parent = object_find(call->sim, client, get32(call->data, at->hObjectParent));
	if (!parent)
		return NV_ERR_INVALID_OBJECT_PARENT;
	return function == NVOS32_FUNCTION_INFO ? heap_info(call, parent) : alloc_size(call, client, parent);
}

int escape_heap_control(struct call *call)
{
	const struct nv_layout_NVOS32_PARAMETERS *at = &call->sim->abi->NVOS32_PARAMETERS;
	uint32_t function = get32(call->data, at->function), status;
	int16_t ivc_heap;

	memcpy(&ivc_heap, call->data + at->ivcHeapNumber, sizeof(ivc_heap));
	if (ivc_heap > IVC_HEAP_NONE) {
		status = NV_ERR_NOT_SUPPORTED;
	} else if (function == NVOS32_FUNCTION_ALLOC_SIZE || function == NVOS32_FUNCTION_FREE ||
		function == NVOS32_FUNCTION_INFO) {
		pthread_mutex_lock(&call->sim->lock);
		status = answer(call, function);
		pthread_mutex_unlock(&call->sim->lock);
	} else {
		status = NV_ERR_NOT_SUPPORTED;
	}
	put32(call->data, at->status, status);
	return 0;
}
