// SPDX-License-Identifier: Apache-2.0
/* Which cards there are, their UUIDs and names. */
#include <stdio.h>

#include "control.h"

/* ctrl2080gpu.h NV2080_GPU_MAX_NAME_STRING_LENGTH, NV2080_CTRL_GPU_GET_NAME_STRING_FLAGS_TYPE */
#define NAME_LENGTH 64u
#define NAME_FLAG_UNICODE 1u

static uint32_t card_of_id(const struct sim *sim, uint32_t id)
{
	uint32_t i = 0;

	while (i < sim->card_count && sim->cards[i].gpu_id != id)
		i++;
	return i < sim->card_count ? i : SIM_NO_CARD;
}

/* All cards, whether their nodes are open or not; none is excluded. */
static uint32_t control_probed_ids(struct control *control)
{
	struct sim *sim = control->call->sim;
	const struct card_layout_NV0000_CTRL_GPU_GET_PROBED_IDS_PARAMS *at =
		&sim->card_abi->NV0000_CTRL_GPU_GET_PROBED_IDS_PARAMS;
	uint32_t i;

	for (i = 0; i < NV_MAX_DEVICES; i++) {
		bool is_there = i < sim->card_count;

		put32(control->params + 4 * i, at->gpuIds,
			is_there ? sim->cards[i].gpu_id : NV0000_CTRL_GPU_INVALID_ID);
		put32(control->params + 4 * i, at->excludedGpuIds, NV0000_CTRL_GPU_INVALID_ID);
	}
	return NV_OK;
}

static uint32_t control_pci_info(struct control *control)
{
	struct sim *sim = control->call->sim;
	const struct card_layout_NV0000_CTRL_GPU_GET_PCI_INFO_PARAMS *at =
		&sim->card_abi->NV0000_CTRL_GPU_GET_PCI_INFO_PARAMS;
	uint32_t card = card_of_id(sim, get32(control->params, at->gpuId));

	if (card == SIM_NO_CARD)
		return NV_ERR_INVALID_ARGUMENT;
	put32(control->params, at->domain, 0);
	put16(control->params, at->bus, card_bus(card));
	put16(control->params, at->slot, 0);
	return NV_OK;
}

/* No card is being taken out of service (gpu_mgr.c, gpumgrQueryGpuDrainState()). */
static uint32_t control_drain_state(struct control *control)
{
	struct sim *sim = control->call->sim;
	const struct card_layout_NV0000_CTRL_GPU_QUERY_DRAIN_STATE_PARAMS *at =
		&sim->card_abi->NV0000_CTRL_GPU_QUERY_DRAIN_STATE_PARAMS;

	if (card_of_id(sim, get32(control->params, at->gpuId)) == SIM_NO_CARD)
		return NV_ERR_INVALID_ARGUMENT;
	put32(control->params, at->drainState, NV0000_CTRL_GPU_DRAIN_STATE_DISABLED);
	put32(control->params, at->flags, 0);
	return NV_OK;
}

/* Attaching and detaching is opening and closing of nodes: these only look whether the numbers are right. */
static uint32_t check_ids(struct control *control, uint16_t at, uint32_t all, bool attached)
{
	struct sim *sim = control->call->sim;
	uint32_t i, id, card, status = NV_OK;

	pthread_mutex_lock(&sim->lock);
	for (i = 0; i < NV_MAX_DEVICES && status == NV_OK; i++) {
		id = get32(control->params + 4 * i, at);
		if (id == NV0000_CTRL_GPU_INVALID_ID || (i == 0 && id == all))
			break;
		card = card_of_id(sim, id);
		if (card == SIM_NO_CARD || (attached && sim->cards[card].instance == SIM_NO_CARD))
			status = NV_ERR_INVALID_ARGUMENT;
	}
	pthread_mutex_unlock(&sim->lock);
	return status;
}

static uint32_t control_attach_ids(struct control *control)
{
	return check_ids(control, control->call->sim->card_abi->NV0000_CTRL_GPU_ATTACH_IDS_PARAMS.gpuIds,
		NV0000_CTRL_GPU_ATTACH_ALL_PROBED_IDS, false);
}

static uint32_t control_async_attach_id(struct control *control)
{
	const struct sim *sim = control->call->sim;
	uint32_t id = get32(control->params, sim->card_abi->NV0000_CTRL_GPU_ASYNC_ATTACH_ID_PARAMS.gpuId);

	return card_of_id(sim, id) == SIM_NO_CARD ? NV_ERR_INVALID_ARGUMENT : NV_OK;
}

static uint32_t control_detach_ids(struct control *control)
{
	return check_ids(control, control->call->sim->card_abi->NV0000_CTRL_GPU_DETACH_IDS_PARAMS.gpuIds,
		NV0000_CTRL_GPU_DETACH_ALL_ATTACHED_IDS, true);
}

static uint32_t control_attached_ids(struct control *control)
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

/* Both forms of the call tell the same. */
struct id_places {
	uint16_t id, flags, device, subdevice, sli, board, gpu, numa;
};

static uint32_t id_info(struct control *control, const struct id_places *at)
{
	struct sim *sim = control->call->sim;
	uint32_t id = get32(control->params, at->id), i = card_of_id(sim, id), instance;

	if (i == SIM_NO_CARD)
		return NV_ERR_INVALID_ARGUMENT;
	pthread_mutex_lock(&sim->lock);
	instance = sim->cards[i].instance;
	pthread_mutex_unlock(&sim->lock);
	if (instance == SIM_NO_CARD)
		return NV_ERR_INVALID_ARGUMENT;
	put32(control->params, at->flags, 0);
	put32(control->params, at->device, instance);
	put32(control->params, at->subdevice, 0);
	put32(control->params, at->sli, 0);
	put32(control->params, at->board, id);
	put32(control->params, at->gpu, i);
	put32(control->params, at->numa, UINT32_MAX);
	return NV_OK;
}

static uint32_t control_id_info_v2(struct control *control)
{
	const struct nv_layout_NV0000_CTRL_GPU_GET_ID_INFO_V2_PARAMS *at =
		&control->call->sim->abi->NV0000_CTRL_GPU_GET_ID_INFO_V2_PARAMS;
	const struct id_places places = { at->gpuId, at->gpuFlags, at->deviceInstance, at->subDeviceInstance,
		at->sliStatus, at->boardId, at->gpuInstance, at->numaId };

	return id_info(control, &places);
}

/* The place for a name, which the driver does not fill. */
static uint32_t control_id_info(struct control *control)
{
	const struct card_layout_NV0000_CTRL_GPU_GET_ID_INFO_PARAMS *at =
		&control->call->sim->card_abi->NV0000_CTRL_GPU_GET_ID_INFO_PARAMS;
	const struct id_places places = { at->gpuId, at->gpuFlags, at->deviceInstance, at->subDeviceInstance,
		at->sliStatus, at->boardId, at->gpuInstance, at->numaId };

	return id_info(control, &places);
}

/* Text counts its terminating NUL, as the driver's does. */
static uint32_t control_gid_info(struct control *control)
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

static uint32_t control_name(struct control *control)
{
	const struct nv_layout_NV2080_CTRL_GPU_GET_NAME_STRING_PARAMS *at =
		&control->call->sim->abi->NV2080_CTRL_GPU_GET_NAME_STRING_PARAMS;

	if (get32(control->params, at->gpuNameStringFlags) & NAME_FLAG_UNICODE)
		return NV_ERR_NOT_SUPPORTED;
	memset(control->params + at->gpuNameString, 0, NAME_LENGTH);
	snprintf((char *)control->params + at->gpuNameString, NAME_LENGTH, "%s", control->card.name);
	return NV_OK;
}

static const struct control_entry entries[] = {
	{ NV2080_CTRL_CMD_GPU_GET_GID_INFO, NV20_SUBDEVICE_0, NV_PARAMS(NV2080_CTRL_GPU_GET_GID_INFO_PARAMS),
		ANSWER(control_gid_info, RIGHTS_NONE) },
	{ NV2080_CTRL_CMD_GPU_GET_NAME_STRING, NV20_SUBDEVICE_0, NV_PARAMS(NV2080_CTRL_GPU_GET_NAME_STRING_PARAMS),
		ANSWER(control_name, RIGHTS_NONE) },
	{ NV0000_CTRL_CMD_GPU_GET_PROBED_IDS, NV01_ROOT_CLIENT, CARD_PARAMS(NV0000_CTRL_GPU_GET_PROBED_IDS_PARAMS),
		ANSWER(control_probed_ids, RIGHTS_NONE) },
	{ NV0000_CTRL_CMD_GPU_GET_PCI_INFO, NV01_ROOT_CLIENT, CARD_PARAMS(NV0000_CTRL_GPU_GET_PCI_INFO_PARAMS),
		ANSWER(control_pci_info, RIGHTS_NONE) },
	{ NV0000_CTRL_CMD_GPU_QUERY_DRAIN_STATE, NV01_ROOT_CLIENT,
		CARD_PARAMS(NV0000_CTRL_GPU_QUERY_DRAIN_STATE_PARAMS), ANSWER(control_drain_state, RIGHTS_NONE) },
	{ NV0000_CTRL_CMD_GPU_ATTACH_IDS, NV01_ROOT_CLIENT, CARD_PARAMS(NV0000_CTRL_GPU_ATTACH_IDS_PARAMS),
		ANSWER(control_attach_ids, RIGHTS_NONE) },
	{ NV0000_CTRL_CMD_GPU_ASYNC_ATTACH_ID, NV01_ROOT_CLIENT, CARD_PARAMS(NV0000_CTRL_GPU_ASYNC_ATTACH_ID_PARAMS),
		ANSWER(control_async_attach_id, RIGHTS_NONE) },
	{ NV0000_CTRL_CMD_GPU_DETACH_IDS, NV01_ROOT_CLIENT, CARD_PARAMS(NV0000_CTRL_GPU_DETACH_IDS_PARAMS),
		ANSWER(control_detach_ids, RIGHTS_NONE) },
	{ NV0000_CTRL_CMD_GPU_GET_ATTACHED_IDS, NV01_ROOT_CLIENT, NV_PARAMS(NV0000_CTRL_GPU_GET_ATTACHED_IDS_PARAMS),
		ANSWER(control_attached_ids, RIGHTS_NONE) },
	{ NV0000_CTRL_CMD_GPU_GET_ID_INFO, NV01_ROOT_CLIENT, CARD_PARAMS(NV0000_CTRL_GPU_GET_ID_INFO_PARAMS),
		ANSWER(control_id_info, RIGHTS_NONE) },
	{ NV0000_CTRL_CMD_GPU_GET_ID_INFO_V2, NV01_ROOT_CLIENT, NV_PARAMS(NV0000_CTRL_GPU_GET_ID_INFO_V2_PARAMS),
		ANSWER(control_id_info_v2, RIGHTS_NONE) },
};

const struct control_set controls_identity = CONTROL_SET(entries);
