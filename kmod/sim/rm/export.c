// SPDX-License-Identifier: Apache-2.0
/*
 * Exported objects. The driver duplicates them into a client of its own, and the open file that they were exported on
 * keeps these copies until it is closed (rmobjexportimport.c, osapi.c:2893).
 */
#include <stdlib.h>

#include "sim.h"

/* rmobjexportimport.c, MAX_OBJ_EXPORT_HANDLES */
#define MAX_HANDLES 0x80000u

static uint32_t choose_handle(struct sim *sim)
{
	uint32_t tries;

	for (tries = 0; tries < MAX_HANDLES; tries++) {
		sim->next_export = sim->next_export % (MAX_HANDLES - 1) + 1;
		if (!object_find(sim, sim->exporter, sim->next_export))
			return sim->next_export;
	}
	return 0;
}

/* The first process that exports owns the client (client.c:113), and may duplicate its objects. */
static uint32_t take_exporter(struct sim *sim, pid_t process)
{
	struct alloc_request request = { .class_id = NV01_ROOT, .process = process };
	uint32_t status = NV_OK;

	if (!sim->exporter)
		status = client_create(sim, NULL, &request);
	if (status != NV_OK)
		return status;
	if (!sim->exporter)
		sim->exporter = client_find(sim, request.handle);
	sim->exported++;
	return NV_OK;
}

static void give_exporter(struct sim *sim)
{
	if (--sim->exported > 0)
		return;
	client_free(sim, sim->exporter);
	sim->exporter = NULL;
}

static uint32_t device_of(struct sim *sim, uint32_t card, struct object **device)
{
	struct object *root = sim->exporter->root;
	uint32_t handle, status;

	for (*device = root->child; *device; *device = (*device)->next) {
		if ((*device)->class_id == NV01_DEVICE_0 && (*device)->card == card)
			return NV_OK;
	}
	handle = choose_handle(sim);
	if (handle == 0)
		return NV_ERR_NO_MEMORY;
	status = object_create(sim, sim->exporter, root, &handle, NV01_DEVICE_0, device);
	if (status == NV_OK)
		(*device)->card = card;
	return status;
}

static uint32_t copy_out(struct sim *sim, const struct object *source, uint32_t *handle)
{
	struct object *parent = sim->exporter->root;
	uint32_t status = NV_OK;

	if (source->card != SIM_NO_CARD)
		status = device_of(sim, source->card, &parent);
	if (status != NV_OK)
		return status;
	if (!class_may_be_duplicated(source->class_id))
		return NV_ERR_INVALID_ARGUMENT;
	*handle = choose_handle(sim);
	return *handle == 0 ? NV_ERR_NO_MEMORY : object_duplicate(sim, source, parent, handle);
}

uint32_t export_object(struct sim *sim, const struct client *client, uint32_t object, pid_t process, uint32_t *handle,
	uint32_t *device)
{
	const struct object *source = object_find(sim, client, object);
	uint32_t status;

	*handle = 0;
	if (!source)
		return NV_ERR_OBJECT_NOT_FOUND;
	*device = source->card == SIM_NO_CARD ? NV_MAX_DEVICES : source->card;
	/* Before 525 nothing was exported that is on no device. */
	if (source->card == SIM_NO_CARD && !version_at_least(sim, 525, 47, 4))
		return NV_ERR_OBJECT_NOT_FOUND;
	status = take_exporter(sim, process);
	if (status != NV_OK)
		return status;
	status = copy_out(sim, source, handle);
	if (status != NV_OK) {
		*handle = 0;
		give_exporter(sim);
	}
	return status;
}

void export_forget(struct sim *sim, uint32_t handle)
{
	struct object *object = object_find(sim, sim->exporter, handle);

	if (object)
		object_free(sim, object);
	give_exporter(sim);
}

uint32_t import_object(struct sim *sim, struct client *client, uint32_t parent_handle, uint32_t handle,
	uint32_t *object, uint8_t *type)
{
	const struct object *source = object_find(sim, sim->exporter, handle);
	struct object *parent = object_find(sim, client, parent_handle);

	if (!source)
		return NV_ERR_INVALID_ARGUMENT;
	if (type)
		*type = source->memory ? NV0000_CTRL_CMD_OS_UNIX_IMPORT_OBJECT_TYPE_VIDMEM :
					 NV0000_CTRL_CMD_OS_UNIX_IMPORT_OBJECT_TYPE_SYSMEM;
	return parent ? object_duplicate(sim, source, parent, object) : object_without_parent(sim);
}

/* The device that a file is for; NV_MAX_DEVICES: for none, which is known from 525 on. */
static uint32_t device_named(struct sim *sim, const struct client *client, uint32_t handle, uint32_t *device)
{
	const struct object *object;

	*device = NV_MAX_DEVICES;
	if (handle == 0 && version_at_least(sim, 525, 47, 4))
		return NV_OK;
	object = object_find(sim, client, handle);
	if (!object)
		return NV_ERR_OBJECT_NOT_FOUND;
	if (object->class_id != NV01_DEVICE_0)
		return NV_ERR_INVALID_PARAMETER;
	*device = object->card;
	return NV_OK;
}

uint32_t exports_prepare(struct sim *sim, const struct client *client, struct open_file *file, uint32_t device,
	uint16_t count, const uint8_t *metadata)
{
	struct exports *exports;
	uint32_t number, status;

	if (file->exports)
		return NV_ERR_STATE_IN_USE;
	status = device_named(sim, client, device, &number);
	if (status != NV_OK)
		return status;
	exports = calloc(1, sizeof(*exports) + count * sizeof(exports->handle[0]));
	if (!exports)
		return NV_ERR_NO_MEMORY;
	exports->device = number;
	exports->count = count;
	if (metadata)
		memcpy(exports->metadata, metadata, sizeof(exports->metadata));
	file->exports = exports;
	return NV_OK;
}

void exports_drop(struct sim *sim, struct open_file *file)
{
	struct exports *exports = file->exports;
	uint32_t i;

	for (i = 0; exports && i < exports->count; i++) {
		if (exports->handle[i] != 0)
			export_forget(sim, exports->handle[i]);
	}
	free(exports);
	file->exports = NULL;
}
