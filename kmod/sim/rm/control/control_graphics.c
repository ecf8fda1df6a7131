// SPDX-License-Identifier: Apache-2.0
/*
 * What the graphics engine is made of, which programs that compute lay their work out by. The multiprocessors are those
 * that each board is known for (compared with no board, nor with its data sheet); which parts of the chip are switched off differs from board to
 * board, so they are dealt out evenly here.
 */
#include "control.h"

#define MOST_GR_INDEXES 0x40u

struct graphics {
	const char *key; /* of the model */
	const char *chip;
	uint32_t version; /* of the multiprocessors */
	uint16_t gpcs, tpcs, sms_per_tpc;
	uint16_t chip_gpcs, chip_tpcs_per_gpc; /* before any were switched off */
	uint16_t warps, cores, tensor_cores, rt_cores; /* of a multiprocessor */
	uint16_t copies;
};

static const struct graphics all[] = {
	{ "T4", "TU104", NV2080_CTRL_GR_INFO_SM_VERSION_7_5, 5, 20, 2, 6, 4, 32, 64, 8, 1, 3 },
	{ "V100", "GV100", NV2080_CTRL_GR_INFO_SM_VERSION_7_0, 6, 40, 2, 6, 7, 64, 64, 8, 0, 6 },
	{ "A10", "GA102", NV2080_CTRL_GR_INFO_SM_VERSION_8_6, 7, 36, 2, 7, 6, 48, 128, 4, 1, 3 },
	{ "H200", "GH100", NV2080_CTRL_GR_INFO_SM_VERSION_9_0, 8, 66, 2, 8, 9, 64, 128, 4, 0, 6 },
};

static const struct graphics *graphics_of(const struct card *card)
{
	const struct graphics *at = all;

	while (strcmp(at->key, card->model->key) != 0)
		at++;
	return at;
}

static uint32_t gr_value(const struct control *control, uint32_t index, uint32_t *value)
{
	const struct graphics *has = graphics_of(&control->card);
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
		/* As the driver does with what a chip has nothing to say of. */
		return *value = 0, NV_OK;
	}
}

static uint32_t control_gr_info(struct control *control)
{
	const struct card_layout_NV2080_CTRL_GR_GET_INFO_PARAMS *at =
		&control->call->sim->card_abi->NV2080_CTRL_GR_GET_INFO_PARAMS;

	return info_list_outside(control, get64(control->params, at->grInfoList),
		get32(control->params, at->grInfoListSize), MOST_GR_INDEXES, gr_value);
}

static uint32_t control_gpc_mask(struct control *control)
{
	put32(control->params, control->call->sim->card_abi->NV2080_CTRL_GR_GET_GPC_MASK_PARAMS.gpcMask,
		(1u << graphics_of(&control->card)->gpcs) - 1);
	return NV_OK;
}

static uint32_t control_tpc_mask(struct control *control)
{
	const struct card_layout_NV2080_CTRL_GR_GET_TPC_MASK_PARAMS *at =
		&control->call->sim->card_abi->NV2080_CTRL_GR_GET_TPC_MASK_PARAMS;
	const struct graphics *has = graphics_of(&control->card);
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
	const struct card_layout_NV2080_CTRL_GR_GET_GLOBAL_SM_ORDER_PARAMS *at =
		&control->call->sim->card_abi->NV2080_CTRL_GR_GET_GLOBAL_SM_ORDER_PARAMS;
	const struct graphics *has = graphics_of(&control->card);
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
	uint8_t *name = control->params +
		control->call->sim->card_abi->NV2080_CTRL_GPU_GET_SHORT_NAME_STRING_PARAMS.gpuShortNameString;
	const char *chip = graphics_of(&control->card)->chip;

	memset(control->params, 0, control->size);
	memcpy(name, chip, strlen(chip));
	return NV_OK;
}

/* The graphics engine, and engines that copy. */
static uint32_t control_engines(struct control *control)
{
	const struct card_layout_NV2080_CTRL_GPU_GET_ENGINES_V2_PARAMS *at =
		&control->call->sim->card_abi->NV2080_CTRL_GPU_GET_ENGINES_V2_PARAMS;
	uint32_t copies = graphics_of(&control->card)->copies, i;

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
	const struct card_layout_NV2080_CTRL_CE_GET_ALL_CAPS_PARAMS *at =
		&control->call->sim->card_abi->NV2080_CTRL_CE_GET_ALL_CAPS_PARAMS;
	uint32_t copies = graphics_of(&control->card)->copies, i;

	memset(control->params, 0, control->size);
	for (i = 0; i < copies; i++)
		control->params[at->capsTbl + i * NV2080_CTRL_CE_CAPS_TBL_SIZE] =
			(uint8_t)(CE_CAPS_ALL | (i == 0 ? CE_CAPS_GRCE : 0));
	/* Of 32 or 64 bits, and all else is zero. */
	put32(control->params, at->present, (1u << copies) - 1);
	return NV_OK;
}

static const struct control_entry entries[] = {
	{ NV2080_CTRL_CMD_GR_GET_INFO, NV20_SUBDEVICE_0, CARD_PARAMS(NV2080_CTRL_GR_GET_INFO_PARAMS),
		ANSWER(control_gr_info, RIGHTS_NONE) },
	{ NV2080_CTRL_CMD_GR_GET_GPC_MASK, NV20_SUBDEVICE_0, CARD_PARAMS(NV2080_CTRL_GR_GET_GPC_MASK_PARAMS),
		ANSWER(control_gpc_mask, RIGHTS_NONE) },
	{ NV2080_CTRL_CMD_GR_GET_TPC_MASK, NV20_SUBDEVICE_0, CARD_PARAMS(NV2080_CTRL_GR_GET_TPC_MASK_PARAMS),
		ANSWER(control_tpc_mask, RIGHTS_NONE) },
	{ NV2080_CTRL_CMD_GR_GET_GLOBAL_SM_ORDER, NV20_SUBDEVICE_0,
		CARD_PARAMS(NV2080_CTRL_GR_GET_GLOBAL_SM_ORDER_PARAMS), ANSWER(control_sm_order, RIGHTS_NONE) },
	{ NV2080_CTRL_CMD_GPU_GET_SHORT_NAME_STRING, NV20_SUBDEVICE_0,
		CARD_PARAMS(NV2080_CTRL_GPU_GET_SHORT_NAME_STRING_PARAMS), ANSWER(control_chip, RIGHTS_NONE) },
	{ NV2080_CTRL_CMD_GPU_GET_ENGINES_V2, NV20_SUBDEVICE_0, CARD_PARAMS(NV2080_CTRL_GPU_GET_ENGINES_V2_PARAMS),
		ANSWER(control_engines, RIGHTS_NONE) },
	{ NV2080_CTRL_CMD_CE_GET_ALL_CAPS, NV20_SUBDEVICE_0, CARD_PARAMS(NV2080_CTRL_CE_GET_ALL_CAPS_PARAMS),
		ANSWER(control_copy_caps, RIGHTS_NONE) },
};

const struct control_set controls_graphics = CONTROL_SET(entries);
