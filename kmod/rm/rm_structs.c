// SPDX-License-Identifier: Apache-2.0
/* Structures of calls that make, free and control objects. */
#include "rm_structs.h"

/* Where a form of RM_ALLOC has its fields. */
struct alloc_form {
	uint16_t bytes, root, parent, object, class_id, params, params_size, status;
};

#define ALLOC_FORM(at)                                                                                      \
	(struct alloc_form)                                                                                 \
	{                                                                                                   \
		(at).bytes, (at).hRoot, (at).hObjectParent, (at).hObjectNew, (at).hClass, (at).pAllocParms, \
			(at).paramsSize, (at).status                                                        \
	}

struct rm_ioctl rm_alloc_ioctl(const struct nv_abi *abi, enum via via, uint32_t client, uint32_t parent,
	uint32_t handle, uint32_t class_id, const void *params, uint32_t bytes)
{
	const struct alloc_form at =
		via == VIA_RM21 ? ALLOC_FORM(abi->NVOS21_PARAMETERS) : ALLOC_FORM(abi->NVOS64_PARAMETERS);
	struct rm_ioctl alloc = { .nr = NV_ESC_RM_ALLOC, .bytes = at.bytes, .status = at.status, .handle = at.object };

	put32(alloc.data, at.root, client);
	put32(alloc.data, at.parent, parent);
	put32(alloc.data, at.object, handle);
	put32(alloc.data, at.class_id, class_id);
	put64(alloc.data, at.params, (uintptr_t)params);
	put32(alloc.data, at.params_size, bytes);
	return alloc;
}

struct rm_ioctl rm_free_ioctl(const struct nv_abi *abi, uint32_t client, uint32_t parent, uint32_t handle)
{
	const struct nv_layout_NVOS00_PARAMETERS *at = &abi->NVOS00_PARAMETERS;
	struct rm_ioctl free = {
		.nr = NV_ESC_RM_FREE, .bytes = at->bytes, .status = at->status, .handle = NV_ABI_ABSENT
	};

	put32(free.data, at->hRoot, client);
	put32(free.data, at->hObjectParent, parent);
	put32(free.data, at->hObjectOld, handle);
	return free;
}

struct rm_ioctl rm_control_ioctl(const struct nv_abi *abi, uint32_t client, uint32_t object, uint32_t command,
	const void *params, uint32_t bytes)
{
	const struct nv_layout_NVOS54_PARAMETERS *at = &abi->NVOS54_PARAMETERS;
	struct rm_ioctl control = {
		.nr = NV_ESC_RM_CONTROL, .bytes = at->bytes, .status = at->status, .handle = NV_ABI_ABSENT
	};

	put32(control.data, at->hClient, client);
	put32(control.data, at->hObject, object);
	put32(control.data, at->cmd, command);
	put64(control.data, at->params, (uintptr_t)params);
	put32(control.data, at->paramsSize, bytes);
	return control;
}

struct rm_ioctl rm_dup_ioctl(const struct nv_abi *abi, uint32_t client, uint32_t parent, uint32_t handle,
	uint32_t source_client, uint32_t source)
{
	const struct nv_layout_NVOS55_PARAMETERS *at = &abi->NVOS55_PARAMETERS;
	struct rm_ioctl dup = {
		.nr = NV_ESC_RM_DUP_OBJECT, .bytes = at->bytes, .status = at->status, .handle = at->hObject
	};

	put32(dup.data, at->hClient, client);
	put32(dup.data, at->hParent, parent);
	put32(dup.data, at->hObject, handle);
	put32(dup.data, at->hClientSrc, source_client);
	put32(dup.data, at->hObjectSrc, source);
	return dup;
}

struct rm_ioctl rm_heap_ioctl(const struct nv_abi *abi, uint32_t client, uint32_t device, uint32_t function)
{
	const struct nv_layout_NVOS32_PARAMETERS *at = &abi->NVOS32_PARAMETERS;
	struct rm_ioctl heap = {
		.nr = NV_ESC_RM_VID_HEAP_CONTROL, .bytes = at->bytes, .status = at->status, .handle = NV_ABI_ABSENT
	};

	put32(heap.data, at->hRoot, client);
	put32(heap.data, at->hObjectParent, device);
	put32(heap.data, at->function, function);
	return heap;
}

struct rm_ioctl rm_heap_free_ioctl(const struct nv_abi *abi, uint32_t client, uint32_t device, uint32_t handle)
{
	const struct nv_layout_NVOS32_PARAMETERS *at = &abi->NVOS32_PARAMETERS;
	struct rm_ioctl heap = rm_heap_ioctl(abi, client, device, NVOS32_FUNCTION_FREE);

	put32(heap.data, at->data_Free_owner, RM_OWNER);
	put32(heap.data, at->data_Free_hMemory, handle);
	put32(heap.data, at->data_Free_flags, NVOS32_FREE_FLAGS_MEMORY_HANDLE_PROVIDED);
	return heap;
}

#define FORM(number, name)                                                                                             \
	(struct rm_heap_form)                                                                                          \
	{                                                                                                              \
		.function = NVOS32_FUNCTION_##number, .owner = at->data_##name##_owner,                                \
		.handle = at->data_##name##_hMemory, .type = at->data_##name##_type, .flags = at->data_##name##_flags, \
		.attr = at->data_##name##_attr, .attr2 = at->data_##name##_attr2, .size = at->data_##name##_size,      \
		.offset = at->data_##name##_offset, .limit = at->data_##name##_limit                                   \
	}

struct rm_heap_form rm_heap_form(const struct nv_abi *abi, enum via via)
{
	const struct nv_layout_NVOS32_PARAMETERS *at = &abi->NVOS32_PARAMETERS;

	if (via == VIA_RANGE)
		return FORM(ALLOC_SIZE_RANGE, AllocSizeRange);
	if (via == VIA_TILED)
		return FORM(ALLOC_TILED_PITCH_HEIGHT, AllocTiledPitchHeight);
	return FORM(ALLOC_SIZE, AllocSize);
}

struct rm_ioctl rm_heap_alloc_ioctl(const struct nv_abi *abi, enum via via, uint32_t client, uint32_t device,
	uint32_t handle, uint32_t attr, uint64_t size)
{
	const struct nv_layout_NVOS32_PARAMETERS *at = &abi->NVOS32_PARAMETERS;
	const struct rm_heap_form form = rm_heap_form(abi, via);
	struct rm_ioctl heap = rm_heap_ioctl(abi, client, device, form.function);

	heap.handle = form.handle;
	put32(heap.data, form.owner, RM_OWNER);
	put32(heap.data, form.handle, handle);
	put32(heap.data, form.flags, handle ? NVOS32_ALLOC_FLAGS_MEMORY_HANDLE_PROVIDED : 0);
	/* After the flags: with a table that has the type in the place of the flags, cgpu-check-driver finds them cleared. */
	put32(heap.data, form.type, NVOS32_TYPE_IMAGE);
	put32(heap.data, form.attr, attr);
	put64(heap.data, form.size, via == VIA_TILED ? 0 : size);
	if (via == VIA_TILED) {
		put32(heap.data, at->data_AllocTiledPitchHeight_height, (uint32_t)((size + RM_LINE - 1) / RM_LINE));
		put32(heap.data, at->data_AllocTiledPitchHeight_pitch, RM_LINE);
	}
	return heap;
}
