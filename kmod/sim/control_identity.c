// SPDX-License-Identifier: Apache-2.0
/* Which cards there are, their UUIDs and names. */
#include <stdio.h>

#include "control.h"

/* ctrl2080gpu.h NV2080_GPU_MAX_NAME_STRING_LENGTH, NV2080_CTRL_GPU_GET_NAME_STRING_FLAGS_TYPE */
#define NAME_LENGTH 64u
#define NAME_FLAG_UNICODE 1u

uint32_t control_attached_ids(struct control *control)
{
	struct sim *sim = control->call->sim;
	uint16_t at = sim->abi->NV0000_CTRL_GPU_GET_ATTACHED_IDS_PARAMS.gpuIds;
	uint32_t i, count = 0;

	pthread_mutex_lock(&sim->lock);
	for (i = 0; i < sim->card_count; i++) {
		if (sim->cards[i].instance != SIM_NO_CARD)
			put32(control->params + 4 * count++, at, sim->cards[i].gpu_id);
	}
	pthread_mutex_unlock(&sim->lock);
	for (; count < NV0000_CTRL_GPU_MAX_ATTACHED_GPUS; count++)
		put32(control->params + 4 * count, at, NV0000_CTRL_GPU_INVALID_ID);
	return NV_OK;
}

uint32_t control_id_info(struct control *control)
{
	struct sim *sim = control->call->sim;
	const struct nv_layout_NV0000_CTRL_GPU_GET_ID_INFO_V2_PARAMS *at =
		&sim->abi->NV0000_CTRL_GPU_GET_ID_INFO_V2_PARAMS;
	uint32_t id = get32(control->params, at->gpuId), i = 0, instance;

	while (i < sim->card_count && sim->cards[i].gpu_id != id)
		i++;
	if (i == sim->card_count)
		return NV_ERR_INVALID_ARGUMENT;
	pthread_mutex_lock(&sim->lock);
	instance = sim->cards[i].instance;
	pthread_mutex_unlock(&sim->lock);
	if (instance == SIM_NO_CARD)
		return NV_ERR_INVALID_ARGUMENT;
	put32(control->params, at->gpuFlags, 0);
	put32(control->params, at->deviceInstance, instance);
	put32(control->params, at->subDeviceInstance, 0);
	put32(control->params, at->sliStatus, 0);
	put32(control->params, at->boardId, id);
	put32(control->params, at->gpuInstance, i);
	put32(control->params, at->numaId, UINT32_MAX);
	return NV_OK;
}

/* Text counts its terminating NUL, as the driver's does. */
uint32_t control_gid_info(struct control *control)
{
	const struct nv_layout_NV2080_CTRL_GPU_GET_GID_INFO_PARAMS *at =
		&control->call->sim->abi->NV2080_CTRL_GPU_GET_GID_INFO_PARAMS;
	uint32_t flags = get32(control->params, at->flags);
	uint32_t format =
		flags >> NV2080_GPU_CMD_GPU_GET_GID_FLAGS_FORMAT_SHIFT & NV2080_GPU_CMD_GPU_GET_GID_FLAGS_FORMAT_MASK;
	bool binary = format == NV2080_GPU_CMD_GPU_GET_GID_FLAGS_FORMAT_BINARY;
	size_t length = binary ? sizeof(control->card.uuid) : sizeof(control->card.uuid_text);
	const void *data = binary ? (const void *)control->card.uuid : control->card.uuid_text;

	if (flags >> NV2080_GPU_CMD_GPU_GET_GID_FLAGS_TYPE_SHIFT & NV2080_GPU_CMD_GPU_GET_GID_FLAGS_TYPE_MASK)
		return NV_ERR_INVALID_ARGUMENT;
	memcpy(control->params + at->data, data, length);
	put32(control->params, at->length, (uint32_t)length);
	return NV_OK;
}

uint32_t control_name(struct control *control)
{
	const struct nv_layout_NV2080_CTRL_GPU_GET_NAME_STRING_PARAMS *at =
		&control->call->sim->abi->NV2080_CTRL_GPU_GET_NAME_STRING_PARAMS;

	if (get32(control->params, at->gpuNameStringFlags) & NAME_FLAG_UNICODE)
		return NV_ERR_NOT_SUPPORTED;
	memset(control->params + at->gpuNameString, 0, NAME_LENGTH);
	snprintf((char *)control->params + at->gpuNameString, NAME_LENGTH, "%s", control->card.name);
	return NV_OK;
}
