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

#define ZEROS(class, name) CARD_CONTROL(class, name), .answer = control_zeros
#define CONSTANT(class, name, field, told)                                                                    \
	CARD_CONTROL(class, name), .answer = control_constant,                                                \
				   .value_at = offsetof(struct card_abi, class##_CTRL_##name##_PARAMS.field), \
				   .value = (told)

static const struct control_entry entries[] = {
	{ ZEROS(NV0000, SYSTEM_GET_FEATURES) },
	{ NV0000_CTRL_CMD_SYNC_GPU_BOOST_GROUP_INFO, CARD_PARAMS(NV0000_SYNC_GPU_BOOST_GROUP_INFO_PARAMS),
		.answer = control_zeros },
	{ ZEROS(NV0000, GPU_GET_MEMOP_ENABLE) },
	{ NV_CONF_COMPUTE_CTRL_CMD_SYSTEM_GET_CAPABILITIES,
		CARD_PARAMS(NV_CONF_COMPUTE_CTRL_CMD_SYSTEM_GET_CAPABILITIES_PARAMS), .answer = control_zeros },
	{ ZEROS(NV0080, HOST_GET_CAPS_V2) },
	{ ZEROS(NV0080, FB_GET_CAPS_V2) },
	{ ZEROS(NV2080, GR_GET_CAPS_V2) },
	/* Each instruction at full speed (NV2080_CTRL_GR_GET_SM_ISSUE_RATE_MODIFIER_*_FULL_SPEED). */
	{ ZEROS(NV2080, GR_GET_SM_ISSUE_RATE_MODIFIER) },
	{ ZEROS(NV2080, GPU_GET_ACTIVE_PARTITION_IDS) },
	{ NV2080_CTRL_CMD_BUS_GET_PCIE_SUPPORTED_GPU_ATOMICS,
		CARD_PARAMS(NV2080_CTRL_CMD_BUS_GET_PCIE_SUPPORTED_GPU_ATOMICS_PARAMS), .answer = control_zeros },
	{ NV2080_CTRL_CMD_BUS_GET_C2C_INFO, CARD_PARAMS(NV2080_CTRL_CMD_BUS_GET_C2C_INFO_PARAMS),
		.answer = control_zeros },
	{ NV2080_CTRL_CMD_NVLINK_GET_NVLINK_STATUS, CARD_PARAMS(NV2080_CTRL_CMD_NVLINK_GET_NVLINK_STATUS_PARAMS),
		.answer = control_zeros },
	/* Software sees no simulation of a chip: the card can do all that the chip can. */
	{ ZEROS(NV2080, GPU_GET_SIMULATION_INFO) },
	{ ZEROS(NV2080, GPU_GET_RESET_STATUS) },
	{ ZEROS(NV2080, GPU_GET_DRAIN_AND_RESET_STATUS) },
	/* No fabric of switches, so nothing of it is waited for (client_resource.c, cliresCtrlCmdSystemGetFabricStatus). */
	{ CONSTANT(NV0000, SYSTEM_GET_FABRIC_STATUS, fabricStatus, NV0000_CTRL_GET_SYSTEM_FABRIC_STATUS_SKIP) },
	/* No watchdog ends long kernels. */
	{ CONSTANT(
		NV2080, RC_GET_WATCHDOG_INFO, watchdogStatusFlags, NV2080_CTRL_RC_GET_WATCHDOG_INFO_FLAGS_DISABLED) },
	/* The card is the machine's own, and divided among no guests. */
	{ CONSTANT(NV0080, GPU_GET_VIRTUALIZATION_MODE, virtualizationMode, NV0080_CTRL_GPU_VIRTUALIZATION_MODE_NONE) },
	{ CONSTANT(NV0080, GPU_GET_NUM_SUBDEVICES, numSubDevices, 1) },
	/* The driver gives the card up when no process has its node open, as without nvidia-persistenced. */
	{ CONSTANT(NV0080, GPU_QUERY_SW_STATE_PERSISTENCE, swStatePersistence,
		NV0080_CTRL_GPU_SW_STATE_PERSISTENCE_DISABLED) },
	/* Any number of processes may compute on the card, so there is nothing that one could not reserve. */
	{ CONSTANT(NV2080, GPU_QUERY_COMPUTE_MODE_RULES, rules, NV2080_CTRL_GPU_COMPUTE_MODE_RULES_NONE) },
	{ NV2080_CTRL_CMD_GPU_ACQUIRE_COMPUTE_MODE_RESERVATION, NO_PARAMS },
	{ NV2080_CTRL_CMD_GPU_RELEASE_COMPUTE_MODE_RESERVATION, NO_PARAMS },
	/* The driver would write a channel's token there whenever it changes, which it does not here. */
	{ CARD_CONTROL(NVC36F, GPFIFO_SET_WORK_SUBMIT_TOKEN_NOTIF_INDEX) },
	/* These change how often a group comes, and when; on a simulated card each comes once, in one order. */
	{ NVA06C_CTRL_CMD_SET_INTERLEAVE_LEVEL, NV_PARAMS(NVA06C_CTRL_INTERLEAVE_LEVEL_PARAMS), .rights = RIGHTS_NICE },
	{ NVA06F_CTRL_CMD_SET_INTERLEAVE_LEVEL, NV_PARAMS(NVA06F_CTRL_INTERLEAVE_LEVEL_PARAMS), .rights = RIGHTS_NICE },
	{ NV_CONTROL(NVA06C, MAKE_REALTIME), .rights = RIGHTS_NICE },
	{ NV_CONTROL(NVA06C, PREEMPT) },
	{ NV_CONTROL(NVA06F, RESTART_RUNLIST), .rights = RIGHTS_NICE },
	{ NV_CONTROL(NV2080, FIFO_RUNLIST_SET_SCHED_POLICY), .rights = RIGHTS_NICE },
	{ NV_CONTROL(NV2080, GPU_SET_COMPUTE_POLICY_CONFIG), .rights = RIGHTS_ADMIN },
	{ NV_CONTROL(NV0080, FIFO_SET_CHANNEL_PROPERTIES) },
	{ CARD_CONTROL(NV503C, UNREGISTER_VA_SPACE) },
	{ CARD_CONTROL(NV503C, UNREGISTER_VIDMEM) },
	/* Clocks stay as they are whether a program computes or not. */
	{ NV0080_CTRL_CMD_PERF_CUDA_LIMIT_SET_CONTROL, CARD_PARAMS(NV0080_CTRL_PERF_CUDA_LIMIT_CONTROL_PARAMS) },
	/* These are the card's firmware's, and have no public name (card.json has the source). */
	{ CARD_CONTROL_9909, CARD_PARAMS(CARD_CONTROL_9909_PARAMS) },
	{ CARD_CONTROL_8159, CARD_PARAMS(CARD_CONTROL_8159_PARAMS) },
};

const struct control_set controls_nothing = CONTROL_SET(entries);
