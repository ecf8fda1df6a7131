// SPDX-License-Identifier: Apache-2.0
/* What each class needs to come into being. */
#include "backing.h"
#include "sim.h"

static const struct nv_class *class_find(uint32_t class_id)
{
	unsigned int low = 0, high = nv_class_count;

	while (low < high) {
		unsigned int middle = (low + high) / 2;

		if (nv_classes[middle].id < class_id)
			low = middle + 1;
		else
			high = middle;
	}
	return low < nv_class_count && nv_classes[low].id == class_id ? &nv_classes[low] : NULL;
}

bool class_is_channel(uint32_t class_id)
{
	const struct nv_class *about = class_find(class_id);

	return about && about->memory == NV_CLASS_MEMORY_CHANNEL;
}

static bool class_is_channel_or_group(uint32_t class_id)
{
	return class_id == KEPLER_CHANNEL_GROUP_A || class_is_channel(class_id);
}

bool class_is_memory_request(uint32_t class_id)
{
	return class_id == NV01_MEMORY_LOCAL_USER || class_id == NV01_MEMORY_SYSTEM ||
		class_id == NV_MEMORY_EXTENDED_USER || class_id == NV50_MEMORY_VIRTUAL ||
		class_id == NV01_MEMORY_DEVICELESS;
}

uint32_t class_params_size(const struct sim *sim, uint32_t class_id)
{
	if (class_id == NV01_DEVICE_0)
		return sim->abi->NV0080_ALLOC_PARAMETERS.bytes;
	if (class_id == NV20_SUBDEVICE_0)
		return sim->abi->NV2080_ALLOC_PARAMETERS.bytes;
	if (class_is_channel_or_group(class_id))
		return channel_params_size(sim, class_id);
	if (class_id == FERMI_VASPACE_A)
		return sim->abi->NV_VASPACE_ALLOCATION_PARAMETERS.bytes;
	if (class_id == FERMI_CONTEXT_SHARE_A)
		return sim->card_abi->NV_CTXSHARE_ALLOCATION_PARAMETERS.bytes;
	if (class_id == NV_SEMAPHORE_SURFACE)
		return sim->abi->NV_SEMAPHORE_SURFACE_ALLOC_PARAMETERS.bytes;
	return class_is_memory_request(class_id) ? sim->abi->NV_MEMORY_ALLOCATION_PARAMS.bytes : 0;
}

/* Which are RS_REQUIRED in resource_list.h (535.261.03, 550.163.01), of those that are known here. */
bool class_requires_params(uint32_t class_id)
{
	switch (class_id) {
	case NV01_MEMORY_LOCAL_PHYSICAL:
	case NV01_MEMORY_LIST_SYSTEM:
	case NV01_MEMORY_LIST_FBMEM:
	case NV01_MEMORY_LIST_OBJECT:
	case FERMI_VASPACE_A:
	case FERMI_CONTEXT_SHARE_A:
	case NV_SEMAPHORE_SURFACE:
		return true;
	default:
		return class_is_memory_request(class_id) || class_is_channel_or_group(class_id);
	}
}

bool class_may_be_duplicated(uint32_t class_id)
{
	const struct nv_class *about = class_find(class_id);

	return class_id == FERMI_VASPACE_A ||
		(about && about->memory != NV_CLASS_MEMORY_NONE && about->memory != NV_CLASS_MEMORY_CHANNEL &&
			about->memory != NV_CLASS_MEMORY_KEEPER);
}

/* Whether the class exists and the caller may have it (resource_list.h, alloc_free.c:600-675). */
uint32_t class_check(const struct alloc_request *request)
{
	const struct nv_class *about;

	switch (request->class_id) {
	case NV01_MEMORY_LOCAL_PHYSICAL:
	case NV01_MEMORY_LIST_SYSTEM:
	case NV01_MEMORY_LIST_FBMEM:
	case NV01_MEMORY_LIST_OBJECT:
		return request->is_admin ? NV_OK : NV_ERR_INSUFFICIENT_PERMISSIONS;
	case NV04_DISPLAY_COMMON:
	case NVA083_GRID_DISPLAYLESS:
		/* No card here has a display, and none is a guest's of vGPU. */
		return NV_ERR_INVALID_CLASS;
	case NV01_MEMORY_FRAMEBUFFER_CONSOLE:
		return NV_ERR_INSUFFICIENT_PERMISSIONS;
	default:
		about = class_find(request->class_id);
		return about && about->served ? NV_OK : NV_ERR_INVALID_CLASS;
	}
}

static bool parent_fits(uint32_t class_id, const struct object *parent)
{
	switch (class_id) {
	case NV01_DEVICE_0:
	case NV01_MEMORY_DEVICELESS:
		return parent->parent == NULL;
	case NV_SEMAPHORE_SURFACE:
		return parent->class_id == NV20_SUBDEVICE_0;
	case NV20_SUBDEVICE_0:
	case NV01_MEMORY_SYSTEM:
	case NV50_MEMORY_VIRTUAL:
	case FERMI_VASPACE_A:
	case KEPLER_CHANNEL_GROUP_A:
		return parent->class_id == NV01_DEVICE_0;
	case NV01_MEMORY_LOCAL_USER:
	case NV_MEMORY_EXTENDED_USER:
		return parent->class_id == NV01_DEVICE_0 || parent->class_id == NV20_SUBDEVICE_0;
	default:
		return !class_is_channel(class_id) || parent->class_id == NV01_DEVICE_0 ||
			parent->class_id == KEPLER_CHANNEL_GROUP_A;
	}
}

static uint32_t create_device(struct sim *sim, const struct alloc_request *request, struct object *parent,
	const uint8_t *params, struct object **created)
{
	uint32_t handle = request->handle, status, card;

	if (!params)
		return NV_ERR_INVALID_ARGUMENT;
	card = card_at(sim, get32(params, sim->abi->NV0080_ALLOC_PARAMETERS.deviceId));
	/* device.c, deviceConstruct_IMPL() */
	if (card == SIM_NO_CARD)
		return NV_ERR_INVALID_CLASS;
	status = object_create(sim, parent->client, parent, &handle, request->class_id, created);
	if (status == NV_OK)
		(*created)->card = card;
	return status;
}

uint32_t class_create_video_memory(struct sim *sim, struct object *parent, uint32_t handle,
	struct memory_request *request, struct object **created)
{
	struct memory *memory;
	uint32_t status;

	/* video_mem.c:432: there is no heap for it. */
	if (mig_denies(sim, parent))
		return NV_ERR_INVALID_STATE;
	status = object_create(sim, parent->client, parent, &handle, NV01_MEMORY_LOCAL_USER, created);
	if (status != NV_OK)
		return status;
	request->process = parent->client->process;
	status = memory_create(sim, parent->card, request, &memory);
	if (status != NV_OK) {
		object_free(sim, *created);
		return status;
	}
	(*created)->memory = memory;
	(*created)->memory_owner = true;
	return NV_OK;
}

/* sem_surf.c _semsurfDupMemory(): the memory is there as long as the surface. */
static uint32_t create_surface(struct sim *sim, const struct alloc_request *request, struct object *parent,
	const uint8_t *params, struct object **created)
{
	const struct object *memory;
	uint32_t handle = request->handle, status;

	if (!params)
		return NV_ERR_INVALID_ARGUMENT;
	memory = object_find(
		sim, parent->client, get32(params, sim->abi->NV_SEMAPHORE_SURFACE_ALLOC_PARAMETERS.hSemaphoreMem));
	if (!memory || !class_is_memory_request(memory->class_id))
		return NV_ERR_INVALID_OBJECT_HANDLE;
	status = object_create(sim, parent->client, parent, &handle, request->class_id, created);
	if (status != NV_OK || !memory->memory)
		return status;
	(*created)->memory = memory->memory;
	memory->memory->refs++;
	return NV_OK;
}

static void read_request(const struct sim *sim, const uint8_t *params, struct memory_request *request)
{
	const struct nv_layout_NV_MEMORY_ALLOCATION_PARAMS *at = &sim->abi->NV_MEMORY_ALLOCATION_PARAMS;

	*request = (struct memory_request){
		.owner = get32(params, at->owner),
		.type = get32(params, at->type),
		.flags = get32(params, at->flags),
		.attr = get32(params, at->attr),
		.attr2 = get32(params, at->attr2),
		.va_space = get32(params, at->hVASpace),
		.internal_flags = get32(params, at->internalflags),
		.range_low = get64(params, at->rangeLo),
		.range_high = get64(params, at->rangeHi),
		.size = get64(params, at->size),
		.alignment = get64(params, at->alignment),
		.offset = get64(params, at->offset),
	};
}

static void write_request(const struct sim *sim, uint8_t *params, const struct memory_request *request)
{
	const struct nv_layout_NV_MEMORY_ALLOCATION_PARAMS *at = &sim->abi->NV_MEMORY_ALLOCATION_PARAMS;

	put32(params, at->flags, request->flags);
	put32(params, at->attr, request->attr);
	put32(params, at->attr2, request->attr2);
	put64(params, at->size, request->size);
	put64(params, at->alignment, request->alignment);
	put64(params, at->offset, request->offset);
	put64(params, at->limit, request->limit);
	put64(params, at->address, 0);
}

uint32_t memory_describe(struct sim *sim, struct object *object, struct memory_request *request)
{
	if (object->class_id == NV50_MEMORY_VIRTUAL) {
		if (!(request->flags & NVOS32_ALLOC_FLAGS_FIXED_ADDRESS_ALLOCATE)) {
			/* Addresses from the middle of a space on; libraries choose their own below. */
			request->offset = SIM_VIRTUAL_BASE + sim->next_virtual;
			sim->next_virtual += (request->size + SIM_PAGE_HUGE - 1) / SIM_PAGE_HUGE * SIM_PAGE_HUGE;
		}
		object->virtual_space = request->va_space;
		object->virtual_address = request->offset;
		return NV_OK;
	}
	object->backing = backing_make(request->size);
	if (object->backing)
		return NV_OK;
	object_free(sim, object);
	return NV_ERR_NO_MEMORY;
}

/* Host and virtual memory: an object that takes nothing from the card. */
static uint32_t create_other_memory(struct sim *sim, const struct alloc_request *request, struct object *parent,
	struct memory_request *memory, struct object **created)
{
	uint32_t handle = request->handle, status;
	uint32_t place = memory->attr >> NVOS32_ATTR_LOCATION_SHIFT & NVOS32_ATTR_LOCATION_MASK;

	if (memory->size == 0 || memory->size > UINT64_MAX - SIM_PAGE || memory->internal_flags != 0)
		return NV_ERR_INVALID_ARGUMENT;
	if (memory->owner == 0 || memory->owner == UINT32_MAX)
		return NV_ERR_INVALID_OWNER;
	/* system_mem.c:194 */
	if (request->class_id == NV01_MEMORY_SYSTEM && place == NVOS32_ATTR_LOCATION_VIDMEM)
		return NV_ERR_INVALID_ARGUMENT;
	memory->size = (memory->size + SIM_PAGE - 1) / SIM_PAGE * SIM_PAGE;
	memory->limit = memory->size - 1;
	status = object_create(sim, parent->client, parent, &handle, request->class_id, created);
	return status == NV_OK ? memory_describe(sim, *created, memory) : status;
}

static uint32_t create_va_space(struct sim *sim, const struct alloc_request *request, struct object *parent,
	const uint8_t *params, struct object **created)
{
	uint32_t handle = request->handle;
	uint32_t status = object_create(sim, parent->client, parent, &handle, request->class_id, created);

	if (status == NV_OK && params)
		(*created)->external = get32(params, sim->abi->NV_VASPACE_ALLOCATION_PARAMETERS.flags) &
			NV_VASPACE_ALLOCATION_FLAGS_IS_EXTERNALLY_OWNED;
	return status;
}

uint32_t class_make(struct sim *sim, const struct alloc_request *request, struct object *parent, uint8_t *params,
	struct object **created)
{
	struct memory_request memory;
	uint32_t handle = request->handle, status;

	if (!parent_fits(request->class_id, parent))
		return NV_ERR_INVALID_OBJECT_PARENT;
	status = mig_check(sim, request->class_id, parent);
	if (status != NV_OK)
		return status;
	if (request->class_id == NV01_DEVICE_0)
		return create_device(sim, request, parent, params, created);
	if (request->class_id == NV20_SUBDEVICE_0 && params &&
		get32(params, sim->abi->NV2080_ALLOC_PARAMETERS.subDeviceId) != 0)
		return NV_ERR_INVALID_ARGUMENT;
	if (class_is_channel_or_group(request->class_id))
		return channel_create(sim, request, parent, params, created);
	if (request->class_id == FERMI_VASPACE_A)
		return create_va_space(sim, request, parent, params, created);
	if (request->class_id == NV_SEMAPHORE_SURFACE)
		return create_surface(sim, request, parent, params, created);
	if (!class_is_memory_request(request->class_id)) {
		status = object_create(sim, parent->client, parent, &handle, request->class_id, created);
		if (status == NV_OK && request->class_id == FERMI_CONTEXT_SHARE_A && params)
			(*created)->virtual_space =
				get32(params, sim->card_abi->NV_CTXSHARE_ALLOCATION_PARAMETERS.hVASpace);
		return status;
	}
	if (!params)
		return NV_ERR_INVALID_ARGUMENT;
	read_request(sim, params, &memory);
	if (request->class_id == NV01_MEMORY_LOCAL_USER)
		status = class_create_video_memory(sim, parent, handle, &memory, created);
	else
		status = create_other_memory(sim, request, parent, &memory, created);
	if (status == NV_OK)
		write_request(sim, params, &memory);
	return status;
}
