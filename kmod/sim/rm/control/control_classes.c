// SPDX-License-Identifier: Apache-2.0
/*
 * Which classes a card serves: those of its architecture (src/nvidia/generated/g_gpu_class_list.c, TU104, GA102 and GH100 of
 * 550.163.01; the classes of Volta by their headers), without display, video and vGPU. More can be made than is told here.
 */
#include "control.h"

#define MOST_ENGINE_CLASSES 12u

static const uint32_t common[] = {
	ACCESS_COUNTER_NOTIFY_BUFFER,
	FERMI_CONTEXT_SHARE_A,
	FERMI_TWOD_A,
	FERMI_VASPACE_A,
	G84_PERFBUFFER,
	GF100_SUBDEVICE_MASTER,
	GF100_TIMED_SEMAPHORE_SW,
	GF100_ZBC_CLEAR,
	GP100_UVM_SW,
	KEPLER_CHANNEL_GROUP_A,
	KEPLER_INLINE_TO_MEMORY_B,
	MMU_FAULT_BUFFER,
	NV01_MEMORY_VIRTUAL,
	NV50_DEFERRED_API_CLASS,
	NV50_MEMORY_VIRTUAL,
	NV50_P2P,
	NV50_THIRD_PARTY_P2P,
	RM_USER_SHARED_DATA,
	VOLTA_CHANNEL_GPFIFO_A,
	VOLTA_USERMODE_A,
};

struct engine_classes {
	uint16_t architecture;
	uint32_t classes[MOST_ENGINE_CLASSES]; /* up to a 0 */
};

static const struct engine_classes of_architecture[] = {
	{ GPU_ARCHITECTURE_VOLTA, { VOLTA_A, VOLTA_COMPUTE_A, VOLTA_DMA_COPY_A } },
	{ GPU_ARCHITECTURE_TURING,
		{ TURING_A, TURING_COMPUTE_A, TURING_DMA_COPY_A, TURING_CHANNEL_GPFIFO_A, TURING_USERMODE_A } },
	{ GPU_ARCHITECTURE_AMPERE,
		{ AMPERE_B, AMPERE_COMPUTE_B, AMPERE_DMA_COPY_B, AMPERE_CHANNEL_GPFIFO_A, AMPERE_USERMODE_A,
			TURING_CHANNEL_GPFIFO_A, TURING_USERMODE_A } },
	{ GPU_ARCHITECTURE_HOPPER,
		{ HOPPER_A, HOPPER_COMPUTE_A, HOPPER_DMA_COPY_A, HOPPER_CHANNEL_GPFIFO_A, HOPPER_USERMODE_A,
			HOPPER_SEC2_WORK_LAUNCH_A, AMPERE_CHANNEL_GPFIFO_A, AMPERE_USERMODE_A, TURING_CHANNEL_GPFIFO_A,
			TURING_USERMODE_A } },
};

#define COMMON (sizeof(common) / sizeof(common[0]))
#define MOST (COMMON + MOST_ENGINE_CLASSES)

static uint32_t classes_of(const struct card *card, uint32_t list[MOST])
{
	uint32_t count = COMMON;
	size_t i, j;

	memcpy(list, common, sizeof(common));
	for (i = 0; i < sizeof(of_architecture) / sizeof(of_architecture[0]); i++) {
		const struct engine_classes *one = &of_architecture[i];

		if (one->architecture != card->model->architecture)
			continue;
		for (j = 0; j < MOST_ENGINE_CLASSES && one->classes[j] != 0; j++)
			list[count++] = one->classes[j];
	}
	return count;
}

/* Without a place for them only their number. */
static uint32_t control_class_list(struct control *control)
{
	const struct card_layout_NV0080_CTRL_GPU_GET_CLASSLIST_PARAMS *at =
		&control->call->sim->card_abi->NV0080_CTRL_GPU_GET_CLASSLIST_PARAMS;
	uint32_t list[MOST], count = classes_of(&control->card, list);
	uint32_t room = get32(control->params, at->numClasses);
	uint64_t address = get64(control->params, at->classList);

	if (address != 0 && room < count)
		return NV_ERR_INVALID_PARAM_STRUCT;
	put32(control->params, at->numClasses, count);
	if (address != 0 && !user_write(&control->call->caller, address, list, count * sizeof(list[0])))
		return NV_ERR_INVALID_ADDRESS;
	return NV_OK;
}

static uint32_t control_class_list_v2(struct control *control)
{
	const struct card_layout_NV0080_CTRL_GPU_GET_CLASSLIST_V2_PARAMS *at =
		&control->call->sim->card_abi->NV0080_CTRL_GPU_GET_CLASSLIST_V2_PARAMS;
	uint32_t list[MOST], count = classes_of(&control->card, list), i;

	for (i = 0; i < count; i++)
		put32(control->params + 4 * i, at->classList, list[i]);
	put32(control->params, at->numClasses, count);
	return NV_OK;
}

static const struct control_entry entries[] = {
	{ NV0080_CTRL_CMD_GPU_GET_CLASSLIST, NV01_DEVICE_0, CARD_PARAMS(NV0080_CTRL_GPU_GET_CLASSLIST_PARAMS),
		ANSWER(control_class_list, RIGHTS_NONE) },
	{ NV0080_CTRL_CMD_GPU_GET_CLASSLIST_V2, NV01_DEVICE_0, CARD_PARAMS(NV0080_CTRL_GPU_GET_CLASSLIST_V2_PARAMS),
		ANSWER(control_class_list_v2, RIGHTS_NONE) },
};

const struct control_set controls_classes = CONTROL_SET(entries);
