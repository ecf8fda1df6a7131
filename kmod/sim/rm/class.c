// SPDX-License-Identifier: Apache-2.0
/* The driver's table of classes: parameters, parents, and the rights that a caller needs. */
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

bool class_is_channel_or_group(uint32_t class_id)
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
	if (class_id == KEPLER_CHANNEL_GROUP_A)
		return sim->abi->NV_CHANNEL_GROUP_ALLOCATION_PARAMETERS.bytes;
	if (class_is_channel(class_id))
		return sim->abi->NV_CHANNELGPFIFO_ALLOCATION_PARAMETERS.bytes;
	if (class_id == FERMI_VASPACE_A)
		return sim->abi->NV_VASPACE_ALLOCATION_PARAMETERS.bytes;
	if (class_id == NV01_MEMORY_VIRTUAL)
		return sim->abi->NV_MEMORY_VIRTUAL_ALLOCATION_PARAMS.bytes;
	if (class_id == FERMI_CONTEXT_SHARE_A)
		return sim->card_abi->NV_CTXSHARE_ALLOCATION_PARAMETERS.bytes;
	if (class_id == NV_SEMAPHORE_SURFACE)
		return sim->abi->NV_SEMAPHORE_SURFACE_ALLOC_PARAMETERS.bytes;
	return class_is_memory_request(class_id) ? sim->abi->NV_MEMORY_ALLOCATION_PARAMS.bytes : 0;
}

/* Known classes whose parameters are RS_REQUIRED in resource_list.h (535.261.03, 550.163.01). */
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

bool class_fits_parent(uint32_t class_id, const struct object *parent)
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
