// SPDX-License-Identifier: Apache-2.0
/*
 * Controls on channel groups, and those on channels that are about their group. What the processor's half of the driver
 * checks is from its sources (kernel_channel_group_api.c, kernel_channel.c); the rest happens in the card's firmware, and
 * is taken from what the headers say of each call (ctrla06c.h, ctrla06fgpfifo.h).
 */
#include "control.h"
#include "engines.h"

static struct work *work_of(const struct control *control, const struct object *object)
{
	return control->call->sim->cards[object->group->card].engines->work;
}

/* Enables or disables the channel, or all of the group, in the way that both halves of the driver say. */
static uint32_t start_channels(struct control *control, const struct object *object, bool start)
{
	uint32_t ids[WORK_GROUP_CHANNELS], count = 0;
	struct engine_channel *channel;

	for (channel = object->group->channels; channel; channel = channel->next) {
		if (object->channel && channel != object->channel)
			continue;
		channel->is_stopped = !start;
		/* What FIFO_DISABLE_CHANNELS holds, it alone lets go. */
		if (!start || !channel->is_disabled)
			ids[count++] = channel->id;
	}
	return engines_status(work_channels_disable(work_of(control, object), ids, count, !start, false));
}

/* A channel that is scheduled takes its group along; one that is taken off the runlist leaves the others on it. */
static uint32_t do_schedule(struct control *control, struct object *object)
{
	const struct nv_layout_NVA06F_CTRL_GPFIFO_SCHEDULE_PARAMS *at =
		&control->call->sim->abi->NVA06F_CTRL_GPFIFO_SCHEDULE_PARAMS;
	const uint8_t *params = control->params;
	bool enable = params[at->bEnable], skip_submit = enable && params[at->bSkipSubmit];
	bool skip_enable = enable && at->bSkipEnable != NV_ABI_ABSENT && params[at->bSkipEnable];
	uint32_t status = NV_OK;

	if (skip_submit && skip_enable)
		return NV_ERR_INVALID_ARGUMENT;
	object->group->is_bound = true;
	if (!skip_enable)
		status = start_channels(control, object, enable);
	if (status != NV_OK || skip_submit || (!enable && object->channel))
		return status;
	return engines_status(work_group_schedule(work_of(control, object), object->group->id, enable));
}

static uint32_t do_bind(struct control *control, struct object *object)
{
	uint32_t engine = get32(control->params, control->call->sim->abi->NVA06F_CTRL_BIND_PARAMS.engineType);

	/* gpuXlateClientEngineIdToEngDesc(); without instances there is only the first one for graphics. */
	if (engine == NV2080_ENGINE_TYPE_NULL || (engine > NV2080_ENGINE_TYPE_GR0 && engine <= NV2080_ENGINE_TYPE_GR7))
		return NV_ERR_INVALID_ARGUMENT;
	return engines_bind(control->call->sim, object->group, engine);
}

/* The card takes the next it can, and the driver remembers what was asked for. */
static uint32_t do_set_timeslice(struct control *control, struct object *object)
{
	uint64_t us = get64(control->params, control->call->sim->abi->NVA06C_CTRL_TIMESLICE_PARAMS.timesliceUs);
	uint32_t status = engines_status(work_group_timeslice(work_of(control, object), object->group->id, us));

	if (status == NV_OK)
		object->group->timeslice = us;
	return status;
}

static uint32_t do_get_timeslice(struct control *control, struct object *object)
{
	put64(control->params, control->call->sim->abi->NVA06C_CTRL_TIMESLICE_PARAMS.timesliceUs,
		object->group->timeslice);
	return NV_OK;
}

static uint32_t do_preempt(struct control *control, struct object *object)
{
	const struct nv_layout_NVA06C_CTRL_PREEMPT_PARAMS *at = &control->call->sim->abi->NVA06C_CTRL_PREEMPT_PARAMS;

	if (control->params[at->bManualTimeout] &&
		get32(control->params, at->timeoutUs) > NVA06C_CTRL_CMD_PREEMPT_MAX_MANUAL_TIMEOUT_US)
		return NV_ERR_INVALID_ARGUMENT;
	return engines_status(work_group_preempt(work_of(control, object), object->group->id));
}

static uint32_t do_interleave(struct control *control, struct object *object)
{
	const struct nv_abi *abi = control->call->sim->abi;
	uint32_t level = object->channel ?
		get32(control->params, abi->NVA06F_CTRL_INTERLEAVE_LEVEL_PARAMS.channelInterleaveLevel) :
		get32(control->params, abi->NVA06C_CTRL_INTERLEAVE_LEVEL_PARAMS.tsgInterleaveLevel);

	if (level > NVA06C_CTRL_INTERLEAVE_LEVEL_HIGH)
		return NV_ERR_INVALID_ARGUMENT;
	return engines_status(work_group_level(work_of(control, object), object->group->id, level));
}

static uint32_t do_realtime(struct control *control, struct object *object)
{
	bool realtime = control->params[control->call->sim->abi->NVA06C_CTRL_MAKE_REALTIME_PARAMS.bRealtime];

	return engines_status(work_group_realtime(work_of(control, object), object->group->id, realtime));
}

static uint32_t do_restart(struct control *control, struct object *object)
{
	const struct nv_layout_NVA06F_CTRL_RESTART_RUNLIST_PARAMS *at =
		&control->call->sim->abi->NVA06F_CTRL_RESTART_RUNLIST_PARAMS;
	struct work *work = work_of(control, object);
	struct work_engine_figures figures;

	if (!control->params[at->bForceRestart] && work_engine_figures(work, object->group->engine, &figures) == 0 &&
		figures.group == object->group->id && figures.channel != WORK_NONE)
		return NV_OK;
	return engines_status(work_runlist_restart(work, object->group->engine));
}

static const struct control_entry entries[] = {
	{ NVA06C_CTRL_CMD_GPFIFO_SCHEDULE, KEPLER_CHANNEL_GROUP_A, NV_PARAMS(NVA06F_CTRL_GPFIFO_SCHEDULE_PARAMS),
		OBJECT_CONTROL(do_schedule, RIGHTS_NONE) },
	{ NVA06C_CTRL_CMD_BIND, KEPLER_CHANNEL_GROUP_A, NV_PARAMS(NVA06F_CTRL_BIND_PARAMS),
		OBJECT_CONTROL(do_bind, RIGHTS_NONE) },
	{ NVA06C_CTRL_CMD_SET_TIMESLICE, KEPLER_CHANNEL_GROUP_A, NV_PARAMS(NVA06C_CTRL_TIMESLICE_PARAMS),
		OBJECT_CONTROL(do_set_timeslice, RIGHTS_NONE) },
	{ NVA06C_CTRL_CMD_GET_TIMESLICE, KEPLER_CHANNEL_GROUP_A, NV_PARAMS(NVA06C_CTRL_TIMESLICE_PARAMS),
		OBJECT_CONTROL(do_get_timeslice, RIGHTS_NONE) },
	{ NVA06C_CTRL_CMD_PREEMPT, KEPLER_CHANNEL_GROUP_A, NV_PARAMS(NVA06C_CTRL_PREEMPT_PARAMS),
		OBJECT_CONTROL(do_preempt, RIGHTS_NONE) },
	{ NVA06C_CTRL_CMD_SET_INTERLEAVE_LEVEL, KEPLER_CHANNEL_GROUP_A, NV_PARAMS(NVA06C_CTRL_INTERLEAVE_LEVEL_PARAMS),
		OBJECT_CONTROL(do_interleave, RIGHTS_NICE) },
	{ NVA06C_CTRL_CMD_MAKE_REALTIME, KEPLER_CHANNEL_GROUP_A, NV_PARAMS(NVA06C_CTRL_MAKE_REALTIME_PARAMS),
		OBJECT_CONTROL(do_realtime, RIGHTS_NICE) },
	{ NVA06F_CTRL_CMD_GPFIFO_SCHEDULE, ANY_CHANNEL, NV_PARAMS(NVA06F_CTRL_GPFIFO_SCHEDULE_PARAMS),
		OBJECT_CONTROL(do_schedule, RIGHTS_NONE) },
	{ NVA06F_CTRL_CMD_BIND, ANY_CHANNEL, NV_PARAMS(NVA06F_CTRL_BIND_PARAMS), OBJECT_CONTROL(do_bind, RIGHTS_NONE) },
	{ NVA06F_CTRL_CMD_SET_INTERLEAVE_LEVEL, ANY_CHANNEL, NV_PARAMS(NVA06F_CTRL_INTERLEAVE_LEVEL_PARAMS),
		OBJECT_CONTROL(do_interleave, RIGHTS_NICE) },
	{ NVA06F_CTRL_CMD_RESTART_RUNLIST, ANY_CHANNEL, NV_PARAMS(NVA06F_CTRL_RESTART_RUNLIST_PARAMS),
		OBJECT_CONTROL(do_restart, RIGHTS_NICE) },
};

const struct control_set controls_group = CONTROL_SET(entries);
