// SPDX-License-Identifier: Apache-2.0
/* NV_ESC_RM_CONTROL: checks what the driver checks, then hands a copy of the parameters to one function. */
#include <stdlib.h>

#include "control.h"
#include "engines.h"

struct entry {
	uint32_t command;
	uint32_t class_id;
	size_t bytes_at;
	uint32_t (*answer)(struct control *control);
	/* Or this, with the lock. */
	uint32_t (*lever)(struct control *control, struct object *object);
	enum rights rights;
};

#define BYTES(name) offsetof(struct nv_abi, name.bytes)
#define ANSWER(function, rights) function, NULL, rights
#define LEVER(function, rights) NULL, function, rights
/* Stands for those of all generations. */
#define ANY_CHANNEL KEPLER_CHANNEL_GPFIFO_A

static const struct entry entries[] = {
	{ NV2080_CTRL_CMD_FB_GET_INFO, NV20_SUBDEVICE_0, BYTES(NV2080_CTRL_FB_GET_INFO_PARAMS),
		ANSWER(control_fb_info_v1, RIGHTS_NONE) },
	{ NV2080_CTRL_CMD_FB_GET_INFO_V2, NV20_SUBDEVICE_0, BYTES(NV2080_CTRL_FB_GET_INFO_V2_PARAMS),
		ANSWER(control_fb_info_v2, RIGHTS_NONE) },
	{ NV2080_CTRL_CMD_FB_GET_FB_REGION_INFO, NV20_SUBDEVICE_0, BYTES(NV2080_CTRL_CMD_FB_GET_FB_REGION_INFO_PARAMS),
		ANSWER(control_fb_regions, RIGHTS_NONE) },
	{ NV2080_CTRL_CMD_GPU_GET_PIDS, NV20_SUBDEVICE_0, BYTES(NV2080_CTRL_GPU_GET_PIDS_PARAMS),
		ANSWER(control_pids, RIGHTS_NONE) },
	{ NV2080_CTRL_CMD_GPU_GET_PID_INFO, NV20_SUBDEVICE_0, BYTES(NV2080_CTRL_GPU_GET_PID_INFO_PARAMS),
		ANSWER(control_pid_info, RIGHTS_NONE) },
	{ NV2080_CTRL_CMD_GPU_GET_GID_INFO, NV20_SUBDEVICE_0, BYTES(NV2080_CTRL_GPU_GET_GID_INFO_PARAMS),
		ANSWER(control_gid_info, RIGHTS_NONE) },
	{ NV2080_CTRL_CMD_GPU_GET_INFO_V2, NV20_SUBDEVICE_0, BYTES(NV2080_CTRL_GPU_GET_INFO_V2_PARAMS),
		ANSWER(control_gpu_info, RIGHTS_NONE) },
	{ NV2080_CTRL_CMD_GPU_GET_NAME_STRING, NV20_SUBDEVICE_0, BYTES(NV2080_CTRL_GPU_GET_NAME_STRING_PARAMS),
		ANSWER(control_name, RIGHTS_NONE) },
	{ NV0000_CTRL_CMD_GPU_GET_ATTACHED_IDS, NV01_ROOT_CLIENT, BYTES(NV0000_CTRL_GPU_GET_ATTACHED_IDS_PARAMS),
		ANSWER(control_attached_ids, RIGHTS_NONE) },
	{ NV0000_CTRL_CMD_GPU_GET_ID_INFO_V2, NV01_ROOT_CLIENT, BYTES(NV0000_CTRL_GPU_GET_ID_INFO_V2_PARAMS),
		ANSWER(control_id_info, RIGHTS_NONE) },
	{ NV0000_CTRL_OS_UNIX_CMD_MEMACCT_SET_LIMITS, NV01_ROOT_CLIENT,
		BYTES(NV0000_CTRL_OS_UNIX_MEMACCT_SET_LIMITS_PARAMS), ANSWER(control_set_limits, RIGHTS_NONE) },
	{ NV0000_CTRL_CMD_OS_UNIX_EXPORT_OBJECT_TO_FD, NV01_ROOT_CLIENT,
		BYTES(NV0000_CTRL_OS_UNIX_EXPORT_OBJECT_TO_FD_PARAMS), ANSWER(control_export_object, RIGHTS_NONE) },
	{ NV0000_CTRL_CMD_OS_UNIX_IMPORT_OBJECT_FROM_FD, NV01_ROOT_CLIENT,
		BYTES(NV0000_CTRL_OS_UNIX_IMPORT_OBJECT_FROM_FD_PARAMS), ANSWER(control_import_object, RIGHTS_NONE) },
	{ NV0000_CTRL_CMD_OS_UNIX_GET_EXPORT_OBJECT_INFO, NV01_ROOT_CLIENT,
		BYTES(NV0000_CTRL_OS_UNIX_GET_EXPORT_OBJECT_INFO_PARAMS), ANSWER(control_export_info, RIGHTS_NONE) },
	{ NV0000_CTRL_CMD_OS_UNIX_CREATE_EXPORT_OBJECT_FD, NV01_ROOT_CLIENT,
		BYTES(NV0000_CTRL_OS_UNIX_CREATE_EXPORT_OBJECT_FD_PARAMS), ANSWER(control_export_create, RIGHTS_NONE) },
	{ NV0000_CTRL_CMD_OS_UNIX_EXPORT_OBJECTS_TO_FD, NV01_ROOT_CLIENT,
		BYTES(NV0000_CTRL_OS_UNIX_EXPORT_OBJECTS_TO_FD_PARAMS), ANSWER(control_export_objects, RIGHTS_NONE) },
	{ NV0000_CTRL_CMD_OS_UNIX_IMPORT_OBJECTS_FROM_FD, NV01_ROOT_CLIENT,
		BYTES(NV0000_CTRL_OS_UNIX_IMPORT_OBJECTS_FROM_FD_PARAMS), ANSWER(control_import_objects, RIGHTS_NONE) },
	{ NV2080_CTRL_CMD_PERF_GET_GPUMON_PERFMON_UTIL_SAMPLES_V2, NV20_SUBDEVICE_0,
		BYTES(NV2080_CTRL_PERF_GET_GPUMON_PERFMON_UTIL_SAMPLES_V2_PARAMS),
		ANSWER(control_samples, RIGHTS_NONE) },
	{ NV2080_CTRL_CMD_FIFO_DISABLE_CHANNELS, NV20_SUBDEVICE_0, BYTES(NV2080_CTRL_FIFO_DISABLE_CHANNELS_PARAMS),
		LEVER(lever_disable_channels, RIGHTS_NONE) },
	{ NV2080_CTRL_CMD_FIFO_RUNLIST_SET_SCHED_POLICY, NV20_SUBDEVICE_0,
		BYTES(NV2080_CTRL_FIFO_RUNLIST_SET_SCHED_POLICY_PARAMS), LEVER(lever_policy_of_runlists, RIGHTS_NICE) },
	{ NV2080_CTRL_CMD_GPU_SET_COMPUTE_POLICY_CONFIG, NV20_SUBDEVICE_0,
		BYTES(NV2080_CTRL_GPU_SET_COMPUTE_POLICY_CONFIG_PARAMS),
		LEVER(lever_set_compute_policy, RIGHTS_ADMIN) },
	{ NV2080_CTRL_CMD_GPU_GET_COMPUTE_POLICY_CONFIG, NV20_SUBDEVICE_0,
		BYTES(NV2080_CTRL_GPU_GET_COMPUTE_POLICY_CONFIG_PARAMS), LEVER(lever_get_compute_policy, RIGHTS_NONE) },
	{ NV0080_CTRL_CMD_FIFO_SET_CHANNEL_PROPERTIES, NV01_DEVICE_0,
		BYTES(NV0080_CTRL_FIFO_SET_CHANNEL_PROPERTIES_PARAMS), LEVER(lever_channel_properties, RIGHTS_NONE) },
	{ NVA06C_CTRL_CMD_GPFIFO_SCHEDULE, KEPLER_CHANNEL_GROUP_A, BYTES(NVA06F_CTRL_GPFIFO_SCHEDULE_PARAMS),
		LEVER(lever_schedule, RIGHTS_NONE) },
	{ NVA06C_CTRL_CMD_BIND, KEPLER_CHANNEL_GROUP_A, BYTES(NVA06F_CTRL_BIND_PARAMS),
		LEVER(lever_bind, RIGHTS_NONE) },
	{ NVA06C_CTRL_CMD_SET_TIMESLICE, KEPLER_CHANNEL_GROUP_A, BYTES(NVA06C_CTRL_TIMESLICE_PARAMS),
		LEVER(lever_set_timeslice, RIGHTS_NONE) },
	{ NVA06C_CTRL_CMD_GET_TIMESLICE, KEPLER_CHANNEL_GROUP_A, BYTES(NVA06C_CTRL_TIMESLICE_PARAMS),
		LEVER(lever_get_timeslice, RIGHTS_NONE) },
	{ NVA06C_CTRL_CMD_PREEMPT, KEPLER_CHANNEL_GROUP_A, BYTES(NVA06C_CTRL_PREEMPT_PARAMS),
		LEVER(lever_preempt, RIGHTS_NONE) },
	{ NVA06C_CTRL_CMD_SET_INTERLEAVE_LEVEL, KEPLER_CHANNEL_GROUP_A, BYTES(NVA06C_CTRL_INTERLEAVE_LEVEL_PARAMS),
		LEVER(lever_interleave, RIGHTS_NICE) },
	{ NVA06C_CTRL_CMD_MAKE_REALTIME, KEPLER_CHANNEL_GROUP_A, BYTES(NVA06C_CTRL_MAKE_REALTIME_PARAMS),
		LEVER(lever_realtime, RIGHTS_NICE) },
	{ NVA06F_CTRL_CMD_GPFIFO_SCHEDULE, ANY_CHANNEL, BYTES(NVA06F_CTRL_GPFIFO_SCHEDULE_PARAMS),
		LEVER(lever_schedule, RIGHTS_NONE) },
	{ NVA06F_CTRL_CMD_BIND, ANY_CHANNEL, BYTES(NVA06F_CTRL_BIND_PARAMS), LEVER(lever_bind, RIGHTS_NONE) },
	{ NVA06F_CTRL_CMD_SET_INTERLEAVE_LEVEL, ANY_CHANNEL, BYTES(NVA06F_CTRL_INTERLEAVE_LEVEL_PARAMS),
		LEVER(lever_interleave, RIGHTS_NICE) },
	{ NVA06F_CTRL_CMD_RESTART_RUNLIST, ANY_CHANNEL, BYTES(NVA06F_CTRL_RESTART_RUNLIST_PARAMS),
		LEVER(lever_restart, RIGHTS_NICE) },
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

static bool is_for(const struct entry *entry, const struct object *object)
{
	return object->class_id == entry->class_id ||
		(entry->class_id == ANY_CHANNEL && class_is_channel(object->class_id));
}

static bool allows(const struct call *call, enum rights rights)
{
	if (rights == RIGHTS_NONE || call_is_kernel(call))
		return true;
	return rights == RIGHTS_NICE ? caller_is_nice(&call->caller) : caller_is_admin(&call->caller);
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
		else if (!entry || !is_for(entry, object))
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

/* On the object, which may have gone since it was found. */
static uint32_t pull(struct control *control, const struct entry *entry)
{
	struct call *call = control->call;
	const struct nv_layout_NVOS54_PARAMETERS *at = &call->sim->abi->NVOS54_PARAMETERS;
	struct object *object = NULL;
	struct client *client;
	uint32_t status;

	pthread_mutex_lock(&call->sim->lock);
	status = client_for_call(call, get32(call->data, at->hClient), &client);
	if (status == NV_OK)
		object = object_find(call->sim, client, get32(call->data, at->hObject));
	if (!object || !is_for(entry, object)) {
		status = status == NV_OK ? NV_ERR_OBJECT_NOT_FOUND : NV_ERR_INVALID_CLIENT;
	} else {
		engines_advance(call->sim, object->group ? object->group->card : object->card);
		status = entry->lever(control, object);
	}
	pthread_mutex_unlock(&call->sim->lock);
	if (control->waits)
		engines_wait(call->sim, control->card_index);
	return status;
}

static uint32_t run(struct control *control, const struct entry *entry, uint64_t address, uint32_t size)
{
	uint32_t status = NV_ERR_INVALID_ADDRESS;

	if (!allows(control->call, entry->rights))
		return NV_ERR_INSUFFICIENT_PERMISSIONS;
	control->params = malloc(size);
	if (!control->params)
		return NV_ERR_INSUFFICIENT_RESOURCES;
	if (user_read(&control->call->caller, address, control->params, size))
		status = entry->lever ? pull(control, entry) : entry->answer(control);
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
		else if (entry->command == NV2080_CTRL_CMD_FB_GET_INFO)
			/* It takes its structure whatever the size says (rmapi_deprecated_control.c, ctrlparamAcquire()). */
			size = expected;
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
