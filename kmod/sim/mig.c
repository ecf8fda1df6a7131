// SPDX-License-Identifier: Apache-2.0
/*
 * Cards in MIG mode. Such a card has one instance here, of all its memory. A client has nothing of it before it has
 * subscribed to the instance, by an object below its subdevice (gpu_instance_subscription.c, kernel_mig_manager.c).
 */
#include "control.h"

static bool is_below(const struct object *object, const struct object *top)
{
	while (object && object != top)
		object = object->parent;
	return object == top;
}

/* kmigmgrGetInstanceRefFromDevice() */
static bool has_instance(const struct object *object)
{
	const struct object *device = object;
	struct object *at = object->client->root;

	while (device && device->class_id != NV01_DEVICE_0)
		device = device->parent;
	while (device && (at = object_next(object->client->root, at))) {
		if (at->class_id == AMPERE_SMC_PARTITION_REF && is_below(at, device))
			return true;
	}
	return false;
}

bool mig_denies(const struct sim *sim, const struct object *object)
{
	/* The kernel's own clients need none (kmigmgrGetMemoryPartitionHeapFromDevice). */
	return object->card != SIM_NO_CARD && sim->cards[object->card].mig && object->client->owner &&
		!has_instance(object);
}

/* Those that a client without an instance may ask of a card that is divided (kern_mem_sys_ctrl.c:223). */
bool mig_tells_all(uint32_t index)
{
	return index == NV2080_CTRL_FB_INFO_INDEX_TOTAL_RAM_SIZE || index == NV2080_CTRL_FB_INFO_INDEX_RAM_SIZE;
}

uint32_t mig_check(const struct sim *sim, uint32_t class_id, const struct object *parent)
{
	if (class_id == AMPERE_SMC_EXEC_PARTITION_REF)
		return parent->class_id == AMPERE_SMC_PARTITION_REF ? NV_OK : NV_ERR_INVALID_OBJECT_PARENT;
	if (class_id != AMPERE_SMC_PARTITION_REF)
		return NV_OK;
	if (parent->class_id != NV20_SUBDEVICE_0)
		return NV_ERR_INVALID_OBJECT_PARENT;
	return sim->cards[parent->card].mig ? NV_OK : NV_ERR_NOT_SUPPORTED;
}

/* subdevice_ctrl_gpu_kernel.c, getGpuInfos(); of all that it tells only the mode. */
static uint32_t control_gpu_info(struct control *control)
{
	const struct nv_abi *abi = control->call->sim->abi;
	const struct nv_layout_NV2080_CTRL_GPU_GET_INFO_V2_PARAMS *at = &abi->NV2080_CTRL_GPU_GET_INFO_V2_PARAMS;
	const struct nv_layout_NV2080_CTRL_GPU_INFO *entry = &abi->NV2080_CTRL_GPU_INFO;
	uint32_t count = get32(control->params, at->gpuInfoListSize), i;
	uint8_t *list = control->params + at->gpuInfoList;

	if (count > (uint32_t)(at->bytes - at->gpuInfoList) / entry->bytes)
		return NV_ERR_INVALID_ARGUMENT;
	for (i = 0; i < count; i++, list += entry->bytes) {
		uint32_t mode = NV2080_CTRL_GPU_INFO_GPU_SMC_MODE_UNSUPPORTED;

		if (get32(list, entry->index) != NV2080_CTRL_GPU_INFO_INDEX_GPU_SMC_MODE)
			return NV_ERR_INVALID_ARGUMENT;
		if (control->card.has_mig)
			mode = control->card.mig ? NV2080_CTRL_GPU_INFO_GPU_SMC_MODE_ENABLED :
						   NV2080_CTRL_GPU_INFO_GPU_SMC_MODE_DISABLED;
		put32(list, entry->data, mode);
	}
	return NV_OK;
}

static const struct control_entry entries[] = {
	{ NV2080_CTRL_CMD_GPU_GET_INFO_V2, NV20_SUBDEVICE_0, NV_PARAMS(NV2080_CTRL_GPU_GET_INFO_V2_PARAMS),
		ANSWER(control_gpu_info, RIGHTS_NONE) },
};

const struct control_set controls_mig = CONTROL_SET(entries);
