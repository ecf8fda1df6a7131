// SPDX-License-Identifier: Apache-2.0
/* Controls that export objects to a file descriptor and import them from one, as a container calls them. */
#include "bench.h"

/* The descriptor in each control, the one that calls.c expects in a CGPU_FIND_FILE. */
#define DESCRIPTOR 9

long bench_export(struct bench *bench, const struct caller *caller, u32 client, u32 object)
{
	const struct nv_layout_NV0000_CTRL_OS_UNIX_EXPORT_OBJECT_TO_FD_PARAMS *at =
		&bench->core.abi->NV0000_CTRL_OS_UNIX_EXPORT_OBJECT_TO_FD_PARAMS;
	u8 *params = bench->segment[0];

	memset(params, 0, at->bytes);
	put32(params, at->fd, DESCRIPTOR);
	put32(params, at->object_data_rmObject_hObject, object);
	return bench_control(bench, caller, client, client, NV0000_CTRL_CMD_OS_UNIX_EXPORT_OBJECT_TO_FD, at->bytes);
}

long bench_import(struct bench *bench, const struct caller *caller, u32 client, u32 parent, u32 object)
{
	const struct nv_layout_NV0000_CTRL_OS_UNIX_IMPORT_OBJECT_FROM_FD_PARAMS *at =
		&bench->core.abi->NV0000_CTRL_OS_UNIX_IMPORT_OBJECT_FROM_FD_PARAMS;
	u8 *params = bench->segment[0];

	memset(params, 0, at->bytes);
	put32(params, at->fd, DESCRIPTOR);
	put32(params, at->object_data_rmObject_hParent, parent);
	put32(params, at->object_data_rmObject_hObject, object);
	return bench_control(bench, caller, client, client, NV0000_CTRL_CMD_OS_UNIX_IMPORT_OBJECT_FROM_FD, at->bytes);
}

/* Writes no handle past numObjects, which is behind the array objects. The field index follows numObjects. */
static void put_list(u8 *params, u32 objects_at, u32 count_at, const struct list_ask *ask)
{
	u16 count_and_index[2] = { (u16)ask->count, (u16)ask->index };
	u32 i;

	for (i = 0; i < ask->count && objects_at + 4 * i + 4 <= count_at; i++)
		put32(params, objects_at + 4 * i, ask->object[i]);
	memcpy(params + count_at, count_and_index, sizeof(count_and_index));
}

long bench_export_list(struct bench *bench, const struct caller *caller, const struct list_ask *ask)
{
	const struct nv_layout_NV0000_CTRL_OS_UNIX_EXPORT_OBJECTS_TO_FD_PARAMS *at =
		&bench->core.abi->NV0000_CTRL_OS_UNIX_EXPORT_OBJECTS_TO_FD_PARAMS;
	u8 *params = bench->segment[0];

	memset(params, 0, at->bytes);
	put32(params, at->fd, DESCRIPTOR);
	put_list(params, at->objects, at->numObjects, ask);
	return bench_control(
		bench, caller, ask->client, ask->client, NV0000_CTRL_CMD_OS_UNIX_EXPORT_OBJECTS_TO_FD, at->bytes);
}

long bench_import_list(struct bench *bench, const struct caller *caller, const struct list_ask *ask)
{
	const struct nv_layout_NV0000_CTRL_OS_UNIX_IMPORT_OBJECTS_FROM_FD_PARAMS *at =
		&bench->core.abi->NV0000_CTRL_OS_UNIX_IMPORT_OBJECTS_FROM_FD_PARAMS;
	u8 *params = bench->segment[0];

	memset(params, 0, at->bytes);
	put32(params, at->fd, DESCRIPTOR);
	put32(params, at->hParent, ask->parent);
	put_list(params, at->objects, at->numObjects, ask);
	return bench_control(
		bench, caller, ask->client, ask->client, NV0000_CTRL_CMD_OS_UNIX_IMPORT_OBJECTS_FROM_FD, at->bytes);
}
