// SPDX-License-Identifier: Apache-2.0
/*
 * Controls on a subdevice and a device that are about their channels (kernel_fifo_ctrl.c, ctrl2080fifo.h, ctrl0080fifo.h)
 * or about how compute is to be divided (subdevice_ctrl_gpu_kernel.c). FIFO_DISABLE_CHANNELS returns
 * when the channels have left, unless it is about scheduling only; where time is set, they have when that is so far.
 */
#include "control.h"
#include "engines.h"

static struct object *channel_of(struct sim *sim, uint32_t client, uint32_t handle, uint32_t card)
{
	const struct client *owner = client_find(sim, client);
	struct object *object = owner ? object_find(sim, owner, handle) : NULL;

	return object && object->channel && object->group->card == card ? object : NULL;
}

/* The channels of a list; whose they are is not asked. */
static uint32_t find_channels(struct control *control, uint32_t card, struct engine_channel **channels)
{
	const struct nv_layout_NV2080_CTRL_FIFO_DISABLE_CHANNELS_PARAMS *at =
		&control->call->sim->abi->NV2080_CTRL_FIFO_DISABLE_CHANNELS_PARAMS;
	const uint8_t *params = control->params;
	uint32_t count = get32(params, at->numChannels), i;
	const struct object *object;

	for (i = 0; i < count; i++) {
		object = channel_of(control->call->sim, get32(params + 4 * i, at->hClientList),
			get32(params + 4 * i, at->hChannelList), card);
		if (!object)
			return NV_ERR_INVALID_CHANNEL;
		channels[i] = object->channel;
	}
	return NV_OK;
}

static uint32_t do_disable_channels(struct control *control, struct object *object)
{
	const struct sim *sim = control->call->sim;
	const struct nv_layout_NV2080_CTRL_FIFO_DISABLE_CHANNELS_PARAMS *at =
		&sim->abi->NV2080_CTRL_FIFO_DISABLE_CHANNELS_PARAMS;
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
		if (disable && params[at->bRewindGpPut])
			work_channel_rewind(work, channels[i]->id);
	}
	control->waits = !params[at->bOnlyDisableScheduling];
	return engines_status(work_channels_disable(work, ids, count, disable, params[at->bOnlyDisableScheduling]));
}

static bool is_there(const struct sim *sim, uint64_t number)
{
	const struct client *client = sim->clients;

	while (client && client->number != number)
		client = client->next;
	return client != NULL;
}

/* Who has set it keeps others from setting another one. */
static uint32_t do_policy_of_runlists(struct control *control, struct object *object)
{
	const struct nv_layout_NV2080_CTRL_FIFO_RUNLIST_SET_SCHED_POLICY_PARAMS *at =
		&control->call->sim->abi->NV2080_CTRL_FIFO_RUNLIST_SET_SCHED_POLICY_PARAMS;
	struct card *card = &control->call->sim->cards[object->card];
	uint32_t flags = get32(control->params, at->flags), policy = get32(control->params, at->schedPolicy);
	uint32_t status;
	bool restore = flags >> NV2080_CTRL_CMD_FIFO_RUNLIST_SET_SCHED_POLICY_FLAGS_RESTORE_SHIFT &
		NV2080_CTRL_CMD_FIFO_RUNLIST_SET_SCHED_POLICY_FLAGS_RESTORE_MASK;

	if (!restore && policy > NV2080_CTRL_FIFO_RUNLIST_SCHED_POLICY_CHANNEL_INTERLEAVED_WDDM)
		return NV_ERR_NOT_SUPPORTED;
	if (card->policy_client != object->client->number && is_there(control->call->sim, card->policy_client))
		return NV_ERR_INVALID_STATE;
	status = engines_need(control->call->sim, object->card);
	if (status != NV_OK)
		return status;
	card->policy_client = restore ? 0 : object->client->number;
	return engines_status(work_runlists_interleave(
		card->engines->work, !restore && policy != NV2080_CTRL_FIFO_RUNLIST_SCHED_POLICY_DEFAULT));
}

/* It is kept, and told to who asks: CUDA sets the time slices by it. */
static uint32_t do_set_compute_policy(struct control *control, struct object *object)
{
	const struct nv_layout_NV2080_CTRL_GPU_SET_COMPUTE_POLICY_CONFIG_PARAMS *at =
		&control->call->sim->abi->NV2080_CTRL_GPU_SET_COMPUTE_POLICY_CONFIG_PARAMS;
	uint32_t timeslice = get32(control->params, at->config_data_timeslice);

	if (get32(control->params, at->config_type) != NV2080_CTRL_GPU_COMPUTE_POLICY_TIMESLICE ||
		timeslice >= NV2080_CTRL_CMD_GPU_COMPUTE_TIMESLICE_MAX)
		return NV_ERR_INVALID_ARGUMENT;
	control->call->sim->cards[object->card].compute_timeslice = timeslice;
	return NV_OK;
}

static uint32_t do_get_compute_policy(struct control *control, struct object *object)
{
	const struct nv_abi *abi = control->call->sim->abi;
	const struct nv_layout_NV2080_CTRL_GPU_GET_COMPUTE_POLICY_CONFIG_PARAMS *at =
		&abi->NV2080_CTRL_GPU_GET_COMPUTE_POLICY_CONFIG_PARAMS;
	uint8_t *first = control->params + at->configList;

	put32(control->params, at->numConfigs, 1);
	put32(first, abi->NV2080_CTRL_GPU_COMPUTE_POLICY_CONFIG.type, NV2080_CTRL_GPU_COMPUTE_POLICY_TIMESLICE);
	put32(first, abi->NV2080_CTRL_GPU_COMPUTE_POLICY_CONFIG.data_timeslice,
		control->call->sim->cards[object->card].compute_timeslice);
	return NV_OK;
}

/* The time slice of a channel is that of its group; the driver's own memory of it stays as it was. */
static uint32_t do_channel_properties(struct control *control, struct object *object)
{
	const struct nv_layout_NV0080_CTRL_FIFO_SET_CHANNEL_PROPERTIES_PARAMS *at =
		&control->call->sim->abi->NV0080_CTRL_FIFO_SET_CHANNEL_PROPERTIES_PARAMS;
	uint32_t property = get32(control->params, at->property);
	const struct object *channel = channel_of(
		control->call->sim, object->client->handle, get32(control->params, at->hChannel), object->card);

	if (!channel)
		return NV_ERR_INVALID_CHANNEL;
	if (property > NV0080_CTRL_FIFO_SET_CHANNEL_PROPERTIES_RESETENGINECONTEXT_NOPREEMPT)
		return NV_ERR_INVALID_ARGUMENT;
	/* Time slices cannot be switched off, and the others are for tests of the chip. */
	if (property != NV0080_CTRL_FIFO_SET_CHANNEL_PROPERTIES_ENGINETIMESLICEINMICROSECONDS)
		return NV_ERR_NOT_SUPPORTED;
	return engines_status(work_group_timeslice(control->call->sim->cards[object->card].engines->work,
		channel->group->id, get64(control->params, at->value)));
}

static const struct control_entry entries[] = {
	{ NV2080_CTRL_CMD_FIFO_DISABLE_CHANNELS, NV20_SUBDEVICE_0, NV_PARAMS(NV2080_CTRL_FIFO_DISABLE_CHANNELS_PARAMS),
		OBJECT_CONTROL(do_disable_channels, RIGHTS_NONE) },
	{ NV2080_CTRL_CMD_FIFO_RUNLIST_SET_SCHED_POLICY, NV20_SUBDEVICE_0,
		NV_PARAMS(NV2080_CTRL_FIFO_RUNLIST_SET_SCHED_POLICY_PARAMS),
		OBJECT_CONTROL(do_policy_of_runlists, RIGHTS_NICE) },
	{ NV2080_CTRL_CMD_GPU_SET_COMPUTE_POLICY_CONFIG, NV20_SUBDEVICE_0,
		NV_PARAMS(NV2080_CTRL_GPU_SET_COMPUTE_POLICY_CONFIG_PARAMS),
		OBJECT_CONTROL(do_set_compute_policy, RIGHTS_ADMIN) },
	{ NV2080_CTRL_CMD_GPU_GET_COMPUTE_POLICY_CONFIG, NV20_SUBDEVICE_0,
		NV_PARAMS(NV2080_CTRL_GPU_GET_COMPUTE_POLICY_CONFIG_PARAMS),
		OBJECT_CONTROL(do_get_compute_policy, RIGHTS_NONE) },
	{ NV0080_CTRL_CMD_FIFO_SET_CHANNEL_PROPERTIES, NV01_DEVICE_0,
		NV_PARAMS(NV0080_CTRL_FIFO_SET_CHANNEL_PROPERTIES_PARAMS),
		OBJECT_CONTROL(do_channel_properties, RIGHTS_NONE) },
};

const struct control_set controls_fifo = CONTROL_SET(entries);
