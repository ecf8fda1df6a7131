// SPDX-License-Identifier: Apache-2.0
/* Objects that go to other processes by way of a descriptor (arch/nvalloc/unix/src/os.c:2238-2670). */
#include <stdlib.h>

#include "control.h"

/* What these controls work on; the lock is held. */
struct subject {
	struct control *control;
	struct sim *sim;
	struct client *client;
	/* NULL: the descriptor leads to no nvidiactl of this driver. */
	struct open_file *file;
	pid_t process;
};

static uint32_t with_file(struct control *control, uint16_t descriptor_at, uint32_t (*work)(struct subject *subject))
{
	const struct nv_layout_NVOS54_PARAMETERS *at = &control->call->sim->abi->NVOS54_PARAMETERS;
	struct subject subject = { .control = control, .sim = control->call->sim };
	int descriptor = (int)get32(control->params, descriptor_at);
	intptr_t hold = -1;
	uint64_t id = file_resolve(control->call, descriptor, &hold);
	uint32_t status;

	subject.process = caller_process(&control->call->caller);
	pthread_mutex_lock(&subject.sim->lock);
	status = client_for_call(control->call, get32(control->call->data, at->hClient), &subject.client);
	subject.file = id == 0 ? NULL : file_find(subject.sim, id);
	if (subject.file && subject.file->card != SIM_NO_CARD)
		subject.file = NULL;
	if (status == NV_OK)
		status = work(&subject);
	pthread_mutex_unlock(&subject.sim->lock);
	if (id != 0)
		file_let_go(hold);
	return status;
}

static uint32_t export_one(struct subject *subject)
{
	const struct nv_layout_NV0000_CTRL_OS_UNIX_EXPORT_OBJECT_TO_FD_PARAMS *at =
		&subject->sim->abi->NV0000_CTRL_OS_UNIX_EXPORT_OBJECT_TO_FD_PARAMS;
	const uint8_t *params = subject->control->params;
	uint32_t handle, device, status;

	status = export_object(subject->sim, subject->client, get32(params, at->object_data_rmObject_hObject),
		subject->process, &handle, &device);
	if (status != NV_OK)
		return status;
	status = subject->file ? exports_prepare(subject->sim, subject->client, subject->file,
					 get32(params, at->object_data_rmObject_hDevice), 1, NULL) :
				 NV_ERR_INVALID_PARAMETER;
	if (status == NV_OK)
		subject->file->exports->handle[0] = handle;
	else
		export_forget(subject->sim, handle);
	return status;
}

static uint32_t control_export_object(struct control *control)
{
	const struct nv_layout_NV0000_CTRL_OS_UNIX_EXPORT_OBJECT_TO_FD_PARAMS *at =
		&control->call->sim->abi->NV0000_CTRL_OS_UNIX_EXPORT_OBJECT_TO_FD_PARAMS;
	uint32_t flags = get32(control->params, at->flags);

	if (flags >> NV0000_CTRL_OS_UNIX_EXPORT_OBJECT_TO_FD_FLAGS_EMPTY_FD_SHIFT &
		NV0000_CTRL_OS_UNIX_EXPORT_OBJECT_TO_FD_FLAGS_EMPTY_FD_MASK)
		return NV_ERR_INVALID_PARAMETER;
	if (get32(control->params, at->object_type) != NV0000_CTRL_OS_UNIX_EXPORT_OBJECT_TYPE_RM)
		return NV_ERR_INVALID_PARAMETER;
	return with_file(control, at->fd, export_one);
}

/* All or none: what was made before a failure goes again. */
static uint32_t export_into(struct subject *subject, struct exports *exports, uint16_t count, uint16_t index)
{
	uint16_t objects_at = subject->sim->abi->NV0000_CTRL_OS_UNIX_EXPORT_OBJECTS_TO_FD_PARAMS.objects;
	const uint8_t *objects = subject->control->params + objects_at;
	uint32_t *made = calloc(count ? count : 1, sizeof(*made));
	uint32_t device, object, status = made ? NV_OK : NV_ERR_NO_MEMORY, i;

	for (i = 0; i < count && status == NV_OK; i++) {
		object = get32(objects + 4 * i, 0);
		if (object == 0)
			continue;
		status = export_object(subject->sim, subject->client, object, subject->process, &made[i], &device);
		if (status == NV_OK && device != exports->device)
			status = NV_ERR_INVALID_PARAMETER;
	}
	for (i = 0; made && i < count; i++) {
		uint32_t *old = status == NV_OK ? &exports->handle[index + i] : &made[i];

		if (*old != 0)
			export_forget(subject->sim, *old);
		if (status == NV_OK)
			*old = made[i];
	}
	free(made);
	return status;
}

static uint32_t export_many(struct subject *subject)
{
	const struct nv_layout_NV0000_CTRL_OS_UNIX_EXPORT_OBJECTS_TO_FD_PARAMS *at =
		&subject->sim->abi->NV0000_CTRL_OS_UNIX_EXPORT_OBJECTS_TO_FD_PARAMS;
	const uint8_t *params = subject->control->params;
	uint16_t count = get16(params, at->numObjects), index = get16(params, at->index);
	uint16_t most = get16(params, at->maxObjects);
	bool fresh = subject->file && !subject->file->exports;
	uint32_t status = subject->file && (most != 0 || !fresh) ? NV_OK : NV_ERR_INVALID_PARAMETER;

	if (status == NV_OK && fresh)
		status = exports_prepare(subject->sim, subject->client, subject->file, get32(params, at->hDevice), most,
			params + at->metadata);
	if (status != NV_OK)
		return status;
	if (count > (at->numObjects - at->objects) / 4)
		status = NV_ERR_INVALID_PARAMETER;
	else if (count + index > subject->file->exports->count)
		status = NV_ERR_OUT_OF_RANGE;
	else
		status = export_into(subject, subject->file->exports, count, index);
	if (status != NV_OK && fresh)
		exports_drop(subject->sim, subject->file);
	return status;
}

static uint32_t control_export_objects(struct control *control)
{
	return with_file(
		control, control->call->sim->abi->NV0000_CTRL_OS_UNIX_EXPORT_OBJECTS_TO_FD_PARAMS.fd, export_many);
}

static uint32_t create(struct subject *subject)
{
	const struct nv_layout_NV0000_CTRL_OS_UNIX_CREATE_EXPORT_OBJECT_FD_PARAMS *at =
		&subject->sim->abi->NV0000_CTRL_OS_UNIX_CREATE_EXPORT_OBJECT_FD_PARAMS;
	const uint8_t *params = subject->control->params;

	if (!subject->file || get16(params, at->maxObjects) == 0)
		return NV_ERR_INVALID_PARAMETER;
	return exports_prepare(subject->sim, subject->client, subject->file, get32(params, at->hDevice),
		get16(params, at->maxObjects), params + at->metadata);
}

static uint32_t control_export_create(struct control *control)
{
	return with_file(
		control, control->call->sim->abi->NV0000_CTRL_OS_UNIX_CREATE_EXPORT_OBJECT_FD_PARAMS.fd, create);
}

static uint32_t tell(struct subject *subject)
{
	const struct nv_layout_NV0000_CTRL_OS_UNIX_GET_EXPORT_OBJECT_INFO_PARAMS *at =
		&subject->sim->abi->NV0000_CTRL_OS_UNIX_GET_EXPORT_OBJECT_INFO_PARAMS;
	const struct exports *exports = subject->file ? subject->file->exports : NULL;
	uint8_t *params = subject->control->params;

	if (!exports)
		return NV_ERR_INVALID_PARAMETER;
	put16(params, at->maxObjects, exports->count);
	put32(params, at->deviceInstance,
		exports->device < SIM_MAX_CARDS ? subject->sim->cards[exports->device].instance : exports->device);
	put32(params, at->gpuInstanceId, UINT32_MAX);
	memcpy(params + at->metadata, exports->metadata, sizeof(exports->metadata));
	return NV_OK;
}

static uint32_t control_export_info(struct control *control)
{
	return with_file(control, control->call->sim->abi->NV0000_CTRL_OS_UNIX_GET_EXPORT_OBJECT_INFO_PARAMS.fd, tell);
}

static uint32_t import_one(struct subject *subject)
{
	const struct nv_layout_NV0000_CTRL_OS_UNIX_IMPORT_OBJECT_FROM_FD_PARAMS *at =
		&subject->sim->abi->NV0000_CTRL_OS_UNIX_IMPORT_OBJECT_FROM_FD_PARAMS;
	const struct exports *exports = subject->file ? subject->file->exports : NULL;
	uint8_t *params = subject->control->params;
	uint32_t object = get32(params, at->object_data_rmObject_hObject), status;

	if (!exports || exports->count < 1 || exports->handle[0] == 0)
		return NV_ERR_INVALID_PARAMETER;
	/* Up to 575 this form took nothing from a file for several. */
	if (exports->count > 1 && !version_at_least(subject->sim, 580, 65, 6))
		return NV_ERR_INVALID_PARAMETER;
	status = import_object(subject->sim, subject->client, get32(params, at->object_data_rmObject_hParent),
		exports->handle[0], &object, NULL);
	put32(params, at->object_data_rmObject_hObject, object);
	return status;
}

static uint32_t control_import_object(struct control *control)
{
	const struct nv_layout_NV0000_CTRL_OS_UNIX_IMPORT_OBJECT_FROM_FD_PARAMS *at =
		&control->call->sim->abi->NV0000_CTRL_OS_UNIX_IMPORT_OBJECT_FROM_FD_PARAMS;

	if (get32(control->params, at->object_type) != NV0000_CTRL_OS_UNIX_EXPORT_OBJECT_TYPE_RM)
		return NV_ERR_INVALID_PARAMETER;
	return with_file(control, at->fd, import_one);
}

/* One of a list; where nothing was exported there is nothing to import. */
static uint32_t import_at(struct subject *subject, uint32_t handle, uint32_t i)
{
	const struct nv_layout_NV0000_CTRL_OS_UNIX_IMPORT_OBJECTS_FROM_FD_PARAMS *at =
		&subject->sim->abi->NV0000_CTRL_OS_UNIX_IMPORT_OBJECTS_FROM_FD_PARAMS;
	uint8_t *params = subject->control->params, *type = params + at->objectTypes + i;
	uint32_t object = get32(params + 4 * i, at->objects), status;

	if (handle == 0) {
		*type = NV0000_CTRL_CMD_OS_UNIX_IMPORT_OBJECT_TYPE_NONE;
		return NV_OK;
	}
	status = import_object(subject->sim, subject->client, get32(params, at->hParent), handle, &object, type);
	put32(params + 4 * i, at->objects, object);
	return status;
}

/* The driver frees by name, also where it has imported nothing. */
static void import_undo(struct subject *subject, uint32_t count)
{
	const uint8_t *objects =
		subject->control->params + subject->sim->abi->NV0000_CTRL_OS_UNIX_IMPORT_OBJECTS_FROM_FD_PARAMS.objects;
	bool whole = false;

	while (count > 0 && !whole) {
		uint32_t object = get32(objects + 4 * --count, 0);

		whole = object == subject->client->handle;
		if (object != 0)
			free_handle(subject->sim, subject->client, object);
	}
}

static uint32_t import_many(struct subject *subject)
{
	const struct nv_layout_NV0000_CTRL_OS_UNIX_IMPORT_OBJECTS_FROM_FD_PARAMS *at =
		&subject->sim->abi->NV0000_CTRL_OS_UNIX_IMPORT_OBJECTS_FROM_FD_PARAMS;
	const struct exports *exports = subject->file ? subject->file->exports : NULL;
	uint8_t *params = subject->control->params;
	uint16_t count = get16(params, at->numObjects), index = get16(params, at->index);
	uint32_t status = NV_OK, i = 0;

	if (!exports || count > (at->objectTypes - at->objects) / 4)
		return NV_ERR_INVALID_PARAMETER;
	if (count + index > exports->count)
		return NV_ERR_OUT_OF_RANGE;
	while (i < count && status == NV_OK) {
		status = import_at(subject, exports->handle[index + i], i);
		i += status == NV_OK;
	}
	if (status != NV_OK)
		import_undo(subject, i);
	return status;
}

static uint32_t control_import_objects(struct control *control)
{
	return with_file(
		control, control->call->sim->abi->NV0000_CTRL_OS_UNIX_IMPORT_OBJECTS_FROM_FD_PARAMS.fd, import_many);
}

static const struct control_entry entries[] = {
	{ NV0000_CTRL_CMD_OS_UNIX_EXPORT_OBJECT_TO_FD, NV01_ROOT_CLIENT,
		NV_PARAMS(NV0000_CTRL_OS_UNIX_EXPORT_OBJECT_TO_FD_PARAMS), ANSWER(control_export_object, RIGHTS_NONE) },
	{ NV0000_CTRL_CMD_OS_UNIX_IMPORT_OBJECT_FROM_FD, NV01_ROOT_CLIENT,
		NV_PARAMS(NV0000_CTRL_OS_UNIX_IMPORT_OBJECT_FROM_FD_PARAMS),
		ANSWER(control_import_object, RIGHTS_NONE) },
	{ NV0000_CTRL_CMD_OS_UNIX_GET_EXPORT_OBJECT_INFO, NV01_ROOT_CLIENT,
		NV_PARAMS(NV0000_CTRL_OS_UNIX_GET_EXPORT_OBJECT_INFO_PARAMS),
		ANSWER(control_export_info, RIGHTS_NONE) },
	{ NV0000_CTRL_CMD_OS_UNIX_CREATE_EXPORT_OBJECT_FD, NV01_ROOT_CLIENT,
		NV_PARAMS(NV0000_CTRL_OS_UNIX_CREATE_EXPORT_OBJECT_FD_PARAMS),
		ANSWER(control_export_create, RIGHTS_NONE) },
	{ NV0000_CTRL_CMD_OS_UNIX_EXPORT_OBJECTS_TO_FD, NV01_ROOT_CLIENT,
		NV_PARAMS(NV0000_CTRL_OS_UNIX_EXPORT_OBJECTS_TO_FD_PARAMS),
		ANSWER(control_export_objects, RIGHTS_NONE) },
	{ NV0000_CTRL_CMD_OS_UNIX_IMPORT_OBJECTS_FROM_FD, NV01_ROOT_CLIENT,
		NV_PARAMS(NV0000_CTRL_OS_UNIX_IMPORT_OBJECTS_FROM_FD_PARAMS),
		ANSWER(control_import_objects, RIGHTS_NONE) },
};

const struct control_set controls_export = CONTROL_SET(entries);
