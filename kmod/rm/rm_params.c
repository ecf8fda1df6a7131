// SPDX-License-Identifier: Apache-2.0
/* Parameters of classes and controls. */
#include "rm_structs.h"

void rm_memory_params(uint8_t *params, const struct nv_abi *abi, uint32_t attr, uint64_t size)
{
	const struct nv_layout_NV_MEMORY_ALLOCATION_PARAMS *at = &abi->NV_MEMORY_ALLOCATION_PARAMS;

	put32(params, at->owner, RM_OWNER);
	put32(params, at->type, NVOS32_TYPE_IMAGE);
	put32(params, at->attr, attr);
	put64(params, at->size, size);
}

void rm_export_params(uint8_t *params, const struct nv_abi *abi, uint32_t device, uint32_t object, int fd)
{
	const struct nv_layout_NV0000_CTRL_OS_UNIX_EXPORT_OBJECT_TO_FD_PARAMS *at =
		&abi->NV0000_CTRL_OS_UNIX_EXPORT_OBJECT_TO_FD_PARAMS;

	put32(params, at->object_type, NV0000_CTRL_OS_UNIX_EXPORT_OBJECT_TYPE_RM);
	put32(params, at->object_data_rmObject_hDevice, device);
	put32(params, at->object_data_rmObject_hParent, device);
	put32(params, at->object_data_rmObject_hObject, object);
	put32(params, at->fd, (uint32_t)fd);
}

void rm_import_params(uint8_t *params, const struct nv_abi *abi, uint32_t device, uint32_t handle, int fd)
{
	const struct nv_layout_NV0000_CTRL_OS_UNIX_IMPORT_OBJECT_FROM_FD_PARAMS *at =
		&abi->NV0000_CTRL_OS_UNIX_IMPORT_OBJECT_FROM_FD_PARAMS;

	put32(params, at->fd, (uint32_t)fd);
	put32(params, at->object_type, NV0000_CTRL_OS_UNIX_EXPORT_OBJECT_TYPE_RM);
	put32(params, at->object_data_rmObject_hDevice, device);
	put32(params, at->object_data_rmObject_hParent, device);
	put32(params, at->object_data_rmObject_hObject, handle);
}

void rm_export_list_params(
	uint8_t *params, const struct nv_abi *abi, uint32_t device, const uint32_t *objects, uint32_t count, int fd)
{
	const struct nv_layout_NV0000_CTRL_OS_UNIX_EXPORT_OBJECTS_TO_FD_PARAMS *at =
		&abi->NV0000_CTRL_OS_UNIX_EXPORT_OBJECTS_TO_FD_PARAMS;
	uint32_t i;

	put32(params, at->fd, (uint32_t)fd);
	put32(params, at->hDevice, device);
	put16(params, at->maxObjects, (uint16_t)count);
	put16(params, at->numObjects, (uint16_t)count);
	for (i = 0; i < count; i++)
		put32(params + 4 * i, at->objects, objects[i]);
}

void rm_import_list_params(
	uint8_t *params, const struct nv_abi *abi, uint32_t device, const uint32_t *handles, uint32_t count, int fd)
{
	const struct nv_layout_NV0000_CTRL_OS_UNIX_IMPORT_OBJECTS_FROM_FD_PARAMS *at =
		&abi->NV0000_CTRL_OS_UNIX_IMPORT_OBJECTS_FROM_FD_PARAMS;
	uint32_t i;

	put32(params, at->fd, (uint32_t)fd);
	put32(params, at->hParent, device);
	put16(params, at->numObjects, (uint16_t)count);
	for (i = 0; i < count; i++)
		put32(params + 4 * i, at->objects, handles[i]);
}

void rm_heap_sizes_ask(uint8_t *list, const struct nv_abi *abi)
{
	const struct nv_layout_NV2080_CTRL_FB_INFO *at = &abi->NV2080_CTRL_FB_INFO;

	put32(list, at->index, NV2080_CTRL_FB_INFO_INDEX_HEAP_SIZE);
	put32(list + at->bytes, at->index, NV2080_CTRL_FB_INFO_INDEX_HEAP_FREE);
}

void rm_heap_sizes_read(const uint8_t *list, const struct nv_abi *abi, uint64_t *total, uint64_t *free)
{
	const struct nv_layout_NV2080_CTRL_FB_INFO *at = &abi->NV2080_CTRL_FB_INFO;

	*total = (uint64_t)get32(list, at->data) << 10;
	*free = (uint64_t)get32(list + at->bytes, at->data) << 10;
}
