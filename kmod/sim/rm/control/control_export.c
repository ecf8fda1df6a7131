// SPDX-License-Identifier: Apache-2.0
/* Objects that go to other processes by way of a descriptor (arch/nvalloc/unix/src/os.c:2238-2670). */
#include <stdlib.h>

#include "control.h"

static uint32_t do_export_object(struct control *control, struct object *root)
{
	const __auto_type at = &control->abi->NV0000_CTRL_OS_UNIX_EXPORT_OBJECT_TO_FD_PARAMS;
	const uint8_t *params = control->params;
	uint32_t flags = get32(params, at->flags), handle, device, status;

	if (flags >> NV0000_CTRL_OS_UNIX_EXPORT_OBJECT_TO_FD_FLAGS_EMPTY_FD_SHIFT &
		NV0000_CTRL_OS_UNIX_EXPORT_OBJECT_TO_FD_FLAGS_EMPTY_FD_MASK)
		return NV_ERR_INVALID_PARAMETER;
	if (get32(params, at->object_type) != NV0000_CTRL_OS_UNIX_EXPORT_OBJECT_TYPE_RM)
		return NV_ERR_INVALID_PARAMETER;
	status = export_object(control->sim, root->client, get32(params, at->object_data_rmObject_hObject),
		control->process, &handle, &device);
	if (status != NV_OK)
		return status;
	status = control->file ? exports_prepare(control->sim, root->client, control->file,
					 get32(params, at->object_data_rmObject_hDevice), 1, NULL) :
				 NV_ERR_INVALID_PARAMETER;
	if (status == NV_OK)
		control->file->exports->handle[0] = handle;
	else
		export_forget(control->sim, handle);
	return status;
}

/* Exports all or none: a failure frees the duplicates that were made before. */
static uint32_t export_into(
	struct control *control, const struct client *client, struct exports *exports, uint16_t count, uint16_t index)
{
	uint16_t objects_at = control->abi->NV0000_CTRL_OS_UNIX_EXPORT_OBJECTS_TO_FD_PARAMS.objects;
	const uint8_t *objects = control->params + objects_at;
	uint32_t *made = calloc(count ? count : 1, sizeof(*made));
	uint32_t device, object, status = made ? NV_OK : NV_ERR_NO_MEMORY, i;

	for (i = 0; i < count && status == NV_OK; i++) {
		object = get32(objects + 4 * i, 0);
		if (object == 0)
			continue;
		status = export_object(control->sim, client, object, control->process, &made[i], &device);
		if (status == NV_OK && device != exports->device)
			status = NV_ERR_INVALID_PARAMETER;
	}
	for (i = 0; made && i < count; i++) {
		uint32_t *old = status == NV_OK ? &exports->handle[index + i] : &made[i];

		if (*old != 0)
			export_forget(control->sim, *old);
		if (status == NV_OK)
			*old = made[i];
	}
	free(made);
	return status;
}

static uint32_t do_export_objects(struct control *control, struct object *root)
{
	const __auto_type at = &control->abi->NV0000_CTRL_OS_UNIX_EXPORT_OBJECTS_TO_FD_PARAMS;
	const uint8_t *params = control->params;
	uint16_t count = get16(params, at->numObjects), index = get16(params, at->index);
	uint16_t most = get16(params, at->maxObjects);
	bool fresh = control->file && !control->file->exports;
	uint32_t status = control->file && (most != 0 || !fresh) ? NV_OK : NV_ERR_INVALID_PARAMETER;

	if (status == NV_OK && fresh)
		status = exports_prepare(control->sim, root->client, control->file, get32(params, at->hDevice), most,
			params + at->metadata);
	if (status != NV_OK)
		return status;
	if (count > (at->numObjects - at->objects) / 4)
		status = NV_ERR_INVALID_PARAMETER;
	else if (count + index > control->file->exports->count)
		status = NV_ERR_OUT_OF_RANGE;
	else
		status = export_into(control, root->client, control->file->exports, count, index);
	if (status != NV_OK && fresh)
		exports_drop(control->sim, control->file);
	return status;
}

static uint32_t do_create_export(struct control *control, struct object *root)
{
	const __auto_type at = &control->abi->NV0000_CTRL_OS_UNIX_CREATE_EXPORT_OBJECT_FD_PARAMS;
	const uint8_t *params = control->params;

	if (!control->file || get16(params, at->maxObjects) == 0)
		return NV_ERR_INVALID_PARAMETER;
	return exports_prepare(control->sim, root->client, control->file, get32(params, at->hDevice),
		get16(params, at->maxObjects), params + at->metadata);
}

static uint32_t do_export_info(struct control *control, struct object *root)
{
	const __auto_type at = &control->abi->NV0000_CTRL_OS_UNIX_GET_EXPORT_OBJECT_INFO_PARAMS;
	const struct exports *exports = control->file ? control->file->exports : NULL;
	uint8_t *params = control->params;

	(void)root;
	if (!exports)
		return NV_ERR_INVALID_PARAMETER;
	put16(params, at->maxObjects, exports->count);
	put32(params, at->deviceInstance,
		exports->device < SIM_MAX_CARDS ? control->sim->cards[exports->device].instance : exports->device);
	put32(params, at->gpuInstanceId, UINT32_MAX);
	memcpy(params + at->metadata, exports->metadata, sizeof(exports->metadata));
	return NV_OK;
}

static uint32_t do_import_object(struct control *control, struct object *root)
{
	const __auto_type at = &control->abi->NV0000_CTRL_OS_UNIX_IMPORT_OBJECT_FROM_FD_PARAMS;
	const struct exports *exports = control->file ? control->file->exports : NULL;
	uint8_t *params = control->params;
	uint32_t object = get32(params, at->object_data_rmObject_hObject), status;

	if (get32(params, at->object_type) != NV0000_CTRL_OS_UNIX_EXPORT_OBJECT_TYPE_RM)
		return NV_ERR_INVALID_PARAMETER;
	if (!exports || exports->count < 1 || exports->handle[0] == 0)
		return NV_ERR_INVALID_PARAMETER;
	/* Up to 575 this form imports nothing from a file for several. */
	if (exports->count > 1 && !version_at_least(control->sim, 580, 65, 6))
		return NV_ERR_INVALID_PARAMETER;
	status = import_object(control->sim, root->client, get32(params, at->object_data_rmObject_hParent),
		exports->handle[0], &object, NULL);
	put32(params, at->object_data_rmObject_hObject, object);
	return status;
}

/* Imports one object of a list; a place without an export has nothing to import. */
static uint32_t import_at(struct control *control, struct client *client, uint32_t handle, uint32_t i)
{
	const __auto_type at = &control->abi->NV0000_CTRL_OS_UNIX_IMPORT_OBJECTS_FROM_FD_PARAMS;
	uint8_t *params = control->params, *type = params + at->objectTypes + i;
	uint32_t object = get32(params + 4 * i, at->objects), status;

	if (handle == 0) {
		*type = NV0000_CTRL_CMD_OS_UNIX_IMPORT_OBJECT_TYPE_NONE;
		return NV_OK;
	}
	status = import_object(control->sim, client, get32(params, at->hParent), handle, &object, type);
	put32(params + 4 * i, at->objects, object);
	return status;
}

/* The driver frees by name, also where it has imported nothing. */
static void import_undo(struct control *control, struct client *client, uint32_t count)
{
	const uint8_t *objects =
		control->params + control->abi->NV0000_CTRL_OS_UNIX_IMPORT_OBJECTS_FROM_FD_PARAMS.objects;
	bool whole = false;

	while (count > 0 && !whole) {
		uint32_t object = get32(objects + 4 * --count, 0);

		whole = object == client->handle;
		if (object != 0)
			free_handle(control->sim, client, object);
	}
}

static uint32_t do_import_objects(struct control *control, struct object *root)
{
	const __auto_type at = &control->abi->NV0000_CTRL_OS_UNIX_IMPORT_OBJECTS_FROM_FD_PARAMS;
	const struct exports *exports = control->file ? control->file->exports : NULL;
	uint8_t *params = control->params;
	uint16_t count = get16(params, at->numObjects), index = get16(params, at->index);
	uint32_t status = NV_OK, i = 0;

	if (!exports || count > (at->objectTypes - at->objects) / 4)
		return NV_ERR_INVALID_PARAMETER;
	if (count + index > exports->count)
		return NV_ERR_OUT_OF_RANGE;
	while (i < count && status == NV_OK) {
		status = import_at(control, root->client, exports->handle[index + i], i);
		i += status == NV_OK;
	}
	if (status != NV_OK)
		import_undo(control, root->client, i);
	return status;
}

#define FILE_CONTROL(name, function)                                                                                \
	.command = NV0000_CTRL_CMD_OS_UNIX_##name, NV_PARAMS(NV0000_CTRL_OS_UNIX_##name##_PARAMS), .run = function, \
	.descriptor_at = offsetof(struct nv_abi, NV0000_CTRL_OS_UNIX_##name##_PARAMS.fd)

static const struct control_entry entries[] = {
	{ FILE_CONTROL(EXPORT_OBJECT_TO_FD, do_export_object) },
	{ FILE_CONTROL(EXPORT_OBJECTS_TO_FD, do_export_objects) },
	{ FILE_CONTROL(CREATE_EXPORT_OBJECT_FD, do_create_export) },
	{ FILE_CONTROL(GET_EXPORT_OBJECT_INFO, do_export_info) },
	{ FILE_CONTROL(IMPORT_OBJECT_FROM_FD, do_import_object) },
	{ FILE_CONTROL(IMPORT_OBJECTS_FROM_FD, do_import_objects) },
};

const struct control_set controls_export = CONTROL_SET(entries);
