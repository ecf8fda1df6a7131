// SPDX-License-Identifier: Apache-2.0
/*
 * Controls that every simulated card answers alike, and those that it accepts without doing anything. A card has none
 * of the bugs that capability tables warn of, no active instances, no confidential computing, no links to other cards
 * or to the processor, and no atomics over its bus.
 */
#include "control.h"

static uint32_t control_zeros(struct control *control)
{
	memset(control->params, 0, control->size);
	return NV_OK;
}

static uint32_t control_constant(struct control *control)
{
	const struct control_entry *entry = control->entry;

	put32(control->params, layout_word(control->sim, entry->of_card, entry->value_at), entry->value);
	return NV_OK;
}

#define ZEROS(number, params) .command = number, CARD_PARAMS(params), .answer = control_zeros
#define CONSTANT(number, params, field, told)                               \
	.command = number, CARD_PARAMS(params), .answer = control_constant, \
	.value_at = offsetof(struct card_abi, params.field), .value = (told)

static const struct control_entry entries[] = {
	{ ZEROS(NV0000_CTRL_CMD_SYSTEM_GET_FEATURES, NV0000_CTRL_SYSTEM_GET_FEATURES_PARAMS) },
	{ ZEROS(NV0000_CTRL_CMD_SYNC_GPU_BOOST_GROUP_INFO, NV0000_SYNC_GPU_BOOST_GROUP_INFO_PARAMS) },
	{ ZEROS(NV0000_CTRL_CMD_GPU_GET_MEMOP_ENABLE, NV0000_CTRL_GPU_GET_MEMOP_ENABLE_PARAMS) },
	{ ZEROS(NV_CONF_COMPUTE_CTRL_CMD_SYSTEM_GET_CAPABILITIES,
		NV_CONF_COMPUTE_CTRL_CMD_SYSTEM_GET_CAPABILITIES_PARAMS) },
	{ ZEROS(NV0080_CTRL_CMD_HOST_GET_CAPS_V2, NV0080_CTRL_HOST_GET_CAPS_V2_PARAMS) },
	{ ZEROS(NV0080_CTRL_CMD_FB_GET_CAPS_V2, NV0080_CTRL_FB_GET_CAPS_V2_PARAMS) },
	{ ZEROS(NV2080_CTRL_CMD_GR_GET_CAPS_V2, NV2080_CTRL_GR_GET_CAPS_V2_PARAMS) },
	/* Each instruction at full speed (NV2080_CTRL_GR_GET_SM_ISSUE_RATE_MODIFIER_*_FULL_SPEED). */
	{ ZEROS(NV2080_CTRL_CMD_GR_GET_SM_ISSUE_RATE_MODIFIER, NV2080_CTRL_GR_GET_SM_ISSUE_RATE_MODIFIER_PARAMS) },
	{ ZEROS(NV2080_CTRL_CMD_GPU_GET_ACTIVE_PARTITION_IDS, NV2080_CTRL_GPU_GET_ACTIVE_PARTITION_IDS_PARAMS) },
	{ ZEROS(NV2080_CTRL_CMD_BUS_GET_PCIE_SUPPORTED_GPU_ATOMICS,
		NV2080_CTRL_CMD_BUS_GET_PCIE_SUPPORTED_GPU_ATOMICS_PARAMS) },
	{ ZEROS(NV2080_CTRL_CMD_BUS_GET_C2C_INFO, NV2080_CTRL_CMD_BUS_GET_C2C_INFO_PARAMS) },
	{ ZEROS(NV2080_CTRL_CMD_NVLINK_GET_NVLINK_STATUS, NV2080_CTRL_CMD_NVLINK_GET_NVLINK_STATUS_PARAMS) },
	/* Software sees no simulation of a chip: the card can do all that the chip can. */
	{ ZEROS(NV2080_CTRL_CMD_GPU_GET_SIMULATION_INFO, NV2080_CTRL_GPU_GET_SIMULATION_INFO_PARAMS) },
	{ ZEROS(NV2080_CTRL_CMD_GPU_GET_RESET_STATUS, NV2080_CTRL_GPU_GET_RESET_STATUS_PARAMS) },
	{ ZEROS(NV2080_CTRL_CMD_GPU_GET_DRAIN_AND_RESET_STATUS, NV2080_CTRL_GPU_GET_DRAIN_AND_RESET_STATUS_PARAMS) },
	/* No fabric of switches, so nothing of it is waited for (client_resource.c, cliresCtrlCmdSystemGetFabricStatus). */
	{ CONSTANT(NV0000_CTRL_CMD_SYSTEM_GET_FABRIC_STATUS, NV0000_CTRL_SYSTEM_GET_FABRIC_STATUS_PARAMS, fabricStatus,
		NV0000_CTRL_GET_SYSTEM_FABRIC_STATUS_SKIP) },
	/* No watchdog ends long kernels. */
	{ CONSTANT(NV2080_CTRL_CMD_RC_GET_WATCHDOG_INFO, NV2080_CTRL_RC_GET_WATCHDOG_INFO_PARAMS, watchdogStatusFlags,
		NV2080_CTRL_RC_GET_WATCHDOG_INFO_FLAGS_DISABLED) },
	/* The card is the machine's own, and divided among no guests. */
	{ CONSTANT(NV0080_CTRL_CMD_GPU_GET_VIRTUALIZATION_MODE, NV0080_CTRL_GPU_GET_VIRTUALIZATION_MODE_PARAMS,
		virtualizationMode, NV0080_CTRL_GPU_VIRTUALIZATION_MODE_NONE) },
	{ CONSTANT(
		NV0080_CTRL_CMD_GPU_GET_NUM_SUBDEVICES, NV0080_CTRL_GPU_GET_NUM_SUBDEVICES_PARAMS, numSubDevices, 1) },
	/* The driver gives the card up when no process has its node open, as without nvidia-persistenced. */
	{ CONSTANT(NV0080_CTRL_CMD_GPU_QUERY_SW_STATE_PERSISTENCE, NV0080_CTRL_GPU_QUERY_SW_STATE_PERSISTENCE_PARAMS,
		swStatePersistence, NV0080_CTRL_GPU_SW_STATE_PERSISTENCE_DISABLED) },
	/* Any number of processes may compute on the card, so there is nothing that one could not reserve. */
	{ CONSTANT(NV2080_CTRL_CMD_GPU_QUERY_COMPUTE_MODE_RULES, NV2080_CTRL_GPU_QUERY_COMPUTE_MODE_RULES_PARAMS, rules,
		NV2080_CTRL_GPU_COMPUTE_MODE_RULES_NONE) },
	{ NV2080_CTRL_CMD_GPU_ACQUIRE_COMPUTE_MODE_RESERVATION, NO_PARAMS },
	{ NV2080_CTRL_CMD_GPU_RELEASE_COMPUTE_MODE_RESERVATION, NO_PARAMS },
	/* The driver would write a channel's token there whenever it changes, which it does not here. */
	{ NVC36F_CTRL_CMD_GPFIFO_SET_WORK_SUBMIT_TOKEN_NOTIF_INDEX,
		CARD_PARAMS(NVC36F_CTRL_GPFIFO_SET_WORK_SUBMIT_TOKEN_NOTIF_INDEX_PARAMS) },
	{ NV503C_CTRL_CMD_UNREGISTER_VA_SPACE, CARD_PARAMS(NV503C_CTRL_UNREGISTER_VA_SPACE_PARAMS) },
	{ NV503C_CTRL_CMD_UNREGISTER_VIDMEM, CARD_PARAMS(NV503C_CTRL_UNREGISTER_VIDMEM_PARAMS) },
	/* Clocks stay as they are whether a program computes or not. */
	{ NV0080_CTRL_CMD_PERF_CUDA_LIMIT_SET_CONTROL, CARD_PARAMS(NV0080_CTRL_PERF_CUDA_LIMIT_CONTROL_PARAMS) },
	/* These are the card's firmware's, and have no public name (card.json has the source). */
	{ CARD_CONTROL_9909, CARD_PARAMS(CARD_CONTROL_9909_PARAMS) },
	{ CARD_CONTROL_8159, CARD_PARAMS(CARD_CONTROL_8159_PARAMS) },
};

const struct control_set controls_nothing = CONTROL_SET(entries);
