// SPDX-License-Identifier: Apache-2.0
/*
 * The parts of the card's engines, by which programs that compute lay their work out, and the classes that engines
 * serve. Boards differ in the parts that are switched off; the simulation spreads those evenly.
 */
#include "control.h"

#define MOST_GR_INDEXES 0x40u

static uint32_t gr_value(const struct control *control, uint32_t index, uint32_t *value)
{
	const struct graphics *has = &control->card.model->graphics;
	uint32_t sms = (uint32_t)has->tpcs * has->sms_per_tpc;

	switch (index) {
	case NV0080_CTRL_GR_INFO_INDEX_SM_VERSION:
		return *value = has->version, NV_OK;
	case NV0080_CTRL_GR_INFO_INDEX_SHADER_PIPE_COUNT:
		return *value = has->gpcs, NV_OK;
	case NV0080_CTRL_GR_INFO_INDEX_SHADER_PIPE_SUB_COUNT:
	case NV0080_CTRL_GR_INFO_INDEX_VPE_COUNT:
		return *value = has->tpcs, NV_OK;
	case NV0080_CTRL_GR_INFO_INDEX_MAX_WARPS_PER_SM:
		return *value = has->warps, NV_OK;
	case NV0080_CTRL_GR_INFO_INDEX_MAX_THREADS_PER_WARP:
		return *value = 32, NV_OK;
	case NV0080_CTRL_GR_INFO_INDEX_MAX_SP_PER_SM:
		return *value = has->cores, NV_OK;
	case NV0080_CTRL_GR_INFO_INDEX_GPU_CORE_COUNT:
		return *value = sms * has->cores, NV_OK;
	case NV0080_CTRL_GR_INFO_INDEX_TENSOR_CORE_COUNT:
		return *value = sms * has->tensor_cores, NV_OK;
	case NV0080_CTRL_GR_INFO_INDEX_RT_CORE_COUNT:
		return *value = sms * has->rt_cores, NV_OK;
	case NV0080_CTRL_GR_INFO_INDEX_LITTER_NUM_GPCS:
		return *value = has->chip_gpcs, NV_OK;
	case NV0080_CTRL_GR_INFO_INDEX_LITTER_NUM_TPC_PER_GPC:
	case NV0080_CTRL_GR_INFO_INDEX_FAMILY_MAX_TPC_PER_GPC:
		return *value = has->chip_tpcs_per_gpc, NV_OK;
	case NV0080_CTRL_GR_INFO_INDEX_LITTER_NUM_SM_PER_TPC:
		return *value = has->sms_per_tpc, NV_OK;
	case NV0080_CTRL_GR_INFO_INDEX_TIMESLICE_ENABLED:
	case NV0080_CTRL_GR_INFO_INDEX_LITTER_NUM_GRS:
	case NV0080_CTRL_GR_INFO_INDEX_THREAD_STACK_SCALING_FACTOR:
		return *value = 1, NV_OK;
	case NV0080_CTRL_GR_INFO_INDEX_MAX_SUBCONTEXT_COUNT:
	case NV0080_CTRL_GR_INFO_INDEX_MAX_PER_ENGINE_SUBCONTEXT_COUNT:
		return *value = 64, NV_OK;
	default:
		/* The driver does so with a fact that a chip lacks. */
		return *value = 0, NV_OK;
	}
}

static uint32_t control_gr_info(struct control *control)
{
	const __auto_type at = &control->card_abi->NV2080_CTRL_GR_GET_INFO_PARAMS;

	return info_list_outside(control, get64(control->params, at->grInfoList),
		get32(control->params, at->grInfoListSize), MOST_GR_INDEXES, gr_value);
}

static uint32_t control_gpc_mask(struct control *control)
{
	put32(control->params, control->card_abi->NV2080_CTRL_GR_GET_GPC_MASK_PARAMS.gpcMask,
		(1u << control->card.model->graphics.gpcs) - 1);
	return NV_OK;
}

static uint32_t control_tpc_mask(struct control *control)
{
	const __auto_type at = &control->card_abi->NV2080_CTRL_GR_GET_TPC_MASK_PARAMS;
	const struct graphics *has = &control->card.model->graphics;
	uint32_t gpc = get32(control->params, at->gpcId), count;

	if (gpc >= has->gpcs)
		return NV_ERR_INVALID_ARGUMENT;
	count = (uint32_t)(has->tpcs / has->gpcs) + (gpc < (uint32_t)(has->tpcs % has->gpcs));
	put32(control->params, at->tpcMask, (1u << count) - 1);
	return NV_OK;
}

/* TPC by TPC around the GPCs. */
static uint32_t control_sm_order(struct control *control)
{
	const __auto_type at = &control->card_abi->NV2080_CTRL_GR_GET_GLOBAL_SM_ORDER_PARAMS;
	const struct graphics *has = &control->card.model->graphics;
	uint16_t each = (uint16_t)((at->numSm - at->globalSmId) / NV2080_CTRL_CMD_GR_GET_GLOBAL_SM_ORDER_MAX_SM_COUNT);
	uint16_t sms = (uint16_t)(has->tpcs * has->sms_per_tpc), i;
	uint8_t *entry = control->params;

	memset(control->params, 0, control->size);
	for (i = 0; i < sms && (i + 1) * each <= at->numSm; i++, entry += each) {
		uint16_t tpc = (uint16_t)(i / has->sms_per_tpc);

		put16(entry, at->globalSmId_gpcId, (uint16_t)(tpc % has->gpcs));
		put16(entry, at->globalSmId_localTpcId, (uint16_t)(tpc / has->gpcs));
		put16(entry, at->globalSmId_localSmId, (uint16_t)(i % has->sms_per_tpc));
		put16(entry, at->globalSmId_globalTpcId, tpc);
		if (at->globalSmId_virtualGpcId != NV_ABI_ABSENT)
			put16(entry, at->globalSmId_virtualGpcId, (uint16_t)(tpc % has->gpcs));
		if (at->globalSmId_migratableTpcId != NV_ABI_ABSENT)
			put16(entry, at->globalSmId_migratableTpcId, (uint16_t)(tpc / has->gpcs));
	}
	put16(control->params, at->numSm, sms);
	put16(control->params, at->numTpc, has->tpcs);
	return NV_OK;
}

static uint32_t control_chip(struct control *control)
{
	uint8_t *name =
		control->params + control->card_abi->NV2080_CTRL_GPU_GET_SHORT_NAME_STRING_PARAMS.gpuShortNameString;
	const char *chip = control->card.model->graphics.chip;

	memset(control->params, 0, control->size);
	memcpy(name, chip, strlen(chip));
	return NV_OK;
}

/* The graphics engine, and engines that copy. */
static uint32_t control_engines(struct control *control)
{
	const __auto_type at = &control->card_abi->NV2080_CTRL_GPU_GET_ENGINES_V2_PARAMS;
	uint32_t copies = control->card.model->graphics.copies, i;

	memset(control->params, 0, control->size);
	put32(control->params, at->engineCount, copies + 1);
	put32(control->params, at->engineList, NV2080_ENGINE_TYPE_GR0);
	for (i = 0; i < copies; i++)
		put32(control->params + 4 * (i + 1), at->engineList, NV2080_ENGINE_TYPE_COPY0 + i);
	return NV_OK;
}

#define CE_CAPS_ALL (CE_CAPS_SYSMEM_READ | CE_CAPS_SYSMEM_WRITE | CE_CAPS_SYSMEM | CE_CAPS_P2P)

/* All of them reach the machine's memory; the first one shares its runlist with the graphics engine. */
static uint32_t control_copy_caps(struct control *control)
{
	const __auto_type at = &control->card_abi->NV2080_CTRL_CE_GET_ALL_CAPS_PARAMS;
	uint32_t copies = control->card.model->graphics.copies, i;

	memset(control->params, 0, control->size);
	for (i = 0; i < copies; i++)
		control->params[at->capsTbl + i * NV2080_CTRL_CE_CAPS_TBL_SIZE] =
			(uint8_t)(CE_CAPS_ALL | (i == 0 ? CE_CAPS_GRCE : 0));
	/* The field has 32 or 64 bits; the other bits are zero. */
	put32(control->params, at->present, (1u << copies) - 1);
	return NV_OK;
}

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

/* Classes of src/nvidia/generated/g_gpu_class_list.c (595.45.04) that programs that compute ask for. */
struct engine_classes {
	uint32_t version; /* of the multiprocessors */
	uint32_t classes[MOST_ENGINE_CLASSES]; /* up to a 0 */
};

static const struct engine_classes of_version[] = {
	{ NV2080_CTRL_GR_INFO_SM_VERSION_7_0,
		{ VOLTA_A, VOLTA_COMPUTE_A, VOLTA_DMA_COPY_A, KEPLER_INLINE_TO_MEMORY_B } },
	{ NV2080_CTRL_GR_INFO_SM_VERSION_7_5,
		{ TURING_A, TURING_COMPUTE_A, TURING_DMA_COPY_A, KEPLER_INLINE_TO_MEMORY_B, TURING_CHANNEL_GPFIFO_A,
			TURING_USERMODE_A } },
	{ GR_INFO_SM_VERSION_8_0,
		{ AMPERE_A, AMPERE_COMPUTE_A, AMPERE_DMA_COPY_A, KEPLER_INLINE_TO_MEMORY_B, AMPERE_CHANNEL_GPFIFO_A,
			AMPERE_USERMODE_A, TURING_CHANNEL_GPFIFO_A, TURING_USERMODE_A } },
	{ NV2080_CTRL_GR_INFO_SM_VERSION_8_6,
		{ AMPERE_B, AMPERE_COMPUTE_B, AMPERE_DMA_COPY_B, KEPLER_INLINE_TO_MEMORY_B, AMPERE_CHANNEL_GPFIFO_A,
			AMPERE_USERMODE_A, TURING_CHANNEL_GPFIFO_A, TURING_USERMODE_A } },
	{ NV2080_CTRL_GR_INFO_SM_VERSION_8_9,
		{ ADA_A, ADA_COMPUTE_A, AMPERE_DMA_COPY_B, KEPLER_INLINE_TO_MEMORY_B, AMPERE_CHANNEL_GPFIFO_A,
			AMPERE_USERMODE_A, TURING_CHANNEL_GPFIFO_A, TURING_USERMODE_A } },
	{ NV2080_CTRL_GR_INFO_SM_VERSION_9_0,
		{ HOPPER_A, HOPPER_COMPUTE_A, HOPPER_DMA_COPY_A, KEPLER_INLINE_TO_MEMORY_B, HOPPER_CHANNEL_GPFIFO_A,
			HOPPER_USERMODE_A, HOPPER_SEC2_WORK_LAUNCH_A, AMPERE_CHANNEL_GPFIFO_A, AMPERE_USERMODE_A,
			TURING_CHANNEL_GPFIFO_A, TURING_USERMODE_A } },
	{ NV2080_CTRL_GR_INFO_SM_VERSION_10_0,
		{ BLACKWELL_A, BLACKWELL_COMPUTE_A, BLACKWELL_DMA_COPY_A, BLACKWELL_INLINE_TO_MEMORY_A,
			BLACKWELL_CHANNEL_GPFIFO_A, HOPPER_CHANNEL_GPFIFO_A, HOPPER_USERMODE_A,
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
	for (i = 0; i < sizeof(of_version) / sizeof(of_version[0]); i++) {
		const struct engine_classes *one = &of_version[i];

		if (one->version != card->model->graphics.version)
			continue;
		for (j = 0; j < MOST_ENGINE_CLASSES && one->classes[j] != 0; j++)
			list[count++] = one->classes[j];
	}
	return count;
}

/* A call without a place for the classes gets only their number. */
static uint32_t control_class_list(struct control *control)
{
	const __auto_type at = &control->card_abi->NV0080_CTRL_GPU_GET_CLASSLIST_PARAMS;
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
	const __auto_type at = &control->card_abi->NV0080_CTRL_GPU_GET_CLASSLIST_V2_PARAMS;
	uint32_t list[MOST], count = classes_of(&control->card, list), i;

	for (i = 0; i < count; i++)
		put32(control->params + 4 * i, at->classList, list[i]);
	put32(control->params, at->numClasses, count);
	return NV_OK;
}

static const struct control_entry entries[] = {
	{ CARD_CONTROL(NV2080, GR_GET_INFO), .answer = control_gr_info },
	{ CARD_CONTROL(NV2080, GR_GET_GPC_MASK), .answer = control_gpc_mask },
	{ CARD_CONTROL(NV2080, GR_GET_TPC_MASK), .answer = control_tpc_mask },
	{ CARD_CONTROL(NV2080, GR_GET_GLOBAL_SM_ORDER), .answer = control_sm_order },
	{ CARD_CONTROL(NV2080, GPU_GET_SHORT_NAME_STRING), .answer = control_chip },
	{ CARD_CONTROL(NV2080, GPU_GET_ENGINES_V2), .answer = control_engines },
	{ CARD_CONTROL(NV2080, CE_GET_ALL_CAPS), .answer = control_copy_caps },
	{ CARD_CONTROL(NV0080, GPU_GET_CLASSLIST), .answer = control_class_list },
	{ CARD_CONTROL(NV0080, GPU_GET_CLASSLIST_V2), .answer = control_class_list_v2 },
};

const struct control_set controls_graphics = CONTROL_SET(entries);
