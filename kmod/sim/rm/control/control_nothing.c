// SPDX-License-Identifier: Apache-2.0
/*
 * What a simulated card has not, or has nothing to tell of: none of the bugs that capability tables warn of, no instances
 * that are active, no confidential computing, no links to other cards or to the processor, no atomics over its bus.
 */
#include "control.h"

static uint32_t control_zeros(struct control *control)
{
	memset(control->params, 0, control->size);
	return NV_OK;
}

/* No fabric of switches, so nothing of it is waited for (client_resource.c, cliresCtrlCmdSystemGetFabricStatus). */
static uint32_t control_fabric(struct control *control)
{
	put32(control->params, control->call->sim->card_abi->NV0000_CTRL_SYSTEM_GET_FABRIC_STATUS_PARAMS.fabricStatus,
		NV0000_CTRL_GET_SYSTEM_FABRIC_STATUS_SKIP);
	return NV_OK;
}

/* Any number of processes may compute on the card, so there is nothing that one could not reserve. */
static uint32_t control_granted(struct control *control)
{
	(void)control;
	return NV_OK;
}

/* Nothing ends what runs long. */
static uint32_t control_watchdog(struct control *control)
{
	put32(control->params,
		control->call->sim->card_abi->NV2080_CTRL_RC_GET_WATCHDOG_INFO_PARAMS.watchdogStatusFlags,
		NV2080_CTRL_RC_GET_WATCHDOG_INFO_FLAGS_DISABLED);
	return NV_OK;
}

#define ZEROS(command, class, params)                                                   \
	{                                                                               \
		command, class, CARD_PARAMS(params), ANSWER(control_zeros, RIGHTS_NONE) \
	}

static const struct control_entry entries[] = {
	ZEROS(NV0000_CTRL_CMD_SYSTEM_GET_FEATURES, NV01_ROOT_CLIENT, NV0000_CTRL_SYSTEM_GET_FEATURES_PARAMS),
	ZEROS(NV0000_CTRL_CMD_SYNC_GPU_BOOST_GROUP_INFO, NV01_ROOT_CLIENT, NV0000_SYNC_GPU_BOOST_GROUP_INFO_PARAMS),
	ZEROS(NV0000_CTRL_CMD_GPU_GET_MEMOP_ENABLE, NV01_ROOT_CLIENT, NV0000_CTRL_GPU_GET_MEMOP_ENABLE_PARAMS),
	ZEROS(NV_CONF_COMPUTE_CTRL_CMD_SYSTEM_GET_CAPABILITIES, NV_CONFIDENTIAL_COMPUTE,
		NV_CONF_COMPUTE_CTRL_CMD_SYSTEM_GET_CAPABILITIES_PARAMS),
	ZEROS(NV0080_CTRL_CMD_HOST_GET_CAPS_V2, NV01_DEVICE_0, NV0080_CTRL_HOST_GET_CAPS_V2_PARAMS),
	ZEROS(NV0080_CTRL_CMD_FB_GET_CAPS_V2, NV01_DEVICE_0, NV0080_CTRL_FB_GET_CAPS_V2_PARAMS),
	ZEROS(NV2080_CTRL_CMD_GR_GET_CAPS_V2, NV20_SUBDEVICE_0, NV2080_CTRL_GR_GET_CAPS_V2_PARAMS),
	/* Each instruction at full speed (NV2080_CTRL_GR_GET_SM_ISSUE_RATE_MODIFIER_*_FULL_SPEED). */
	ZEROS(NV2080_CTRL_CMD_GR_GET_SM_ISSUE_RATE_MODIFIER, NV20_SUBDEVICE_0,
		NV2080_CTRL_GR_GET_SM_ISSUE_RATE_MODIFIER_PARAMS),
	ZEROS(NV2080_CTRL_CMD_GPU_GET_ACTIVE_PARTITION_IDS, NV20_SUBDEVICE_0,
		NV2080_CTRL_GPU_GET_ACTIVE_PARTITION_IDS_PARAMS),
	ZEROS(NV2080_CTRL_CMD_BUS_GET_PCIE_SUPPORTED_GPU_ATOMICS, NV20_SUBDEVICE_0,
		NV2080_CTRL_CMD_BUS_GET_PCIE_SUPPORTED_GPU_ATOMICS_PARAMS),
	ZEROS(NV2080_CTRL_CMD_BUS_GET_C2C_INFO, NV20_SUBDEVICE_0, NV2080_CTRL_CMD_BUS_GET_C2C_INFO_PARAMS),
	ZEROS(NV2080_CTRL_CMD_NVLINK_GET_NVLINK_STATUS, NV20_SUBDEVICE_0,
		NV2080_CTRL_CMD_NVLINK_GET_NVLINK_STATUS_PARAMS),
	/* To software the card is no simulation of a chip: what it can do is what a chip can. */
	ZEROS(NV2080_CTRL_CMD_GPU_GET_SIMULATION_INFO, NV20_SUBDEVICE_0, NV2080_CTRL_GPU_GET_SIMULATION_INFO_PARAMS),
	{ NV0000_CTRL_CMD_SYSTEM_GET_FABRIC_STATUS, NV01_ROOT_CLIENT,
		CARD_PARAMS(NV0000_CTRL_SYSTEM_GET_FABRIC_STATUS_PARAMS), ANSWER(control_fabric, RIGHTS_NONE) },
	{ NV2080_CTRL_CMD_GPU_ACQUIRE_COMPUTE_MODE_RESERVATION, NV20_SUBDEVICE_0, NO_PARAMS,
		ANSWER(control_granted, RIGHTS_NONE) },
	{ NV2080_CTRL_CMD_GPU_RELEASE_COMPUTE_MODE_RESERVATION, NV20_SUBDEVICE_0, NO_PARAMS,
		ANSWER(control_granted, RIGHTS_NONE) },
	{ NV2080_CTRL_CMD_RC_GET_WATCHDOG_INFO, NV20_SUBDEVICE_0, CARD_PARAMS(NV2080_CTRL_RC_GET_WATCHDOG_INFO_PARAMS),
		ANSWER(control_watchdog, RIGHTS_NONE) },
	/* Of the card's firmware, and without a public name: answered, and left as it is (card.json has who saw that). */
	/* Clocks stay as they are whether a program computes or not. */
	{ NV0080_CTRL_CMD_PERF_CUDA_LIMIT_SET_CONTROL, NV01_DEVICE_0,
		CARD_PARAMS(NV0080_CTRL_PERF_CUDA_LIMIT_CONTROL_PARAMS), ANSWER(control_granted, RIGHTS_NONE) },
	{ CARD_CONTROL_9909, NV01_DEVICE_0, CARD_PARAMS(CARD_CONTROL_9909_PARAMS),
		ANSWER(control_granted, RIGHTS_NONE) },
	{ CARD_CONTROL_8159, NV20_SUBDEVICE_0, CARD_PARAMS(CARD_CONTROL_8159_PARAMS),
		ANSWER(control_granted, RIGHTS_NONE) },
};

const struct control_set controls_nothing = CONTROL_SET(entries);
