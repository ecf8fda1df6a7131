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

/* A client without an instance may ask a divided card for these facts alone (kern_mem_sys_ctrl.c:223). */
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

uint32_t mig_mode(const struct card *card)
{
	if (!card->model->has_mig)
		return NV2080_CTRL_GPU_INFO_GPU_SMC_MODE_UNSUPPORTED;
	return card->mig ? NV2080_CTRL_GPU_INFO_GPU_SMC_MODE_ENABLED : NV2080_CTRL_GPU_INFO_GPU_SMC_MODE_DISABLED;
}
