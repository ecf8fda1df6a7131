// SPDX-License-Identifier: Apache-2.0
/* How the card is set up and how it is: modes, firmware, whether it needs a reset. */
#include "control.h"

/* It is given up when nobody has its node open, as without nvidia-persistenced. */
static uint32_t control_persistence(struct control *control)
{
	put32(control->params,
		control->call->sim->card_abi->NV0080_CTRL_GPU_QUERY_SW_STATE_PERSISTENCE_PARAMS.swStatePersistence,
		NV0080_CTRL_GPU_SW_STATE_PERSISTENCE_DISABLED);
	return NV_OK;
}

/* Any number of processes may compute on it. */
static uint32_t control_compute_mode(struct control *control)
{
	put32(control->params, control->call->sim->card_abi->NV2080_CTRL_GPU_QUERY_COMPUTE_MODE_RULES_PARAMS.rules,
		NV2080_CTRL_GPU_COMPUTE_MODE_RULES_NONE);
	return NV_OK;
}

static uint32_t control_reset_status(struct control *control)
{
	control->params[control->call->sim->card_abi->NV2080_CTRL_GPU_GET_RESET_STATUS_PARAMS.bResetRequired] = 0;
	return NV_OK;
}

static uint32_t control_drain_status(struct control *control)
{
	control->params[control->call->sim->card_abi->NV2080_CTRL_GPU_GET_DRAIN_AND_RESET_STATUS_PARAMS
				.bDrainRecommended] = 0;
	return NV_OK;
}

/*
 * The processor that runs the driver's firmware, from Turing on (g_kernel_gsp_nvoc.h). Without the flag of UVM libcuda
 * (535.261.03, 550.163.01) uses none: it has no managed memory, and maps what it allocates by RM.
 */
static uint32_t control_gsp_features(struct control *control)
{
	struct sim *sim = control->call->sim;
	const struct card_layout_NV2080_CTRL_GSP_GET_FEATURES_PARAMS *at =
		&sim->card_abi->NV2080_CTRL_GSP_GET_FEATURES_PARAMS;
	bool has = !sim->lacks_gsp && control->card.model->architecture >= GPU_ARCHITECTURE_TURING;

	memset(control->params, 0, at->bytes);
	control->params[at->bValid] = has;
	if (!has)
		return NV_OK;
	put32(control->params, at->gspFeatures,
		NV2080_CTRL_GSP_GET_FEATURES_UVM_ENABLED_TRUE << NV2080_CTRL_GSP_GET_FEATURES_UVM_ENABLED_SHIFT);
	memcpy(control->params + at->firmwareVersion, sim->version, strlen(sim->version) + 1);
	return NV_OK;
}

/* As in its file below /proc. */
static uint32_t bios_value(const struct control *control, uint32_t index, uint32_t *value)
{
	(void)control;
	if (index != NV2080_CTRL_BIOS_INFO_INDEX_REVISION && index != NV2080_CTRL_BIOS_INFO_INDEX_OEM_REVISION)
		return NV_ERR_INVALID_ARGUMENT;
	*value = 0;
	return NV_OK;
}

static uint32_t control_bios_info(struct control *control)
{
	const struct card_layout_NV2080_CTRL_BIOS_GET_INFO_PARAMS *at =
		&control->call->sim->card_abi->NV2080_CTRL_BIOS_GET_INFO_PARAMS;

	return info_list_outside(control, get64(control->params, at->biosInfoList),
		get32(control->params, at->biosInfoListSize), NV2080_CTRL_BIOS_INFO_MAX_SIZE, bios_value);
}

static uint32_t control_bios_info_v2(struct control *control)
{
	const struct card_layout_NV2080_CTRL_BIOS_GET_INFO_V2_PARAMS *at =
		&control->call->sim->card_abi->NV2080_CTRL_BIOS_GET_INFO_V2_PARAMS;

	return info_list_inside(control, at->biosInfoList, get32(control->params, at->biosInfoListSize),
		NV2080_CTRL_BIOS_INFO_MAX_SIZE, bios_value);
}

static const struct control_entry entries[] = {
	{ NV0080_CTRL_CMD_GPU_QUERY_SW_STATE_PERSISTENCE, NV01_DEVICE_0,
		CARD_PARAMS(NV0080_CTRL_GPU_QUERY_SW_STATE_PERSISTENCE_PARAMS),
		ANSWER(control_persistence, RIGHTS_NONE) },
	{ NV2080_CTRL_CMD_GPU_QUERY_COMPUTE_MODE_RULES, NV20_SUBDEVICE_0,
		CARD_PARAMS(NV2080_CTRL_GPU_QUERY_COMPUTE_MODE_RULES_PARAMS),
		ANSWER(control_compute_mode, RIGHTS_NONE) },
	{ NV2080_CTRL_CMD_GPU_GET_RESET_STATUS, NV20_SUBDEVICE_0, CARD_PARAMS(NV2080_CTRL_GPU_GET_RESET_STATUS_PARAMS),
		ANSWER(control_reset_status, RIGHTS_NONE) },
	{ NV2080_CTRL_CMD_GPU_GET_DRAIN_AND_RESET_STATUS, NV20_SUBDEVICE_0,
		CARD_PARAMS(NV2080_CTRL_GPU_GET_DRAIN_AND_RESET_STATUS_PARAMS),
		ANSWER(control_drain_status, RIGHTS_NONE) },
	{ NV2080_CTRL_CMD_GSP_GET_FEATURES, NV20_SUBDEVICE_0, CARD_PARAMS(NV2080_CTRL_GSP_GET_FEATURES_PARAMS),
		ANSWER(control_gsp_features, RIGHTS_NONE) },
	{ NV2080_CTRL_CMD_BIOS_GET_INFO, NV20_SUBDEVICE_0, CARD_PARAMS(NV2080_CTRL_BIOS_GET_INFO_PARAMS),
		ANSWER(control_bios_info, RIGHTS_NONE) },
	{ NV2080_CTRL_CMD_BIOS_GET_INFO_V2, NV20_SUBDEVICE_0, CARD_PARAMS(NV2080_CTRL_BIOS_GET_INFO_V2_PARAMS),
		ANSWER(control_bios_info_v2, RIGHTS_NONE) },
};

const struct control_set controls_state = CONTROL_SET(entries);
