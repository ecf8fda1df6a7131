// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0
/* NV_ESC_RM_CONTROL: the controls that tell sizes of memory or of processes, and those that carry memory elsewhere. */
#include "call.h"

/* Note the GPU that a control is about. -ENOENT: the object is no subdevice that the ledger knows. */
static int control_gpu(struct core_frame *frame)
{
	const struct nv_layout_NVOS54_PARAMETERS *at = &frame->abi->NVOS54_PARAMETERS;
	u32 client = core_client_find(frame->state, frame->call->slot, core_get32(frame->call->top, at->hClient));
	u32 object = core_object_find(frame->state, client, core_get32(frame->call->top, at->hObject));

	if (object == CORE_NONE || frame->state->object[object].kind != CORE_OBJECT_SUBDEVICE)
		return -ENOENT;
	frame->call->opaque[CORE_NOTE_GPU] = frame->state->object[object].gpu;
	return 0;
}

/* The list that the older form of the query points to. As core_segment(). */
static int info_list(struct core_frame *frame, u32 *count)
{
	const struct nv_layout_NV2080_CTRL_FB_GET_INFO_PARAMS *at = &frame->abi->NV2080_CTRL_FB_GET_INFO_PARAMS;
	const struct nv_layout_NV2080_CTRL_FB_GET_INFO_V2_PARAMS *v2 = &frame->abi->NV2080_CTRL_FB_GET_INFO_V2_PARAMS;
	u32 entry = frame->abi->NV2080_CTRL_FB_INFO.bytes;
	const u8 *params = frame->call->segment[0].data;

	*count = core_get32(params, at->fbInfoListSize);
	/* The driver turns one form into the other, so their lists are equally long. */
	if (*count == 0 || *count > (u32)(v2->bytes - v2->fbInfoList) / entry)
		return -EINVAL;
	if (core_get64(params, at->fbInfoList) == 0)
		return -EINVAL;
	return core_segment(frame, 1, 1, at->fbInfoList, *count * entry);
}

int core_control_params(struct core_frame *frame, u32 bytes, enum cgpu_verdict *verdict)
{
	const struct nv_layout_NVOS54_PARAMETERS *at = &frame->abi->NVOS54_PARAMETERS;
	const u8 *top = frame->call->top;
	int more = 1;

	if (core_get32(top, at->flags) & NVOS54_FLAGS_FINN_SERIALIZED) {
		*verdict = core_answer(frame, NV_ERR_NOT_SUPPORTED);
	} else if (core_get32(top, at->paramsSize) != bytes) {
		*verdict = core_answer(frame, NV_ERR_INVALID_PARAM_STRUCT);
	} else if (core_get64(top, at->params) == 0) {
		*verdict = core_answer(frame, NV_ERR_INVALID_ARGUMENT);
	} else {
		more = core_segment(frame, 0, 0, at->params, bytes);
		*verdict = more < 0 ? core_refuse(frame, EINVAL) : CGPU_COPY_IN;
	}
	return more;
}

static enum cgpu_verdict info_control(struct core_frame *frame, u32 params_bytes, enum core_op op)
{
	u32 count;
	enum cgpu_verdict verdict;
	int more;

	if (control_gpu(frame))
		return core_answer(frame, NV_ERR_INVALID_OBJECT_HANDLE);
	if (core_control_params(frame, params_bytes, &verdict))
		return verdict;
	if (op == CORE_OP_FB_INFO) {
		more = info_list(frame, &count);
		if (more)
			return more < 0 ? core_answer(frame, NV_ERR_INVALID_ARGUMENT) : CGPU_COPY_IN;
	}
	return core_execute(frame, op);
}

static enum cgpu_verdict pids_control(struct core_frame *frame, u32 params_bytes, enum core_op op, u32 of_caller)
{
	return core_pids_judged(frame, of_caller) ? info_control(frame, params_bytes, op) : CGPU_CONTINUE;
}

static int samples_are_translated(const struct core_frame *frame)
{
	return frame->abi->NV2080_CTRL_PERF_GPUMON_ENGINE_UTIL_SAMPLE.pOsPidInfo != NV_ABI_ABSENT;
}

/* A control for which the table says that it is judged here. */
static enum cgpu_verdict judge(struct core_frame *frame, u32 command)
{
	switch (command) {
	case NV2080_CTRL_CMD_FB_GET_INFO:
		return info_control(frame, frame->abi->NV2080_CTRL_FB_GET_INFO_PARAMS.bytes, CORE_OP_FB_INFO);
	case NV2080_CTRL_CMD_FB_GET_INFO_V2:
		return info_control(frame, frame->abi->NV2080_CTRL_FB_GET_INFO_V2_PARAMS.bytes, CORE_OP_FB_INFO_V2);
	case NV2080_CTRL_CMD_FB_GET_FB_REGION_INFO:
		return info_control(
			frame, frame->abi->NV2080_CTRL_CMD_FB_GET_FB_REGION_INFO_PARAMS.bytes, CORE_OP_FB_REGION);
	case NV2080_CTRL_CMD_GPU_GET_PIDS:
		return pids_control(frame, frame->abi->NV2080_CTRL_GPU_GET_PIDS_PARAMS.bytes, CORE_OP_PIDS,
			frame->abi->pids_of_caller);
	case NV2080_CTRL_CMD_GPU_GET_PID_INFO:
		return pids_control(frame, frame->abi->NV2080_CTRL_GPU_GET_PID_INFO_PARAMS.bytes, CORE_OP_PID_INFO,
			frame->abi->pid_info_of_caller);
	case NV2080_CTRL_CMD_PERF_GET_GPUMON_PERFMON_UTIL_SAMPLES_V2:
		/* Before it had the field, the driver gave the host's numbers of all processes (kern_perf_ctrl.c). */
		return samples_are_translated(frame) ? CGPU_CONTINUE : core_answer(frame, NV_ERR_NOT_SUPPORTED);
	case NV0000_CTRL_CMD_GPUACCT_GET_PROC_ACCOUNTING_INFO:
	case NV0000_CTRL_CMD_GPUACCT_GET_PROC_ACCOUNTING_INFO_V2:
	case NV0000_CTRL_CMD_GPUACCT_GET_ACCOUNTING_PIDS:
		/* Of processes that have ended: nobody can tell whose they were. */
		return core_answer(frame, NV_ERR_NOT_SUPPORTED);
	case NV0000_CTRL_CMD_OS_UNIX_EXPORT_OBJECT_TO_FD:
	case NV0000_CTRL_CMD_OS_UNIX_IMPORT_OBJECT_FROM_FD:
	case NV0000_CTRL_CMD_OS_UNIX_EXPORT_OBJECTS_TO_FD:
	case NV0000_CTRL_CMD_OS_UNIX_IMPORT_OBJECTS_FROM_FD:
		return core_begin_transfer(frame, command);
	case NV2080_CTRL_CMD_GPU_SET_PARTITIONS:
	case NV2080_CTRL_CMD_GPU_CONFIGURE_PARTITION:
	case NV2080_CTRL_CMD_GPU_SET_PARTITIONING_MODE:
	case NVC637_CTRL_CMD_EXEC_PARTITIONS_CREATE:
	case NVC637_CTRL_CMD_EXEC_PARTITIONS_DELETE:
		/* How cards are divided by MIG is the node's affair, whatever rights a container has. */
		return core_answer(frame, NV_ERR_INSUFFICIENT_PERMISSIONS);
	case NV0000_CTRL_OS_UNIX_CMD_MEMACCT_SET_LIMITS:
		/* The driver's own limits on cgroups, which it lets whoever may administrate the machine set. */
		return core_answer(frame, NV_ERR_INSUFFICIENT_PERMISSIONS);
	default:
		return core_begin_sched(frame, command);
	}
}

enum cgpu_verdict core_begin_control(struct core_frame *frame)
{
	const struct nv_layout_NVOS54_PARAMETERS *at = &frame->abi->NVOS54_PARAMETERS;
	u32 command;

	if (frame->call->bytes != at->bytes)
		return core_refuse(frame, EINVAL);
	frame->status_at = at->status;
	command = core_get32(frame->call->top, at->cmd);
	switch (core_control_verdict(command)) {
	case NV_CONTROL_PASS:
		return CGPU_CONTINUE;
	case NV_CONTROL_JUDGE:
		return judge(frame, command);
	case NV_CONTROL_REFUSE:
		return core_answer(frame, NV_ERR_INSUFFICIENT_PERMISSIONS);
	default:
		frame->unknown_control = command;
		return core_answer(frame, NV_ERR_NOT_SUPPORTED);
	}
}
