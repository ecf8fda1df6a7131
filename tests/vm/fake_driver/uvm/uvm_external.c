// SPDX-License-Identifier: GPL-2.0
/* Ranges of memory that a client allocated with the RM: a mapping holds a duplicate (uvm_map_external.c). */
#include <linux/mm.h>
#include <linux/slab.h>

#include "uvm.h"

struct mapping {
	struct list_head node;
	u64 base;
	u64 end;
	struct uvm_gpu *gpu;
	u32 handle;
};

struct external_range {
	struct uvm_va_range range;
	struct list_head mappings;
};

static struct external_range *external_of(struct uvm_va_range *range)
{
	return container_of(range, struct external_range, range);
}

static struct external_range *find(const struct uvm_va_space *space, u64 base, u64 length)
{
	struct uvm_va_range *range = uvm_va_range_find(space, base);

	if (!range || range->type != UVM_VA_RANGE_TYPE_EXTERNAL || base + length - 1 > range->node.end)
		return NULL;
	return external_of(range);
}

static void drop(struct mapping *mapping)
{
	nvUvmInterfaceFreeDupedHandle(mapping->gpu->device, mapping->handle);
	uvm_gpu_put(mapping->gpu);
	list_del(&mapping->node);
	kfree(mapping);
}

/* What lies wholly inside; one that sticks out keeps its memory, as a remainder of it stays mapped. */
static void drop_inside(struct external_range *range, const struct uvm_gpu *gpu, u64 base, u64 end)
{
	struct mapping *at, *next;

	list_for_each_entry_safe(at, next, &range->mappings, node) {
		if ((!gpu || at->gpu == gpu) && at->base >= base && at->end <= end)
			drop(at);
	}
}

void uvm_external_destroy(struct uvm_va_range *range)
{
	struct external_range *external = external_of(range);

	drop_inside(external, NULL, range->node.start, range->node.end + 1);
	kfree(external);
}

void uvm_external_drop_gpu(struct uvm_va_space *space, const struct uvm_gpu *gpu)
{
	struct uvm_va_range *at;

	for (at = uvm_va_range_first(space); at; at = uvm_va_range_next(at)) {
		if (at->type == UVM_VA_RANGE_TYPE_EXTERNAL)
			drop_inside(external_of(at), gpu, at->node.start, at->node.end + 1);
	}
}

u32 uvm_api_create_external_range(struct uvm_va_space *space, u8 *params)
{
	const struct nv_layout_UVM_CREATE_EXTERNAL_RANGE_PARAMS *at = &fake_abi()->UVM_CREATE_EXTERNAL_RANGE_PARAMS;
	u64 base = get64(params, at->base), length = get64(params, at->length);
	struct external_range *external;
	u32 status;

	if (!uvm_span_is_valid(base, length))
		return NV_ERR_INVALID_ADDRESS;
	external = kzalloc(sizeof(*external), GFP_KERNEL);
	if (!external)
		return NV_ERR_NO_MEMORY;
	INIT_LIST_HEAD(&external->mappings);
	uvm_va_range_init(&external->range, space, base, base + length - 1, UVM_VA_RANGE_TYPE_EXTERNAL);
	status = uvm_va_range_add(&external->range);
	if (status != NV_OK)
		uvm_va_range_destroy(&external->range, NULL);
	return status;
}

static u32 map_on(struct external_range *range, struct uvm_gpu *gpu, const u8 *params)
{
	const struct nv_layout_UVM_MAP_EXTERNAL_ALLOCATION_PARAMS *at = &fake_abi()->UVM_MAP_EXTERNAL_ALLOCATION_PARAMS;
	u64 base = get64(params, at->base), length = get64(params, at->length), offset = get64(params, at->offset);
	struct mapping *mapping;
	UvmGpuMemoryInfo info;
	u32 status;

	/* A new mapping takes the place of an old one. */
	drop_inside(range, gpu, base, base + length);
	mapping = kzalloc(sizeof(*mapping), GFP_KERNEL);
	if (!mapping)
		return NV_ERR_NO_MEMORY;
	status = nvUvmInterfaceDupMemory(
		gpu->device, get32(params, at->hClient), get32(params, at->hMemory), &mapping->handle, &info);
	if (status != NV_OK) {
		kfree(mapping);
		return status;
	}
	uvm_gpu_hold(gpu);
	mapping->gpu = gpu;
	mapping->base = base;
	mapping->end = base + length;
	list_add(&mapping->node, &range->mappings);
	if (!info.sysmem && (offset > info.size || length > info.size - offset)) {
		drop(mapping);
		return NV_ERR_INVALID_ARGUMENT;
	}
	return NV_OK;
}

u32 uvm_api_map_external_allocation(struct uvm_va_space *space, u8 *params)
{
	const struct nv_abi *abi = fake_abi();
	const struct nv_layout_UVM_MAP_EXTERNAL_ALLOCATION_PARAMS *at = &abi->UVM_MAP_EXTERNAL_ALLOCATION_PARAMS;
	const u8 *attributes = params + at->perGpuAttributes;
	u64 base = get64(params, at->base), length = get64(params, at->length), count, i;
	u64 room = (at->gpuAttributesCount - at->perGpuAttributes) / abi->UvmGpuMappingAttributes.bytes;
	struct external_range *range;
	u32 status = NV_OK;

	count = get64(params, at->gpuAttributesCount);
	if (!uvm_span_is_valid(base, length))
		return NV_ERR_INVALID_ADDRESS;
	if (count == 0 || count > room)
		return NV_ERR_INVALID_ARGUMENT;
	range = find(space, base, length);
	if (!range)
		return NV_ERR_INVALID_ADDRESS;
	for (i = 0; i < count && status == NV_OK; i++, attributes += abi->UvmGpuMappingAttributes.bytes) {
		struct uvm_gpu **gpu = uvm_space_gpu(space, attributes + abi->UvmGpuMappingAttributes.gpuUuid);

		if (!gpu || !space->address_spaces[gpu - space->gpus])
			status = NV_ERR_INVALID_DEVICE;
		else
			status = map_on(range, *gpu, params);
	}
	if (status != NV_OK)
		drop_inside(range, NULL, base, base + length);
	return status;
}

u32 uvm_api_unmap_external(struct uvm_va_space *space, u8 *params)
{
	const struct nv_layout_UVM_UNMAP_EXTERNAL_PARAMS *at = &fake_abi()->UVM_UNMAP_EXTERNAL_PARAMS;
	u64 base = get64(params, at->base), length = get64(params, at->length);
	struct uvm_gpu **gpu = uvm_space_gpu(space, params + at->gpuUuid);
	struct external_range *range;

	if (!uvm_span_is_valid(base, length))
		return NV_ERR_INVALID_ADDRESS;
	if (!gpu || !space->address_spaces[gpu - space->gpus])
		return NV_ERR_INVALID_DEVICE;
	range = find(space, base, length);
	if (!range)
		return NV_ERR_INVALID_ADDRESS;
	drop_inside(range, *gpu, base, base + length);
	return NV_OK;
}

u32 uvm_api_free(struct uvm_va_space *space, u8 *params)
{
	u64 base = get64(params, fake_abi()->UVM_FREE_PARAMS.base);
	struct uvm_va_range *range = uvm_va_range_find(space, base);

	if (!range || range->type == UVM_VA_RANGE_TYPE_MANAGED || range->node.start != base)
		return NV_ERR_INVALID_ADDRESS;
	uvm_va_range_destroy(range, NULL);
	return NV_OK;
}
