// SPDX-License-Identifier: Apache-2.0
/* The limits on cgroups as NVML sets them (src/nvidia/arch/nvalloc/unix/src/os.c, 615.71.09): of the caller's own cgroup. */
#include "control.h"

#define CURRENT_PROCESS UINT32_MAX /* NV0000_CTRL_CMD_OS_UNIX_MEMACCT_CURRENT_PROCESS */

/* g_client_resource_nvoc.c: only for who may administrate the machine. Another cgroup's descriptor is not followed here. */
static uint32_t control_set_limits(struct control *control)
{
	struct sim *sim = control->call->sim;
	const struct nv_layout_NV0000_CTRL_OS_UNIX_MEMACCT_SET_LIMITS_PARAMS *at =
		&sim->abi->NV0000_CTRL_OS_UNIX_MEMACCT_SET_LIMITS_PARAMS;
	uint32_t card = 0;

	if (!caller_is_admin(&control->call->caller))
		return NV_ERR_INSUFFICIENT_PERMISSIONS;
	if (!sim->limit || get32(control->params, at->cgroupFd) != CURRENT_PROCESS)
		return NV_ERR_NOT_SUPPORTED;
	while (card < sim->card_count && sim->cards[card].gpu_id != get32(control->params, at->gpuId))
		card++;
	if (card == sim->card_count)
		return NV_ERR_OBJECT_NOT_FOUND;
	return sim->limit(sim, card, caller_process(&control->call->caller), get64(control->params, at->softLimit),
		get64(control->params, at->hardLimit));
}

static const struct control_entry entries[] = {
	{ NV0000_CTRL_OS_UNIX_CMD_MEMACCT_SET_LIMITS, NV01_ROOT_CLIENT,
		NV_PARAMS(NV0000_CTRL_OS_UNIX_MEMACCT_SET_LIMITS_PARAMS), ANSWER(control_set_limits, RIGHTS_NONE) },
};

const struct control_set controls_limits = CONTROL_SET(entries);
