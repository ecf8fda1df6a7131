// SPDX-License-Identifier: Apache-2.0
/*
 * Controls on channels and channel groups, and those on a subdevice and a device that are about them (kernel_fifo_ctrl.c,
 * ctrl2080fifo.h, ctrl0080fifo.h). The checks of the
 * driver's half on the processor are from its sources (kernel_channel_group_api.c, kernel_channel.c); the rest happens
 * in the card's firmware, and follows the headers' description of each call (ctrla06c.h, ctrla06fgpfifo.h).
 * FIFO_DISABLE_CHANNELS returns when the channels have left; where time is set, they leave when that time has come. Its
 * other ways, bOnlyDisableScheduling and bRewindGpPut, are as this one here: no engine asks for them.
 */
#include "control.h"
#include "engines.h"

#define MOST_CHANNELS 4096u

static struct work *work_of(const struct control *control, const struct object *object)
{
	return control->sim->cards[object->group->card].engines->work;
}

/* A client writes this token to the doorbell; the card polls instead (gpu_channel.c). */
static uint32_t do_work_token(struct control *control, struct object *object)
{
	put32(control->params, control->card_abi->NVC36F_CTRL_CMD_GPFIFO_GET_WORK_SUBMIT_TOKEN_PARAMS.workSubmitToken,
		object->channel->id);
	return NV_OK;
}

/* A pushbuffer chooses an engine's object by this identifier, which is its class. */
static uint32_t do_class_engine(struct control *control, struct object *channel)
{
	struct sim *sim = control->sim;
	const __auto_type at = &sim->card_abi->NVC36F_CTRL_GET_CLASS_ENGINEID_PARAMS;
	const struct object *object = object_find(sim, channel->client, get32(control->params, at->hObject));

	if (!object || object->parent != channel)
		return NV_ERR_OBJECT_NOT_FOUND;
	put32(control->params, at->classEngineID, object->class_id);
	put32(control->params, at->classID, object->class_id);
	put32(control->params, at->engineID, channel->group->engine);
	return NV_OK;
}

/* The number of one channel. */
static bool number_of(struct control *control, uint32_t client_handle, uint32_t handle, uint32_t *number)
{
	struct sim *sim = control->sim;
	const struct client *client;
	const struct object *channel;

	pthread_mutex_lock(&sim->lock);
	client = client_find(sim, client_handle);
	channel = client ? object_find(sim, client, handle) : NULL;
	if (channel && channel->channel)
		*number = channel->channel->id;
	pthread_mutex_unlock(&sim->lock);
	return channel && class_is_channel(channel->class_id);
}

/*
 * How much room in an address space a channel's context takes (kernel_graphics.c,
 * subdeviceCtrlCmdKGrGetCtxBufferSize_IMPL). There are no contexts here; a client keeps a piece free for one.
 */
static uint32_t do_context_size(struct control *control, struct object *object)
{
	const __auto_type at = &control->abi->NV2080_CTRL_GR_GET_CTX_BUFFER_SIZE_PARAMS;
	const struct object *channel = object_find(control->sim, object->client, get32(control->params, at->hChannel));

	if (!channel || !class_is_channel(channel->class_id))
		return NV_ERR_INVALID_CHANNEL;
	put64(control->params, at->totalBufferSize, SIM_PAGE_HUGE);
	return NV_OK;
}

static uint32_t control_channel_list(struct control *control)
{
	struct call *call = control->call;
	const __auto_type at = &call->sim->card_abi->NV0080_CTRL_FIFO_GET_CHANNELLIST_PARAMS;
	uint64_t handles = get64(control->params, at->pChannelHandleList);
	uint64_t numbers = get64(control->params, at->pChannelList);
	uint32_t count = get32(control->params, at->numChannels), i, handle, number;
	uint32_t client = get32(call->data, call->sim->abi->NVOS54_PARAMETERS.hClient);

	if (count == 0 || count > MOST_CHANNELS)
		return NV_ERR_INVALID_ARGUMENT;
	for (i = 0; i < count; i++) {
		if (!user_read(&call->caller, handles + 4ull * i, &handle, sizeof(handle)))
			return NV_ERR_INVALID_ADDRESS;
		/* NV0080_CTRL_FIFO_GET_CHANNELLIST_INVALID_CHANNEL */
		if (!number_of(control, client, handle, &number))
			number = UINT32_MAX;
		if (!user_write(&call->caller, numbers + 4ull * i, &number, sizeof(number)))
			return NV_ERR_INVALID_ADDRESS;
	}
	return NV_OK;
}

static struct object *channel_of(struct sim *sim, uint32_t client, uint32_t handle, uint32_t card)
{
	const struct client *owner = client_find(sim, client);
	struct object *object = owner ? object_find(sim, owner, handle) : NULL;

	return object && object->channel && object->group->card == card ? object : NULL;
}

/* The channels of a list; whose they are is not asked. */
static uint32_t find_channels(struct control *control, uint32_t card, struct engine_channel **channels)
{
	const __auto_type at = &control->abi->NV2080_CTRL_FIFO_DISABLE_CHANNELS_PARAMS;
	const uint8_t *params = control->params;
	uint32_t count = get32(params, at->numChannels), i;
	const struct object *object;

	for (i = 0; i < count; i++) {
		object = channel_of(control->sim, get32(params + 4 * i, at->hClientList),
			get32(params + 4 * i, at->hChannelList), card);
		if (!object)
			return NV_ERR_INVALID_CHANNEL;
		channels[i] = object->channel;
	}
	return NV_OK;
}

static uint32_t do_disable_channels(struct control *control, struct object *object)
{
	const struct sim *sim = control->sim;
	const __auto_type at = &sim->abi->NV2080_CTRL_FIFO_DISABLE_CHANNELS_PARAMS;
	struct engine_channel *channels[NV2080_CTRL_FIFO_DISABLE_CHANNELS_MAX_ENTRIES];
	uint32_t ids[NV2080_CTRL_FIFO_DISABLE_CHANNELS_MAX_ENTRIES], listed, count = 0, i, status;
	const uint8_t *params = control->params;
	bool disable = params[at->bDisable];
	struct work *work;

	if (get64(params, at->pRunlistPreemptEvent) && !call_is_kernel(control->call))
		return NV_ERR_INSUFFICIENT_PERMISSIONS;
	if (sim->lacks_gsp)
		return NV_ERR_NOT_SUPPORTED;
	listed = get32(params, at->numChannels);
	if (listed > NV2080_CTRL_FIFO_DISABLE_CHANNELS_MAX_ENTRIES)
		return NV_ERR_INVALID_ARGUMENT;
	status = find_channels(control, object->card, channels);
	if (status != NV_OK || !listed)
		return status;
	work = sim->cards[object->card].engines->work;
	for (i = 0; i < listed; i++) {
		channels[i]->is_disabled = disable;
		if (disable || !channels[i]->is_stopped)
			ids[count++] = channels[i]->id;
	}
	control->waits = true;
	return engines_status(work_channels_disable(work, ids, count, disable));
}

/* CUDA sets the time slices by it. */
static uint32_t control_compute_policy(struct control *control)
{
	const struct nv_abi *abi = control->abi;
	const __auto_type at = &abi->NV2080_CTRL_GPU_GET_COMPUTE_POLICY_CONFIG_PARAMS;
	uint8_t *first = control->params + at->configList;

	put32(control->params, at->numConfigs, 1);
	put32(first, abi->NV2080_CTRL_GPU_COMPUTE_POLICY_CONFIG.type, NV2080_CTRL_GPU_COMPUTE_POLICY_TIMESLICE);
	put32(first, abi->NV2080_CTRL_GPU_COMPUTE_POLICY_CONFIG.data_timeslice,
		NV2080_CTRL_CMD_GPU_COMPUTE_TIMESLICE_DEFAULT);
	return NV_OK;
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
		/* FIFO_DISABLE_CHANNELS alone enables a channel that it has disabled. */
		if (!start || !channel->is_disabled)
			ids[count++] = channel->id;
	}
	return engines_status(work_channels_disable(work_of(control, object), ids, count, !start));
}

/* A channel that is scheduled takes its group along; one that is taken off the runlist leaves the others on it. */
static uint32_t do_schedule(struct control *control, struct object *object)
{
	const __auto_type at = &control->abi->NVA06F_CTRL_GPFIFO_SCHEDULE_PARAMS;
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
	uint32_t engine = get32(control->params, control->abi->NVA06F_CTRL_BIND_PARAMS.engineType);

	/* gpuXlateClientEngineIdToEngDesc(); without instances there is only the first one for graphics. */
	if (engine == NV2080_ENGINE_TYPE_NULL || (engine > NV2080_ENGINE_TYPE_GR0 && engine <= NV2080_ENGINE_TYPE_GR7))
		return NV_ERR_INVALID_ARGUMENT;
	return engines_bind(control->sim, object->group, engine);
}

/* The card rounds the time slice to one that it has, and the driver records the one that was asked for. */
static uint32_t do_set_timeslice(struct control *control, struct object *object)
{
	uint64_t us = get64(control->params, control->abi->NVA06C_CTRL_TIMESLICE_PARAMS.timesliceUs);
	uint32_t status = engines_status(work_group_timeslice(work_of(control, object), object->group->id, us));

	if (status == NV_OK)
		object->group->timeslice = us;
	return status;
}

static uint32_t do_get_timeslice(struct control *control, struct object *object)
{
	put64(control->params, control->abi->NVA06C_CTRL_TIMESLICE_PARAMS.timesliceUs, object->group->timeslice);
	return NV_OK;
}

static const struct control_entry entries[] = {
	{ NV_CONTROL(NV2080, GR_GET_CTX_BUFFER_SIZE), .run = do_context_size },
	{ NVC36F_CTRL_CMD_GPFIFO_GET_WORK_SUBMIT_TOKEN,
		CARD_PARAMS(NVC36F_CTRL_CMD_GPFIFO_GET_WORK_SUBMIT_TOKEN_PARAMS), .run = do_work_token },
	{ NVC36F_CTRL_GET_CLASS_ENGINEID, CARD_PARAMS(NVC36F_CTRL_GET_CLASS_ENGINEID_PARAMS), .run = do_class_engine },
	{ CARD_CONTROL(NV0080, FIFO_GET_CHANNELLIST), .answer = control_channel_list },
	{ NV_CONTROL(NV2080, FIFO_DISABLE_CHANNELS), .run = do_disable_channels },
	{ NV_CONTROL(NV2080, GPU_GET_COMPUTE_POLICY_CONFIG), .answer = control_compute_policy },
	{ NVA06C_CTRL_CMD_GPFIFO_SCHEDULE, NV_PARAMS(NVA06F_CTRL_GPFIFO_SCHEDULE_PARAMS), .run = do_schedule },
	{ NVA06C_CTRL_CMD_BIND, NV_PARAMS(NVA06F_CTRL_BIND_PARAMS), .run = do_bind },
	{ NVA06C_CTRL_CMD_SET_TIMESLICE, NV_PARAMS(NVA06C_CTRL_TIMESLICE_PARAMS), .run = do_set_timeslice },
	{ NVA06C_CTRL_CMD_GET_TIMESLICE, NV_PARAMS(NVA06C_CTRL_TIMESLICE_PARAMS), .run = do_get_timeslice },
	{ NV_CONTROL(NVA06F, GPFIFO_SCHEDULE), .run = do_schedule },
	{ NV_CONTROL(NVA06F, BIND), .run = do_bind },
};

const struct control_set controls_channel = CONTROL_SET(entries);
