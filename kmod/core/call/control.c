// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0
/* NV_ESC_RM_CONTROL: the controls that tell sizes of memory or of processes, and those that carry memory elsewhere. */
#include "call/call.h"

/* Note the GPU that a control is about. -ENOENT: the object is no subdevice that the ledger knows. */
static int control_gpu(struct core_call_context *context)
{
	u32 object = core_subject(context);

	if (object == CORE_NONE || context->state->object[object].kind != CORE_OBJECT_SUBDEVICE)
		return -ENOENT;
	context->call->opaque[CORE_NOTE_GPU] = context->state->object[object].gpu;
	return 0;
}

/* The list that the older form of the query points to. As core_segment(). */
static int info_list(struct core_call_context *context, u32 *count)
{
	const struct nv_layout_NV2080_CTRL_FB_GET_INFO_PARAMS *at = &context->abi->NV2080_CTRL_FB_GET_INFO_PARAMS;
	const struct nv_layout_NV2080_CTRL_FB_GET_INFO_V2_PARAMS *v2 = &context->abi->NV2080_CTRL_FB_GET_INFO_V2_PARAMS;
	u32 entry = context->abi->NV2080_CTRL_FB_INFO.bytes;
	const u8 *params = context->call->segment[0].data;

	*count = get32(params, at->fbInfoListSize);
	/* The driver turns one form into the other, so their lists are equally long. */
	if (*count == 0 || *count > (u32)(v2->bytes - v2->fbInfoList) / entry)
		return -EINVAL;
	if (get64(params, at->fbInfoList) == 0)
		return -EINVAL;
	return core_segment(context, 1, 1, at->fbInfoList, *count * entry);
}

/* Controls that tell sizes of memory, or of processes, run on a copy, which is rewritten at the end. */
static enum cgpu_verdict begin_info(struct core_call_context *context)
{
	u32 count;
	enum cgpu_verdict verdict;
	int more;

	if (control_gpu(context))
		return core_answer(context, NV_ERR_INVALID_OBJECT_HANDLE);
	if (core_control_params(context, core_abi_at(context->abi, context->control->bytes), &verdict))
		return verdict;
	if (context->control->op == CORE_OP_FB_INFO) {
		more = info_list(context, &count);
		if (more)
			return more < 0 ? core_answer(context, NV_ERR_INVALID_ARGUMENT) : CGPU_COPY_IN;
	}
	return core_execute(context, context->control->op);
}

static enum cgpu_verdict begin_pids(struct core_call_context *context)
{
	/* Only the caller itself can be asked by the numbers that it knows. */
	if (core_abi_at(context->abi, context->control->of_caller) && context->core->ops->process_of == NULL)
		return CGPU_CONTINUE;
	return begin_info(context);
}

/* Before it had the field, the driver gave the host's numbers of all processes (kern_perf_ctrl.c). */
static enum cgpu_verdict begin_samples(struct core_call_context *context)
{
	if (context->abi->NV2080_CTRL_PERF_GPUMON_ENGINE_UTIL_SAMPLE.pOsPidInfo != NV_ABI_ABSENT)
		return CGPU_CONTINUE;
	return core_answer(context, NV_ERR_NOT_SUPPORTED);
}

/* Channels are looked for in whatever client the parameters name, with no question whose it is. */
static enum cgpu_verdict begin_naming(struct core_call_context *context)
{
	u32 bytes = core_abi_at(context->abi, context->control->bytes);
	enum cgpu_verdict verdict;

	if (bytes == 0)
		return core_answer(context, NV_ERR_NOT_SUPPORTED);
	if (core_control_params(context, bytes, &verdict))
		return verdict;
	if (!core_is_own_client(context, core_field(context, context->call->segment[0].data, context->control->client)))
		return core_answer(context, NV_ERR_INSUFFICIENT_PERMISSIONS);
	return core_execute(context, CORE_OP_PLAIN);
}

/* As core_begin_share(), but the driver checks whose the client is: a client without objects has no record. */
static enum cgpu_verdict begin_share_policy(struct core_call_context *context)
{
	const struct nv_layout_NV0000_CTRL_CLIENT_SET_INHERITED_SHARE_POLICY_PARAMS *at =
		&context->abi->NV0000_CTRL_CLIENT_SET_INHERITED_SHARE_POLICY_PARAMS;
	enum cgpu_verdict verdict;
	const u8 *params;
	u32 target;

	if (core_control_params(context, at->bytes, &verdict))
		return verdict;
	params = context->call->segment[0].data;
	target = get32(params, at->sharePolicy_target);
	if (get16(params, at->sharePolicy_type) == RS_SHARE_TYPE_CLIENT && !core_is_own_client(context, target) &&
		target != get32(context->call->top, context->abi->NVOS54_PARAMETERS.hClient))
		return core_answer(context, NV_ERR_INSUFFICIENT_PERMISSIONS);
	return core_execute(context, CORE_OP_PLAIN);
}

static enum cgpu_verdict begin_answer(struct core_call_context *context)
{
	return core_answer(context, context->control->status);
}

/* These controls tell of processes that have ended, whose container is unknown, or of all processes that use the
 * card. */
#define UNSUPPORTED(number)                                                              \
	{                                                                                \
		.command = number, .begin = begin_answer, .status = NV_ERR_NOT_SUPPORTED \
	}
#define SIZES(number, layout, left)                                                                 \
	{                                                                                           \
		.command = number, .begin = begin_info, .bytes = CORE_ABI(layout.bytes), .op = left \
	}
#define PROCESSES(number, layout, caller, left)                                          \
	{                                                                                \
		.command = number, .begin = begin_pids, .bytes = CORE_ABI(layout.bytes), \
		.of_caller = CORE_ABI(caller), .op = left                                \
	}
#define TRANSFERS(number)                                       \
	{                                                       \
		.command = number, .begin = core_begin_transfer \
	}
#define NAMES(number, layout)                                                              \
	{                                                                                  \
		.command = number, .begin = begin_naming, .bytes = CORE_ABI(layout.bytes), \
		.client = CORE_ABI(layout.hClient)                                         \
	}
#define SCHEDULING(number, judge)                 \
	{                                         \
		.command = number, .begin = judge \
	}
/* These controls are refused for a passthrough GPU beside a slice, too: the driver may find another object by the
 * handle than the one that was judged. */
#define NOT_FOR_SLICES(number)                                                                      \
	{                                                                                           \
		.command = number, .begin = begin_answer, .status = NV_ERR_INSUFFICIENT_PERMISSIONS \
	}

/* The controls that kmod/abi/controls.json has as judged, sorted by number. */
static const struct core_control controls[] = {
	UNSUPPORTED(NV0000_CTRL_CMD_GPUACCT_GET_PROC_ACCOUNTING_INFO),
	UNSUPPORTED(NV0000_CTRL_CMD_GPUACCT_GET_ACCOUNTING_PIDS),
	UNSUPPORTED(NV0000_CTRL_CMD_GPUACCT_GET_PROC_ACCOUNTING_INFO_V2),
	{ .command = NV0000_CTRL_CMD_CLIENT_SET_INHERITED_SHARE_POLICY, .begin = begin_share_policy },
	TRANSFERS(NV0000_CTRL_CMD_OS_UNIX_EXPORT_OBJECT_TO_FD),
	TRANSFERS(NV0000_CTRL_CMD_OS_UNIX_IMPORT_OBJECT_FROM_FD),
	TRANSFERS(NV0000_CTRL_CMD_OS_UNIX_EXPORT_OBJECTS_TO_FD),
	TRANSFERS(NV0000_CTRL_CMD_OS_UNIX_IMPORT_OBJECTS_FROM_FD),
	NOT_FOR_SLICES(NV0080_CTRL_CMD_FIFO_SET_CHANNEL_PROPERTIES),
	NOT_FOR_SLICES(NV0080_CTRL_CMD_FIFO_STOP_RUNLIST),
	NOT_FOR_SLICES(NV0080_CTRL_CMD_FIFO_START_RUNLIST),
	UNSUPPORTED(NV2080_CTRL_GPU_GET_NVENC_SW_SESSION_STATS),
	UNSUPPORTED(NV2080_CTRL_GPU_GET_NVFBC_SW_SESSION_STATS),
	PROCESSES(NV2080_CTRL_CMD_GPU_GET_PIDS, NV2080_CTRL_GPU_GET_PIDS_PARAMS, pids_of_caller, CORE_OP_PIDS),
	PROCESSES(NV2080_CTRL_CMD_GPU_GET_PID_INFO, NV2080_CTRL_GPU_GET_PID_INFO_PARAMS, pid_info_of_caller,
		CORE_OP_PID_INFO),
	NOT_FOR_SLICES(NV2080_CTRL_CMD_GPU_SET_COMPUTE_POLICY_CONFIG),
	SCHEDULING(NV2080_CTRL_CMD_GPU_GET_COMPUTE_POLICY_CONFIG, core_begin_get_policy),
	NOT_FOR_SLICES(NV2080_CTRL_CMD_FIFO_DISABLE_CHANNELS),
	NOT_FOR_SLICES(NV2080_CTRL_CMD_FIFO_CONFIG_CTXSW_TIMEOUT),
	NOT_FOR_SLICES(NV2080_CTRL_CMD_FIFO_RUNLIST_SET_SCHED_POLICY),
	NOT_FOR_SLICES(NV2080_CTRL_CMD_FIFO_DISABLE_USERMODE_CHANNELS),
	NOT_FOR_SLICES(NV2080_CTRL_CMD_FIFO_DISABLE_CHANNELS_FOR_KEY_ROTATION),
	NOT_FOR_SLICES(NV2080_CTRL_CMD_FIFO_DISABLE_CHANNELS_FOR_KEY_ROTATION_V2),
	NOT_FOR_SLICES(NV2080_CTRL_CMD_FIFO_OBJSCHED_SET_STATE),
	NAMES(NV2080_CTRL_CMD_GR_CTXSW_ZCULL_BIND, NV2080_CTRL_GR_CTXSW_ZCULL_BIND_PARAMS),
	NAMES(NV2080_CTRL_CMD_GR_CTXSW_PREEMPTION_BIND, NV2080_CTRL_GR_CTXSW_PREEMPTION_BIND_PARAMS),
	NAMES(NV2080_CTRL_CMD_GR_CTXSW_SETUP_BIND, NV2080_CTRL_GR_CTXSW_SETUP_BIND_PARAMS),
	SIZES(NV2080_CTRL_CMD_FB_GET_INFO, NV2080_CTRL_FB_GET_INFO_PARAMS, CORE_OP_FB_INFO),
	SIZES(NV2080_CTRL_CMD_FB_GET_INFO_V2, NV2080_CTRL_FB_GET_INFO_V2_PARAMS, CORE_OP_FB_INFO_V2),
	SIZES(NV2080_CTRL_CMD_FB_GET_FB_REGION_INFO, NV2080_CTRL_CMD_FB_GET_FB_REGION_INFO_PARAMS, CORE_OP_FB_REGION),
	{ .command = NV2080_CTRL_CMD_PERF_GET_GPUMON_PERFMON_UTIL_SAMPLES_V2, .begin = begin_samples },
	SCHEDULING(NVA06C_CTRL_CMD_GPFIFO_SCHEDULE, core_begin_schedule),
	SCHEDULING(NVA06C_CTRL_CMD_BIND, core_begin_bind),
	SCHEDULING(NVA06C_CTRL_CMD_SET_TIMESLICE, core_begin_set_timeslice),
	NOT_FOR_SLICES(NVA06C_CTRL_CMD_SET_INTERLEAVE_LEVEL),
	NOT_FOR_SLICES(NVA06C_CTRL_CMD_MAKE_REALTIME),
	SCHEDULING(NVA06F_CTRL_CMD_GPFIFO_SCHEDULE, core_begin_schedule),
	SCHEDULING(NVA06F_CTRL_CMD_BIND, core_begin_bind),
	NOT_FOR_SLICES(NVA06F_CTRL_CMD_SET_INTERLEAVE_LEVEL),
	NOT_FOR_SLICES(NVA06F_CTRL_CMD_RESTART_RUNLIST),
	SCHEDULING(NVA16F_CTRL_CMD_GPFIFO_SCHEDULE, core_begin_schedule),
	SCHEDULING(NVA16F_CTRL_CMD_BIND, core_begin_bind),
	SCHEDULING(NVA26F_CTRL_CMD_GPFIFO_SCHEDULE, core_begin_schedule),
	SCHEDULING(NVA26F_CTRL_CMD_BIND, core_begin_bind),
	SCHEDULING(NVB06F_CTRL_CMD_GPFIFO_SCHEDULE, core_begin_schedule),
	SCHEDULING(NVB06F_CTRL_CMD_BIND, core_begin_bind),
	SCHEDULING(NVC06F_CTRL_CMD_GPFIFO_SCHEDULE, core_begin_schedule),
	SCHEDULING(NVC06F_CTRL_CMD_BIND, core_begin_bind),
	SCHEDULING(NVC36F_CTRL_CMD_GPFIFO_SCHEDULE, core_begin_schedule),
	SCHEDULING(NVC36F_CTRL_CMD_BIND, core_begin_bind),
};

_Static_assert(__builtin_offsetof(struct core_control, command) == 0, "core_find_row() looks there");

static enum cgpu_verdict judge(struct core_call_context *context, u32 command)
{
	const struct core_control *control =
		core_find_row(controls, sizeof(controls) / sizeof(controls[0]), sizeof(controls[0]), command);

	/* controls.json says that it is judged, and there is no row. */
	if (control == NULL)
		return core_answer(context, NV_ERR_INSUFFICIENT_PERMISSIONS);
	context->control = control;
	return control->begin(context);
}

enum cgpu_verdict core_begin_control(struct core_call_context *context)
{
	u32 command = get32(context->call->top, context->abi->NVOS54_PARAMETERS.cmd);

	switch (core_control_verdict(command)) {
	case NV_CONTROL_PASS:
		return CGPU_CONTINUE;
	case NV_CONTROL_JUDGE:
		return judge(context, command);
	case NV_CONTROL_REFUSE:
		return core_answer(context, NV_ERR_INSUFFICIENT_PERMISSIONS);
	default:
		context->unknown_control = command;
		return core_answer(context, NV_ERR_NOT_SUPPORTED);
	}
}
