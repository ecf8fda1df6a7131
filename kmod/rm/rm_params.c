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

static struct rm_transfer one_to_fd(const struct nv_abi *abi, uint32_t device, uint32_t object, int fd)
{
	const struct nv_layout_NV0000_CTRL_OS_UNIX_EXPORT_OBJECT_TO_FD_PARAMS *at =
		&abi->NV0000_CTRL_OS_UNIX_EXPORT_OBJECT_TO_FD_PARAMS;
	struct rm_transfer to = { NV0000_CTRL_CMD_OS_UNIX_EXPORT_OBJECT_TO_FD, at->bytes,
		at->object_data_rmObject_hObject, { 0 } };

	put32(to.params, at->object_type, NV0000_CTRL_OS_UNIX_EXPORT_OBJECT_TYPE_RM);
	put32(to.params, at->object_data_rmObject_hDevice, device);
	put32(to.params, at->object_data_rmObject_hParent, device);
	put32(to.params, at->object_data_rmObject_hObject, object);
	put32(to.params, at->fd, (uint32_t)fd);
	return to;
}

static struct rm_transfer one_from_fd(const struct nv_abi *abi, uint32_t device, uint32_t handle, int fd)
{
	const struct nv_layout_NV0000_CTRL_OS_UNIX_IMPORT_OBJECT_FROM_FD_PARAMS *at =
		&abi->NV0000_CTRL_OS_UNIX_IMPORT_OBJECT_FROM_FD_PARAMS;
	struct rm_transfer from = { NV0000_CTRL_CMD_OS_UNIX_IMPORT_OBJECT_FROM_FD, at->bytes,
		at->object_data_rmObject_hObject, { 0 } };

	put32(from.params, at->fd, (uint32_t)fd);
	put32(from.params, at->object_type, NV0000_CTRL_OS_UNIX_EXPORT_OBJECT_TYPE_RM);
	put32(from.params, at->object_data_rmObject_hDevice, device);
	put32(from.params, at->object_data_rmObject_hParent, device);
	put32(from.params, at->object_data_rmObject_hObject, handle);
	return from;
}

struct rm_transfer rm_export(const struct nv_abi *abi, uint32_t device, const uint32_t *objects, uint32_t list, int fd)
{
	const struct nv_layout_NV0000_CTRL_OS_UNIX_EXPORT_OBJECTS_TO_FD_PARAMS *at =
		&abi->NV0000_CTRL_OS_UNIX_EXPORT_OBJECTS_TO_FD_PARAMS;
	struct rm_transfer to = { NV0000_CTRL_CMD_OS_UNIX_EXPORT_OBJECTS_TO_FD, at->bytes, at->objects, { 0 } };

	if (!list)
		return one_to_fd(abi, device, objects[0], fd);
	put32(to.params, at->fd, (uint32_t)fd);
	put32(to.params, at->hDevice, device);
	put16(to.params, at->maxObjects, (uint16_t)list);
	put16(to.params, at->numObjects, (uint16_t)list);
	memcpy(to.params + at->objects, objects, list * sizeof(objects[0]));
	return to;
}

struct rm_transfer rm_import(const struct nv_abi *abi, uint32_t device, const uint32_t *handles, uint32_t list, int fd)
{
	const struct nv_layout_NV0000_CTRL_OS_UNIX_IMPORT_OBJECTS_FROM_FD_PARAMS *at =
		&abi->NV0000_CTRL_OS_UNIX_IMPORT_OBJECTS_FROM_FD_PARAMS;
	struct rm_transfer from = { NV0000_CTRL_CMD_OS_UNIX_IMPORT_OBJECTS_FROM_FD, at->bytes, at->objects, { 0 } };

	if (!list)
		return one_from_fd(abi, device, handles[0], fd);
	put32(from.params, at->fd, (uint32_t)fd);
	put32(from.params, at->hParent, device);
	put16(from.params, at->numObjects, (uint16_t)list);
	memcpy(from.params + at->objects, handles, list * sizeof(handles[0]));
	return from;
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
