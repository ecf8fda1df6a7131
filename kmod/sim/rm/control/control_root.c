// SPDX-License-Identifier: Apache-2.0
/*
 * Controls of a client: which cards there are, their UUIDs and names; what the driver says of itself; the client's own
 * objects, and the address spaces that it makes known to others.
 */
#include <stdio.h>

#include "control.h"

/* ctrl2080gpu.h NV2080_GPU_MAX_NAME_STRING_LENGTH, NV2080_CTRL_GPU_GET_NAME_STRING_FLAGS_TYPE */
#define NAME_LENGTH 64u
#define NAME_FLAG_UNICODE 1u

/* All cards, whether their nodes are open or not; none is excluded. */
static uint32_t control_probed_ids(struct control *control)
{
	struct sim *sim = control->sim;
	const __auto_type at = &sim->card_abi->NV0000_CTRL_GPU_GET_PROBED_IDS_PARAMS;
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
	struct sim *sim = control->sim;
	const __auto_type at = &sim->card_abi->NV0000_CTRL_GPU_GET_PCI_INFO_PARAMS;
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
	struct sim *sim = control->sim;
	const __auto_type at = &sim->card_abi->NV0000_CTRL_GPU_QUERY_DRAIN_STATE_PARAMS;

	if (card_of_id(sim, get32(control->params, at->gpuId)) == SIM_NO_CARD)
		return NV_ERR_INVALID_ARGUMENT;
	put32(control->params, at->drainState, NV0000_CTRL_GPU_DRAIN_STATE_DISABLED);
	put32(control->params, at->flags, 0);
	return NV_OK;
}

/* Attaching and detaching is opening and closing of nodes: these only look whether the numbers are right. */
static uint32_t check_ids(struct control *control, uint16_t at, uint32_t all, bool attached)
{
	const struct sim *sim = control->sim;
	uint32_t i, id, card;

	for (i = 0; i < NV_MAX_DEVICES; i++) {
		id = get32(control->params + 4 * i, at);
		if (id == NV0000_CTRL_GPU_INVALID_ID || (i == 0 && id == all))
			break;
		card = card_of_id(sim, id);
		if (card == SIM_NO_CARD || (attached && sim->cards[card].instance == SIM_NO_CARD))
			return NV_ERR_INVALID_ARGUMENT;
	}
	return NV_OK;
}

static uint32_t do_attach_ids(struct control *control, struct object *root)
{
	(void)root;
	return check_ids(control, control->card_abi->NV0000_CTRL_GPU_ATTACH_IDS_PARAMS.gpuIds,
		NV0000_CTRL_GPU_ATTACH_ALL_PROBED_IDS, false);
}

static uint32_t control_async_attach_id(struct control *control)
{
	const struct sim *sim = control->sim;
	uint32_t id = get32(control->params, sim->card_abi->NV0000_CTRL_GPU_ASYNC_ATTACH_ID_PARAMS.gpuId);

	return card_of_id(sim, id) == SIM_NO_CARD ? NV_ERR_INVALID_ARGUMENT : NV_OK;
}

static uint32_t do_detach_ids(struct control *control, struct object *root)
{
	(void)root;
	return check_ids(control, control->card_abi->NV0000_CTRL_GPU_DETACH_IDS_PARAMS.gpuIds,
		NV0000_CTRL_GPU_DETACH_ALL_ATTACHED_IDS, true);
}

static uint32_t do_attached_ids(struct control *control, struct object *root)
{
	struct sim *sim = control->sim;
	uint16_t at = sim->abi->NV0000_CTRL_GPU_GET_ATTACHED_IDS_PARAMS.gpuIds;
	uint32_t i, count = 0;

	(void)root;
	for (i = 0; i < sim->card_count; i++) {
		if (sim->cards[i].instance != SIM_NO_CARD)
			put32(control->params + 4 * count++, at, sim->cards[i].gpu_id);
	}
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
	struct sim *sim = control->sim;
	uint32_t id = get32(control->params, at->id), i = card_of_id(sim, id);

	if (i == SIM_NO_CARD || sim->cards[i].instance == SIM_NO_CARD)
		return NV_ERR_INVALID_ARGUMENT;
	put32(control->params, at->flags, 0);
	put32(control->params, at->device, sim->cards[i].instance);
	put32(control->params, at->subdevice, 0);
	put32(control->params, at->sli, 0);
	put32(control->params, at->board, id);
	put32(control->params, at->gpu, i);
	put32(control->params, at->numa, UINT32_MAX);
	return NV_OK;
}

static uint32_t do_id_info_v2(struct control *control, struct object *root)
{
	const __auto_type at = &control->abi->NV0000_CTRL_GPU_GET_ID_INFO_V2_PARAMS;
	const struct id_places places = { at->gpuId, at->gpuFlags, at->deviceInstance, at->subDeviceInstance,
		at->sliStatus, at->boardId, at->gpuInstance, at->numaId };

	(void)root;
	return id_info(control, &places);
}

/* The place for a name, which the driver does not fill. */
static uint32_t do_id_info(struct control *control, struct object *root)
{
	const __auto_type at = &control->card_abi->NV0000_CTRL_GPU_GET_ID_INFO_PARAMS;
	const struct id_places places = { at->gpuId, at->gpuFlags, at->deviceInstance, at->subDeviceInstance,
		at->sliStatus, at->boardId, at->gpuInstance, at->numaId };

	(void)root;
	return id_info(control, &places);
}

/* Text counts its terminating NUL, as the driver's does. */
static uint32_t control_gid_info(struct control *control)
{
	const __auto_type at = &control->abi->NV2080_CTRL_GPU_GET_GID_INFO_PARAMS;
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
	const __auto_type at = &control->abi->NV2080_CTRL_GPU_GET_NAME_STRING_PARAMS;

	if (get32(control->params, at->gpuNameStringFlags) & NAME_FLAG_UNICODE)
		return NV_ERR_NOT_SUPPORTED;
	memset(control->params + at->gpuNameString, 0, NAME_LENGTH);
	snprintf((char *)control->params + at->gpuNameString, NAME_LENGTH, "%s", control->card.model->name);
	return NV_OK;
}

/* NV_BUILD_BRANCH_VERSION and NV_DISPLAY_DRIVER_TITLE of a driver: this is none of NVIDIA's builds. */
static const char branch[] = "simulated";
static const char title[] = "Simulated driver";

static bool write_text(struct control *control, uint16_t at, const char *text, uint32_t room)
{
	uint64_t address = get64(control->params, at);

	if (address == 0)
		return true;
	return strlen(text) < room && user_write(&control->call->caller, address, text, strlen(text) + 1);
}

/* A call without room for the texts gets the room that they take. */
static uint32_t control_build_version(struct control *control)
{
	struct sim *sim = control->sim;
	const __auto_type at = &sim->card_abi->NV0000_CTRL_SYSTEM_GET_BUILD_VERSION_PARAMS;
	uint32_t room = get32(control->params, at->sizeOfStrings);

	put32(control->params, at->changelistNumber, 0);
	put32(control->params, at->officialChangelistNumber, 0);
	if (room == 0) {
		put32(control->params, at->sizeOfStrings, sizeof(sim->version));
		return NV_OK;
	}
	if (!write_text(control, at->pDriverVersionBuffer, sim->version, room) ||
		!write_text(control, at->pVersionBuffer, branch, room) ||
		!write_text(control, at->pTitleBuffer, title, room))
		return NV_ERR_INVALID_PARAM_STRUCT;
	return NV_OK;
}

static uint32_t control_build_version_v2(struct control *control)
{
	struct sim *sim = control->sim;
	const __auto_type at = &sim->card_abi->NV0000_CTRL_SYSTEM_GET_BUILD_VERSION_V2_PARAMS;

	memset(control->params, 0, at->bytes);
	memcpy(control->params + at->driverVersionBuffer, sim->version, strlen(sim->version) + 1);
	memcpy(control->params + at->versionBuffer, branch, sizeof(branch));
	memcpy(control->params + at->titleBuffer, title, sizeof(title));
	return NV_OK;
}

/* The kind of memory that a mapping leads to (client_resource.c, cliresCtrlCmdClientGetAddrSpaceType). */
static uint32_t kind_of(const struct object *object)
{
	if (object->class_id == NV01_MEMORY_LOCAL_USER)
		return NV0000_CTRL_CMD_CLIENT_GET_ADDR_SPACE_TYPE_VIDMEM;
	if (class_is_memory_request(object->class_id) || object->class_id == NV01_MEMORY_SYSTEM_OS_DESCRIPTOR)
		return NV0000_CTRL_CMD_CLIENT_GET_ADDR_SPACE_TYPE_SYSMEM;
	return NV0000_CTRL_CMD_CLIENT_GET_ADDR_SPACE_TYPE_REGMEM;
}

static uint32_t do_address_type(struct control *control, struct object *root)
{
	struct sim *sim = control->sim;
	const __auto_type at = &sim->card_abi->NV0000_CTRL_CLIENT_GET_ADDR_SPACE_TYPE_PARAMS;
	const struct object *object = object_find(sim, root->client, get32(control->params, at->hObject));

	if (!object)
		return NV_ERR_OBJECT_NOT_FOUND;
	put32(control->params, at->addrSpaceType, kind_of(object));
	return NV_OK;
}

/* Parent or class of the client's object (client_resource.c, cliresCtrlCmdClientGetHandleInfo). */
static uint32_t do_handle_info(struct control *control, struct object *root)
{
	const __auto_type at = &control->abi->NV0000_CTRL_CLIENT_GET_HANDLE_INFO_PARAMS;
	const struct object *object = object_find(control->sim, root->client, get32(control->params, at->hObject));

	if (!object)
		return NV_ERR_OBJECT_NOT_FOUND;
	switch (get32(control->params, at->index)) {
	case NV0000_CTRL_CMD_CLIENT_GET_HANDLE_INFO_INDEX_PARENT:
		put32(control->params, at->data, object->parent ? object->parent->handle : 0);
		return NV_OK;
	case NV0000_CTRL_CMD_CLIENT_GET_HANDLE_INFO_INDEX_CLASSID:
		put64(control->params, at->data, object->class_id);
		return NV_OK;
	default:
		return NV_ERR_INVALID_ARGUMENT;
	}
}

static uint32_t do_share_policy(struct control *control, struct object *root)
{
	struct sim *sim = control->sim;
	const __auto_type at = &sim->abi->NV0000_CTRL_CLIENT_SET_INHERITED_SHARE_POLICY_PARAMS;
	const uint8_t *params = control->params;

	return share_add(sim, root, get16(params, at->sharePolicy_type), params[at->sharePolicy_action],
		get32(params, at->sharePolicy_target), get32(params, at->sharePolicy_accessMask));
}

/* No other device reads the card's memory here, so a token of 0 is as good as any. */
static uint32_t do_register_space(struct control *control, struct object *object)
{
	struct sim *sim = control->sim;
	const __auto_type at = &sim->card_abi->NV503C_CTRL_REGISTER_VA_SPACE_PARAMS;
	const struct object *va_space = object_find(sim, object->client, get32(control->params, at->hVASpace));

	if (!va_space || va_space->class_id != FERMI_VASPACE_A)
		return NV_ERR_INVALID_OBJECT_HANDLE;
	put32(control->params, at->vaSpaceToken, 0);
	return NV_OK;
}

/* Nor does anybody ask for the memory that is made known. */
static uint32_t do_register_memory(struct control *control, struct object *object)
{
	struct sim *sim = control->sim;
	const __auto_type at = &sim->card_abi->NV503C_CTRL_REGISTER_VIDMEM_PARAMS;
	const struct object *memory = object_find(sim, object->client, get32(control->params, at->hMemory));

	return memory && memory->memory ? NV_OK : NV_ERR_INVALID_OBJECT_HANDLE;
}

static const struct control_entry entries[] = {
	{ NV_CONTROL(NV2080, GPU_GET_GID_INFO), .answer = control_gid_info },
	{ NV_CONTROL(NV2080, GPU_GET_NAME_STRING), .answer = control_name },
	{ CARD_CONTROL(NV0000, GPU_GET_PROBED_IDS), .answer = control_probed_ids },
	{ CARD_CONTROL(NV0000, GPU_GET_PCI_INFO), .answer = control_pci_info },
	{ CARD_CONTROL(NV0000, GPU_QUERY_DRAIN_STATE), .answer = control_drain_state },
	{ CARD_CONTROL(NV0000, GPU_ATTACH_IDS), .run = do_attach_ids },
	{ CARD_CONTROL(NV0000, GPU_ASYNC_ATTACH_ID), .answer = control_async_attach_id },
	{ CARD_CONTROL(NV0000, GPU_DETACH_IDS), .run = do_detach_ids },
	{ NV_CONTROL(NV0000, GPU_GET_ATTACHED_IDS), .run = do_attached_ids },
	{ CARD_CONTROL(NV0000, GPU_GET_ID_INFO), .run = do_id_info },
	{ NV_CONTROL(NV0000, GPU_GET_ID_INFO_V2), .run = do_id_info_v2 },
	{ CARD_CONTROL(NV0000, SYSTEM_GET_BUILD_VERSION), .answer = control_build_version },
	{ CARD_CONTROL(NV0000, SYSTEM_GET_BUILD_VERSION_V2), .answer = control_build_version_v2 },
	{ CARD_CONTROL(NV0000, CLIENT_GET_ADDR_SPACE_TYPE), .run = do_address_type },
	{ NV_CONTROL(NV0000, CLIENT_GET_HANDLE_INFO), .run = do_handle_info },
	{ NV_CONTROL(NV0000, CLIENT_SET_INHERITED_SHARE_POLICY), .run = do_share_policy },
	{ CARD_CONTROL(NV503C, REGISTER_VA_SPACE), .run = do_register_space },
	{ CARD_CONTROL(NV503C, REGISTER_VIDMEM), .run = do_register_memory },
};

const struct control_set controls_root = CONTROL_SET(entries);
