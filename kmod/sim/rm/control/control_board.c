// SPDX-License-Identifier: Apache-2.0
/* What kind of card it is. */
#include "control.h"

static uint32_t control_arch(struct control *control)
{
	const struct card_layout_NV2080_CTRL_MC_GET_ARCH_INFO_PARAMS *at =
		&control->call->sim->card_abi->NV2080_CTRL_MC_GET_ARCH_INFO_PARAMS;
	const struct model *model = control->card.model;

	put32(control->params, at->architecture, model->architecture);
	put32(control->params, at->implementation, model->implementation);
	put32(control->params, at->revision, model->revision);
	put32(control->params, at->subRevision, 0);
	return NV_OK;
}

/* It is the machine's own, and divided among no guests. */
static uint32_t control_virtualization(struct control *control)
{
	put32(control->params,
		control->call->sim->card_abi->NV0080_CTRL_GPU_GET_VIRTUALIZATION_MODE_PARAMS.virtualizationMode,
		NV0080_CTRL_GPU_VIRTUALIZATION_MODE_NONE);
	return NV_OK;
}

/* What the driver answers itself (subdevice_ctrl_gpu_kernel.c, getGpuInfos()). */
static uint32_t board_value(const struct control *control, uint32_t index, uint32_t *value)
{
	*value = 0; /* none of it, no, off */
	switch (index) {
	case NV2080_CTRL_GPU_INFO_INDEX_MINOR_REVISION_EXT:
	case NV2080_CTRL_GPU_INFO_INDEX_NETLIST_REV0:
	case NV2080_CTRL_GPU_INFO_INDEX_NETLIST_REV1:
	case NV2080_CTRL_GPU_INFO_INDEX_GEMINI_BOARD:
	case NV2080_CTRL_GPU_INFO_INDEX_SURPRISE_REMOVAL_POSSIBLE:
	case NV2080_CTRL_GPU_INFO_INDEX_GLOBAL_POISON_FUSE_ENABLED:
	case NV2080_CTRL_GPU_INFO_INDEX_NVSWITCH_PROXY_DETECTED:
	case NV2080_CTRL_GPU_INFO_INDEX_GPU_FLA_CAPABILITY:
	case NV2080_CTRL_GPU_INFO_INDEX_GPU_ATS_CAPABILITY:
	case NV2080_CTRL_GPU_INFO_INDEX_4K_PAGE_ISOLATION_REQUIRED:
	case NV2080_CTRL_GPU_INFO_INDEX_DISPLAY_ENABLED:
	case NV2080_CTRL_GPU_INFO_INDEX_MOBILE_CONFIG_ENABLED:
	case NV2080_CTRL_GPU_INFO_INDEX_GPU_LOCAL_EGM_CAPABILITY:
	case NV2080_CTRL_GPU_INFO_INDEX_GPU_SELF_HOSTED_CAPABILITY:
	case NV2080_CTRL_GPU_INFO_INDEX_CMP_SKU:
	case NV2080_CTRL_GPU_INFO_INDEX_DMABUF_CAPABILITY:
	case NV2080_CTRL_GPU_INFO_INDEX_IS_RESETLESS_MIG_SUPPORTED:
		return NV_OK;
	case GPU_INFO_INDEX_BOARD_LINE:
		*value = GPU_INFO_BOARD_LINE_DATA_CENTER;
		return NV_OK;
	case NV2080_CTRL_GPU_INFO_INDEX_GPU_SMC_MODE:
		*value = mig_mode(&control->card);
		return NV_OK;
	case NV2080_CTRL_GPU_INFO_INDEX_SYSMEM_ACCESS:
		*value = NV2080_CTRL_GPU_INFO_SYSMEM_ACCESS_YES;
		return NV_OK;
	case NV2080_CTRL_GPU_INFO_INDEX_IBMNPU_RELAXED_ORDERING:
		*value = NV2080_CTRL_GPU_INFO_IBMNPU_RELAXED_ORDERING_UNSUPPORTED;
		return NV_OK;
	case NV2080_CTRL_GPU_INFO_INDEX_NVENC_STATS_REPORTING_STATE:
		*value = NV2080_CTRL_GPU_INFO_NVENC_STATS_REPORTING_STATE_NOT_SUPPORTED;
		return NV_OK;
	case NV2080_CTRL_GPU_INFO_INDEX_GPU_PROFILING_CAPABILITY:
		*value = NV2080_CTRL_GPU_INFO_INDEX_GPU_PROFILING_CAPABILITY_ENABLED;
		return NV_OK;
	case NV2080_CTRL_GPU_INFO_INDEX_GPU_DEBUGGING_CAPABILITY:
		*value = NV2080_CTRL_GPU_INFO_INDEX_GPU_DEBUGGING_CAPABILITY_ENABLED;
		return NV_OK;
	default:
		/* The card's firmware would answer it. */
		return NV_ERR_NOT_SUPPORTED;
	}
}

static uint32_t control_board_info(struct control *control)
{
	const struct nv_abi *abi = control->call->sim->abi;
	const struct nv_layout_NV2080_CTRL_GPU_GET_INFO_V2_PARAMS *at = &abi->NV2080_CTRL_GPU_GET_INFO_V2_PARAMS;

	return info_list_inside(control, at->gpuInfoList, get32(control->params, at->gpuInfoListSize),
		(uint32_t)(at->bytes - at->gpuInfoList) / abi->NV2080_CTRL_GPU_INFO.bytes, board_value);
}

static const struct control_entry entries[] = {
	{ NV2080_CTRL_CMD_MC_GET_ARCH_INFO, NV20_SUBDEVICE_0, CARD_PARAMS(NV2080_CTRL_MC_GET_ARCH_INFO_PARAMS),
		ANSWER(control_arch, RIGHTS_NONE) },
	{ NV2080_CTRL_CMD_GPU_GET_INFO_V2, NV20_SUBDEVICE_0, NV_PARAMS(NV2080_CTRL_GPU_GET_INFO_V2_PARAMS),
		ANSWER(control_board_info, RIGHTS_NONE) },
	{ NV0080_CTRL_CMD_GPU_GET_VIRTUALIZATION_MODE, NV01_DEVICE_0,
		CARD_PARAMS(NV0080_CTRL_GPU_GET_VIRTUALIZATION_MODE_PARAMS),
		ANSWER(control_virtualization, RIGHTS_NONE) },
};

const struct control_set controls_board = CONTROL_SET(entries);
