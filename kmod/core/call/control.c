// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
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

static void plan_params(struct core_call_context *context)
{
	core_plan_params(context);
}

/* The older form of the query points to a list. A list that the driver refuses is not planned. */
static void plan_info_list(struct core_call_context *context)
{
	const struct nv_layout_NV2080_CTRL_FB_GET_INFO_PARAMS *at = &context->abi->NV2080_CTRL_FB_GET_INFO_PARAMS;
	const struct nv_layout_NV2080_CTRL_FB_GET_INFO_V2_PARAMS *v2 = &context->abi->NV2080_CTRL_FB_GET_INFO_V2_PARAMS;
	u32 entry = context->abi->NV2080_CTRL_FB_INFO.bytes, count;
	const u8 *params = core_plan_params(context);

	if (params == NULL)
		return;
	count = get32(params, at->fbInfoListSize);
	/* The driver turns one form into the other, so their lists are equally long. */
	if (count && count <= (u32)(v2->bytes - v2->fbInfoList) / entry && get64(params, at->fbInfoList))
		core_plan_buffer(context, 1, at->fbInfoList, count * entry);
}

/* Only the caller itself can be asked by the numbers that it knows. */
static int is_for_caller_alone(const struct core_call_context *context)
{
	return core_abi_at(context->abi, context->plan->control->of_caller) && context->core->ops->process_of == NULL;
}

static void plan_pids(struct core_call_context *context)
{
	if (!is_for_caller_alone(context))
		core_plan_params(context);
}

/* Controls that tell sizes of memory, or of processes, run on a copy, which is rewritten at the end. */
static enum cgpu_verdict begin_info(struct core_call_context *context)
{
	u32 status = control_gpu(context) ? NV_ERR_INVALID_OBJECT_HANDLE : core_params_status(context);

	if (status == NV_OK && context->plan->control->op == CORE_OP_FB_INFO && context->plan->buffers < 2)
		status = NV_ERR_INVALID_ARGUMENT;
	return status == NV_OK ? core_execute(context, context->plan->control->op) : core_answer(context, status);
}

static enum cgpu_verdict begin_pids(struct core_call_context *context)
{
	return is_for_caller_alone(context) ? CGPU_CONTINUE : begin_info(context);
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
	u32 status = core_params_status(context);

	if (status)
		return core_answer(context, status);
	if (!core_is_own_client(
		    context, core_field(context, context->call->segment[0].data, context->plan->control->client)))
		return core_answer(context, NV_ERR_INSUFFICIENT_PERMISSIONS);
	return core_execute(context, CORE_OP_PLAIN);
}

/* As core_begin_share(), but the driver checks whose the client is: a client without objects has no record. */
static enum cgpu_verdict begin_share_policy(struct core_call_context *context)
{
	const struct nv_layout_NV0000_CTRL_CLIENT_SET_INHERITED_SHARE_POLICY_PARAMS *at =
		&context->abi->NV0000_CTRL_CLIENT_SET_INHERITED_SHARE_POLICY_PARAMS;
	u32 status = core_params_status(context), target;
	const u8 *params;

	if (status)
		return core_answer(context, status);
	params = context->call->segment[0].data;
	target = get32(params, at->sharePolicy_target);
	if (get16(params, at->sharePolicy_type) == RS_SHARE_TYPE_CLIENT && !core_is_own_client(context, target) &&
		target != get32(context->call->top, context->abi->NVOS54_PARAMETERS.hClient))
		return core_answer(context, NV_ERR_INSUFFICIENT_PERMISSIONS);
	return core_execute(context, CORE_OP_PLAIN);
}

static enum cgpu_verdict begin_answer(struct core_call_context *context)
{
	return core_answer(context, context->plan->control->status);
}

/* These controls tell of processes that have ended, whose container is unknown, or of all processes that use the
 * card. */
#define UNSUPPORTED(number)                                                              \
	{                                                                                \
		.command = number, .begin = begin_answer, .status = NV_ERR_NOT_SUPPORTED \
	}
#define SIZES(number, layout, planner, left)                                                                         \
	{                                                                                                            \
		.command = number, .begin = begin_info, .plan = planner, .bytes = CORE_ABI(layout.bytes), .op = left \
	}
#define PROCESSES(number, layout, caller, left)                                                             \
	{                                                                                                   \
		.command = number, .begin = begin_pids, .plan = plan_pids, .bytes = CORE_ABI(layout.bytes), \
		.of_caller = CORE_ABI(caller), .op = left                                                   \
	}
#define TRANSFERS(number, layout)                                                            \
	{                                                                                    \
		.command = number, .begin = core_begin_transfer, .plan = core_plan_transfer, \
		.bytes = CORE_ABI(layout.bytes)                                              \
	}
#define NAMES(number, layout)                                                                                   \
	{                                                                                                       \
		.command = number, .begin = begin_naming, .plan = plan_params, .bytes = CORE_ABI(layout.bytes), \
		.client = CORE_ABI(layout.hClient)                                                              \
	}
#define BY_PARAMETERS(number, judge, layout)                                                            \
	{                                                                                               \
		.command = number, .begin = judge, .plan = plan_params, .bytes = CORE_ABI(layout.bytes) \
	}
#define SCHEDULES(number) BY_PARAMETERS(number, core_begin_schedule, NVA06F_CTRL_GPFIFO_SCHEDULE_PARAMS)
#define BINDS(number) BY_PARAMETERS(number, core_begin_bind, NVA06F_CTRL_BIND_PARAMS)
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
	BY_PARAMETERS(NV0000_CTRL_CMD_CLIENT_SET_INHERITED_SHARE_POLICY, begin_share_policy,
		NV0000_CTRL_CLIENT_SET_INHERITED_SHARE_POLICY_PARAMS),
	TRANSFERS(NV0000_CTRL_CMD_OS_UNIX_EXPORT_OBJECT_TO_FD, NV0000_CTRL_OS_UNIX_EXPORT_OBJECT_TO_FD_PARAMS),
	TRANSFERS(NV0000_CTRL_CMD_OS_UNIX_IMPORT_OBJECT_FROM_FD, NV0000_CTRL_OS_UNIX_IMPORT_OBJECT_FROM_FD_PARAMS),
	TRANSFERS(NV0000_CTRL_CMD_OS_UNIX_EXPORT_OBJECTS_TO_FD, NV0000_CTRL_OS_UNIX_EXPORT_OBJECTS_TO_FD_PARAMS),
	TRANSFERS(NV0000_CTRL_CMD_OS_UNIX_IMPORT_OBJECTS_FROM_FD, NV0000_CTRL_OS_UNIX_IMPORT_OBJECTS_FROM_FD_PARAMS),
	NOT_FOR_SLICES(NV0080_CTRL_CMD_FIFO_SET_CHANNEL_PROPERTIES),
	NOT_FOR_SLICES(NV0080_CTRL_CMD_FIFO_STOP_RUNLIST),
	NOT_FOR_SLICES(NV0080_CTRL_CMD_FIFO_START_RUNLIST),
	UNSUPPORTED(NV2080_CTRL_GPU_GET_NVENC_SW_SESSION_STATS),
	UNSUPPORTED(NV2080_CTRL_GPU_GET_NVFBC_SW_SESSION_STATS),
	PROCESSES(NV2080_CTRL_CMD_GPU_GET_PIDS, NV2080_CTRL_GPU_GET_PIDS_PARAMS, pids_of_caller, CORE_OP_PIDS),
	PROCESSES(NV2080_CTRL_CMD_GPU_GET_PID_INFO, NV2080_CTRL_GPU_GET_PID_INFO_PARAMS, pid_info_of_caller,
		CORE_OP_PID_INFO),
	NOT_FOR_SLICES(NV2080_CTRL_CMD_GPU_SET_COMPUTE_POLICY_CONFIG),
	BY_PARAMETERS(NV2080_CTRL_CMD_GPU_GET_COMPUTE_POLICY_CONFIG, core_begin_get_policy,
		NV2080_CTRL_GPU_GET_COMPUTE_POLICY_CONFIG_PARAMS),
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
	SIZES(NV2080_CTRL_CMD_FB_GET_INFO, NV2080_CTRL_FB_GET_INFO_PARAMS, plan_info_list, CORE_OP_FB_INFO),
	SIZES(NV2080_CTRL_CMD_FB_GET_INFO_V2, NV2080_CTRL_FB_GET_INFO_V2_PARAMS, plan_params, CORE_OP_FB_INFO_V2),
	SIZES(NV2080_CTRL_CMD_FB_GET_FB_REGION_INFO, NV2080_CTRL_CMD_FB_GET_FB_REGION_INFO_PARAMS, plan_params,
		CORE_OP_FB_REGION),
	{ .command = NV2080_CTRL_CMD_PERF_GET_GPUMON_PERFMON_UTIL_SAMPLES_V2, .begin = begin_samples },
	SCHEDULES(NVA06C_CTRL_CMD_GPFIFO_SCHEDULE),
	BINDS(NVA06C_CTRL_CMD_BIND),
	BY_PARAMETERS(NVA06C_CTRL_CMD_SET_TIMESLICE, core_begin_set_timeslice, NVA06C_CTRL_TIMESLICE_PARAMS),
	NOT_FOR_SLICES(NVA06C_CTRL_CMD_SET_INTERLEAVE_LEVEL),
	NOT_FOR_SLICES(NVA06C_CTRL_CMD_MAKE_REALTIME),
	SCHEDULES(NVA06F_CTRL_CMD_GPFIFO_SCHEDULE),
	BINDS(NVA06F_CTRL_CMD_BIND),
	NOT_FOR_SLICES(NVA06F_CTRL_CMD_SET_INTERLEAVE_LEVEL),
	NOT_FOR_SLICES(NVA06F_CTRL_CMD_RESTART_RUNLIST),
	SCHEDULES(NVA16F_CTRL_CMD_GPFIFO_SCHEDULE),
	BINDS(NVA16F_CTRL_CMD_BIND),
	SCHEDULES(NVA26F_CTRL_CMD_GPFIFO_SCHEDULE),
	BINDS(NVA26F_CTRL_CMD_BIND),
	SCHEDULES(NVB06F_CTRL_CMD_GPFIFO_SCHEDULE),
	BINDS(NVB06F_CTRL_CMD_BIND),
	SCHEDULES(NVC06F_CTRL_CMD_GPFIFO_SCHEDULE),
	BINDS(NVC06F_CTRL_CMD_BIND),
	SCHEDULES(NVC36F_CTRL_CMD_GPFIFO_SCHEDULE),
	BINDS(NVC36F_CTRL_CMD_BIND),
};

_Static_assert(__builtin_offsetof(struct core_control, command) == 0, "core_find_row() looks there");

void core_plan_control(struct core_call_context *context)
{
	u32 command = get32(context->call->top, context->abi->NVOS54_PARAMETERS.cmd);

	context->plan->control_verdict = core_control_verdict(command);
	if (context->plan->control_verdict != NV_CONTROL_JUDGE)
		return;
	context->plan->control =
		core_find_row(controls, sizeof(controls) / sizeof(controls[0]), sizeof(controls[0]), command);
	if (context->plan->control && context->plan->control->plan)
		context->plan->control->plan(context);
}

enum cgpu_verdict core_begin_control(struct core_call_context *context)
{
	switch (context->plan->control_verdict) {
	case NV_CONTROL_PASS:
		return CGPU_CONTINUE;
	case NV_CONTROL_JUDGE:
		/* controls.json may say that it is judged where there is no row. */
		return context->plan->control ? context->plan->control->begin(context) :
						core_answer(context, NV_ERR_INSUFFICIENT_PERMISSIONS);
	case NV_CONTROL_REFUSE:
		return core_answer(context, NV_ERR_INSUFFICIENT_PERMISSIONS);
	default:
		context->unknown_control = get32(context->call->top, context->abi->NVOS54_PARAMETERS.cmd);
		return core_answer(context, NV_ERR_NOT_SUPPORTED);
	}
}
