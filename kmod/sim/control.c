// SPDX-License-Identifier: Apache-2.0
/* NV_ESC_RM_CONTROL: checks what the driver checks, then hands a copy of the parameters to one function. */
#include <stdlib.h>

#include "sim.h"

struct entry {
	uint32_t command;
	uint32_t class_id;
	size_t bytes_at;
	uint32_t (*answer)(struct control *control);
};

#define BYTES(name) offsetof(struct nv_abi, name.bytes)

static const struct entry entries[] = {
	{ NV2080_CTRL_CMD_FB_GET_INFO, NV20_SUBDEVICE_0, BYTES(NV2080_CTRL_FB_GET_INFO_PARAMS), control_fb_info_v1 },
	{ NV2080_CTRL_CMD_FB_GET_INFO_V2, NV20_SUBDEVICE_0, BYTES(NV2080_CTRL_FB_GET_INFO_V2_PARAMS),
		control_fb_info_v2 },
	{ NV2080_CTRL_CMD_FB_GET_FB_REGION_INFO, NV20_SUBDEVICE_0, BYTES(NV2080_CTRL_CMD_FB_GET_FB_REGION_INFO_PARAMS),
		control_fb_regions },
	{ NV2080_CTRL_CMD_GPU_GET_PIDS, NV20_SUBDEVICE_0, BYTES(NV2080_CTRL_GPU_GET_PIDS_PARAMS), control_pids },
	{ NV2080_CTRL_CMD_GPU_GET_PID_INFO, NV20_SUBDEVICE_0, BYTES(NV2080_CTRL_GPU_GET_PID_INFO_PARAMS),
		control_pid_info },
	{ NV2080_CTRL_CMD_GPU_GET_GID_INFO, NV20_SUBDEVICE_0, BYTES(NV2080_CTRL_GPU_GET_GID_INFO_PARAMS),
		control_gid_info },
	{ NV2080_CTRL_CMD_GPU_GET_INFO_V2, NV20_SUBDEVICE_0, BYTES(NV2080_CTRL_GPU_GET_INFO_V2_PARAMS),
		control_gpu_info },
	{ NV2080_CTRL_CMD_GPU_GET_NAME_STRING, NV20_SUBDEVICE_0, BYTES(NV2080_CTRL_GPU_GET_NAME_STRING_PARAMS),
		control_name },
	{ NV0000_CTRL_CMD_GPU_GET_ATTACHED_IDS, NV01_ROOT_CLIENT, BYTES(NV0000_CTRL_GPU_GET_ATTACHED_IDS_PARAMS),
		control_attached_ids },
	{ NV0000_CTRL_CMD_GPU_GET_ID_INFO_V2, NV01_ROOT_CLIENT, BYTES(NV0000_CTRL_GPU_GET_ID_INFO_V2_PARAMS),
		control_id_info },
	{ NV0000_CTRL_OS_UNIX_CMD_MEMACCT_SET_LIMITS, NV01_ROOT_CLIENT,
		BYTES(NV0000_CTRL_OS_UNIX_MEMACCT_SET_LIMITS_PARAMS), control_set_limits },
	{ NV0000_CTRL_CMD_OS_UNIX_EXPORT_OBJECT_TO_FD, NV01_ROOT_CLIENT,
		BYTES(NV0000_CTRL_OS_UNIX_EXPORT_OBJECT_TO_FD_PARAMS), control_export_object },
	{ NV0000_CTRL_CMD_OS_UNIX_IMPORT_OBJECT_FROM_FD, NV01_ROOT_CLIENT,
		BYTES(NV0000_CTRL_OS_UNIX_IMPORT_OBJECT_FROM_FD_PARAMS), control_import_object },
	{ NV0000_CTRL_CMD_OS_UNIX_GET_EXPORT_OBJECT_INFO, NV01_ROOT_CLIENT,
		BYTES(NV0000_CTRL_OS_UNIX_GET_EXPORT_OBJECT_INFO_PARAMS), control_export_info },
	{ NV0000_CTRL_CMD_OS_UNIX_CREATE_EXPORT_OBJECT_FD, NV01_ROOT_CLIENT,
		BYTES(NV0000_CTRL_OS_UNIX_CREATE_EXPORT_OBJECT_FD_PARAMS), control_export_create },
	{ NV0000_CTRL_CMD_OS_UNIX_EXPORT_OBJECTS_TO_FD, NV01_ROOT_CLIENT,
		BYTES(NV0000_CTRL_OS_UNIX_EXPORT_OBJECTS_TO_FD_PARAMS), control_export_objects },
	{ NV0000_CTRL_CMD_OS_UNIX_IMPORT_OBJECTS_FROM_FD, NV01_ROOT_CLIENT,
		BYTES(NV0000_CTRL_OS_UNIX_IMPORT_OBJECTS_FROM_FD_PARAMS), control_import_objects },
};

static const struct entry *find_entry(uint32_t command)
{
	size_t i;

	for (i = 0; i < sizeof(entries) / sizeof(entries[0]); i++) {
		if (entries[i].command == command)
			return &entries[i];
	}
	return NULL;
}

/* Finds the object and copies what the answer needs, so that the rest can do without the lock. */
static uint32_t resolve(struct control *control, const struct entry *entry, uint32_t client_handle, uint32_t handle)
{
	struct sim *sim = control->call->sim;
	struct client *client;
	struct object *object;
	uint32_t status;

	pthread_mutex_lock(&sim->lock);
	status = client_for_call(control->call, client_handle, &client);
	/* control.c:434 */
	if (status == NV_ERR_INVALID_OBJECT_HANDLE)
		status = NV_ERR_INVALID_CLIENT;
	if (status == NV_OK) {
		object = object_find(sim, client, handle);
		if (!object)
			status = NV_ERR_OBJECT_NOT_FOUND;
		else if (!entry || object->class_id != entry->class_id)
			status = NV_ERR_NOT_SUPPORTED;
		else
			control->card_index = object->card;
		if (status == NV_OK && object->card != SIM_NO_CARD)
			control->card = sim->cards[object->card];
		control->denied = status == NV_OK && mig_denies(sim, object);
	}
	pthread_mutex_unlock(&sim->lock);
	return status;
}

static uint32_t run(struct control *control, const struct entry *entry, uint64_t address, uint32_t size)
{
	uint32_t status = NV_ERR_INVALID_ADDRESS;

	control->params = malloc(size);
	if (!control->params)
		return NV_ERR_INSUFFICIENT_RESOURCES;
	if (user_read(&control->call->caller, address, control->params, size))
		status = entry->answer(control);
	if (status == NV_OK && !user_write(&control->call->caller, address, control->params, size))
		status = NV_ERR_INVALID_ADDRESS;
	free(control->params);
	return status;
}

static uint32_t control(struct call *call)
{
	const struct nv_layout_NVOS54_PARAMETERS *at = &call->sim->abi->NVOS54_PARAMETERS;
	const struct entry *entry = find_entry(get32(call->data, at->cmd));
	uint64_t address = get64(call->data, at->params);
	uint32_t size = get32(call->data, at->paramsSize), status;
	struct control control = { .call = call, .card_index = SIM_NO_CARD };
	uint16_t expected = 0;

	if ((size == 0) != (address == 0) || size > SIM_MAX_PARAMS)
		return NV_ERR_INVALID_ARGUMENT;
	if (entry) {
		memcpy(&expected, (const uint8_t *)call->sim->abi + entry->bytes_at, sizeof(expected));
		/* One that this version does not have. */
		if (expected == 0)
			entry = NULL;
		else if (size != expected)
			return NV_ERR_INVALID_ARGUMENT;
	}
	status = resolve(&control, entry, get32(call->data, at->hClient), get32(call->data, at->hObject));
	return status == NV_OK ? run(&control, entry, address, size) : status;
}

int escape_control(struct call *call)
{
	put32(call->data, call->sim->abi->NVOS54_PARAMETERS.status, control(call));
	return 0;
}
