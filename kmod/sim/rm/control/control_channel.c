// SPDX-License-Identifier: Apache-2.0
/* What a client asks about its channels before it writes work for them. */
#include "control.h"
#include "engines.h"

#define MOST_CHANNELS 4096u

/* What a client writes to the doorbell; the card finds out by itself (gpu_channel.c). */
static uint32_t do_work_token(struct control *control, struct object *object)
{
	put32(control->params,
		control->call->sim->card_abi->NVC36F_CTRL_CMD_GPFIFO_GET_WORK_SUBMIT_TOKEN_PARAMS.workSubmitToken,
		object->channel->id);
	return NV_OK;
}

/* Where the token is told to again and again, of which there is no need here. */
static uint32_t control_token_index(struct control *control)
{
	(void)control;
	return NV_OK;
}

/* What a pushbuffer says to choose an engine's object: its class. */
static uint32_t do_class_engine(struct control *control, struct object *channel)
{
	struct sim *sim = control->call->sim;
	const struct card_layout_NVC36F_CTRL_GET_CLASS_ENGINEID_PARAMS *at =
		&sim->card_abi->NVC36F_CTRL_GET_CLASS_ENGINEID_PARAMS;
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
	struct sim *sim = control->call->sim;
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
static uint32_t control_context_size(struct control *control)
{
	struct call *call = control->call;
	const struct nv_layout_NV2080_CTRL_GR_GET_CTX_BUFFER_SIZE_PARAMS *at =
		&call->sim->abi->NV2080_CTRL_GR_GET_CTX_BUFFER_SIZE_PARAMS;
	uint32_t client = get32(call->data, call->sim->abi->NVOS54_PARAMETERS.hClient), number;

	if (!number_of(control, client, get32(control->params, at->hChannel), &number))
		return NV_ERR_INVALID_CHANNEL;
	put64(control->params, at->totalBufferSize, SIM_PAGE_HUGE);
	return NV_OK;
}

static uint32_t control_channel_list(struct control *control)
{
	struct call *call = control->call;
	const struct card_layout_NV0080_CTRL_FIFO_GET_CHANNELLIST_PARAMS *at =
		&call->sim->card_abi->NV0080_CTRL_FIFO_GET_CHANNELLIST_PARAMS;
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

static const struct control_entry entries[] = {
	{ NV2080_CTRL_CMD_GR_GET_CTX_BUFFER_SIZE, NV20_SUBDEVICE_0,
		NV_PARAMS(NV2080_CTRL_GR_GET_CTX_BUFFER_SIZE_PARAMS), ANSWER(control_context_size, RIGHTS_NONE) },
	{ NVC36F_CTRL_CMD_GPFIFO_GET_WORK_SUBMIT_TOKEN, ANY_CHANNEL,
		CARD_PARAMS(NVC36F_CTRL_CMD_GPFIFO_GET_WORK_SUBMIT_TOKEN_PARAMS),
		OBJECT_CONTROL(do_work_token, RIGHTS_NONE) },
	{ NVC36F_CTRL_CMD_GPFIFO_SET_WORK_SUBMIT_TOKEN_NOTIF_INDEX, ANY_CHANNEL,
		CARD_PARAMS(NVC36F_CTRL_GPFIFO_SET_WORK_SUBMIT_TOKEN_NOTIF_INDEX_PARAMS),
		ANSWER(control_token_index, RIGHTS_NONE) },
	{ NVC36F_CTRL_GET_CLASS_ENGINEID, ANY_CHANNEL, CARD_PARAMS(NVC36F_CTRL_GET_CLASS_ENGINEID_PARAMS),
		OBJECT_CONTROL(do_class_engine, RIGHTS_NONE) },
	{ NV0080_CTRL_CMD_FIFO_GET_CHANNELLIST, NV01_DEVICE_0, CARD_PARAMS(NV0080_CTRL_FIFO_GET_CHANNELLIST_PARAMS),
		ANSWER(control_channel_list, RIGHTS_NONE) },
};

const struct control_set controls_channel = CONTROL_SET(entries);
