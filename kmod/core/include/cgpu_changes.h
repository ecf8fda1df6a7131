/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* Driver calls of a container that have to run one at a time. Part of cgpu_core.h, for transports. */
#ifndef CGPU_CHANGES_H
#define CGPU_CHANGES_H

#include "cgpu_core.h"

/* Whether a call may change a container's objects, or which of its channels run. The ledger is right when these
 * calls of one container run one at a time, from cgpu_call_begin to cgpu_call_end. */
static inline int cgpu_call_changes(const struct nv_abi *abi, const struct cgpu_call *call)
{
	u32 command;

	if (call->nr != NV_ESC_RM_CONTROL)
		return 1;
	if (call->bytes != abi->NVOS54_PARAMETERS.bytes)
		return 0;
	memcpy(&command, call->top + abi->NVOS54_PARAMETERS.cmd, sizeof(command));
	/* Each control with a row in core/call/control.c that changes the ledger or a channel. */
	switch (command) {
	case NV0000_CTRL_CMD_OS_UNIX_EXPORT_OBJECT_TO_FD:
	case NV0000_CTRL_CMD_OS_UNIX_EXPORT_OBJECTS_TO_FD:
	case NV0000_CTRL_CMD_OS_UNIX_IMPORT_OBJECT_FROM_FD:
	case NV0000_CTRL_CMD_OS_UNIX_IMPORT_OBJECTS_FROM_FD:
	case NVA06C_CTRL_CMD_GPFIFO_SCHEDULE:
	case NVA06F_CTRL_CMD_GPFIFO_SCHEDULE:
	case NVA06C_CTRL_CMD_BIND:
	case NVA06C_CTRL_CMD_SET_TIMESLICE:
	case NVA06F_CTRL_CMD_BIND:
	case NVA16F_CTRL_CMD_GPFIFO_SCHEDULE:
	case NVA16F_CTRL_CMD_BIND:
	case NVA26F_CTRL_CMD_GPFIFO_SCHEDULE:
	case NVA26F_CTRL_CMD_BIND:
	case NVB06F_CTRL_CMD_GPFIFO_SCHEDULE:
	case NVB06F_CTRL_CMD_BIND:
	case NVC06F_CTRL_CMD_GPFIFO_SCHEDULE:
	case NVC06F_CTRL_CMD_BIND:
	case NVC36F_CTRL_CMD_GPFIFO_SCHEDULE:
	case NVC36F_CTRL_CMD_BIND:
		return 1;
	default:
		return 0;
	}
}

#endif
