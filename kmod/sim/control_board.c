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
	put32(control->params, control->call->sim->card_abi->NV0080_CTRL_GPU_GET_VIRTUALIZATION_MODE_PARAMS.virtualizationMode,
		NV0080_CTRL_GPU_VIRTUALIZATION_MODE_NONE);
	return NV_OK;
}

static const struct control_entry entries[] = {
	{ NV2080_CTRL_CMD_MC_GET_ARCH_INFO, NV20_SUBDEVICE_0, CARD_PARAMS(NV2080_CTRL_MC_GET_ARCH_INFO_PARAMS),
		ANSWER(control_arch, RIGHTS_NONE) },
	{ NV0080_CTRL_CMD_GPU_GET_VIRTUALIZATION_MODE, NV01_DEVICE_0,
		CARD_PARAMS(NV0080_CTRL_GPU_GET_VIRTUALIZATION_MODE_PARAMS), ANSWER(control_virtualization, RIGHTS_NONE) },
};

const struct control_set controls_board = CONTROL_SET(entries);
