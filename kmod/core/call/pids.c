// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0
/*
 * Controls that tell of processes: which use a card, and how much memory each has. A container is told of its own only.
 *
 * Drivers list numbers of the host's, and from 535.113.01 on those of the caller's pid namespace, without the processes
 * that it cannot see (src/nvidia/src/kernel/gpu/gpu_rmapi.c). What a process holds they tell by the host's number until
 * 560, and by the caller's from 565.57.01 on. A transport that runs calls in another namespace cannot ask a driver that
 * knows the caller's: there the call goes on.
 */
#include "call/call.h"
#include "ledger/process.h"

/* The process that the driver means; 0: nobody. */
static s32 process_of(const struct core_call_context *context, u32 number, u32 of_caller)
{
	if (number == 0 || number > 0x7fffffff)
		return 0;
	if (!of_caller)
		return (s32)number;
	return context->core->ops->process_of(context->core->ctx, (s32)number);
}

static int is_own(const struct core_call_context *context, u32 number, u32 of_caller)
{
	const struct cgpu_state *state = context->state;
	s32 tgid = process_of(context, number, of_caller);
	u32 at = core_client_of_process(state, tgid);

	for (; tgid != 0 && at != CORE_NONE; at = state->client[at].tgid_next) {
		if (state->client[at].tgid == tgid && state->client[at].slot == context->call->slot)
			return 1;
	}
	return 0;
}

int core_pids_judged(const struct core_call_context *context, u32 of_caller)
{
	return !of_caller || context->core->ops->process_of != NULL;
}

void core_rewrite_pids(struct core_call_context *context)
{
	const struct nv_layout_NV2080_CTRL_GPU_GET_PIDS_PARAMS *at = &context->abi->NV2080_CTRL_GPU_GET_PIDS_PARAMS;
	u8 *params = context->call->segment[0].data;
	u32 most = (u32)(at->bytes - at->pidTbl) / 4, count = core_get32(params, at->pidTblCount), i, own = 0, pid;

	for (i = 0; i < count && i < most; i++) {
		pid = core_get32(params, at->pidTbl + 4 * i);
		if (is_own(context, pid, context->abi->pids_of_caller))
			core_put32(params, at->pidTbl + 4 * own++, pid);
	}
	memset(params + at->pidTbl + 4 * own, 0, 4 * (most - own));
	core_put32(params, at->pidTblCount, own);
}

/* Others have nothing, like processes that do not use the card. */
void core_rewrite_pid_info(struct core_call_context *context)
{
	const struct nv_layout_NV2080_CTRL_GPU_GET_PID_INFO_PARAMS *list =
		&context->abi->NV2080_CTRL_GPU_GET_PID_INFO_PARAMS;
	const struct nv_layout_NV2080_CTRL_GPU_PID_INFO *at = &context->abi->NV2080_CTRL_GPU_PID_INFO;
	u8 *entry = context->call->segment[0].data + list->pidInfoList;
	u32 most = (u32)(list->bytes - list->pidInfoList) / at->bytes, i;

	for (i = 0; i < most; i++, entry += at->bytes) {
		if (!is_own(context, core_get32(entry, at->pid), context->abi->pid_info_of_caller))
			memset(entry + at->data, 0, at->smcSubscription_computeInstanceId - at->data);
	}
}
