// SPDX-License-Identifier: Apache-2.0
/* Channels that may touch what UVM has (uvm_user_channel.c). Those of a simulated card may whether they are known or not. */
#include <stdlib.h>

#include "uvm.h"

struct uvm_channel {
	struct uvm_channel *next;
	uint32_t card;
	uint32_t client;
	uint32_t handle;
};

static struct uvm_channel **channel_at(struct uvm_file *file, uint32_t client, uint32_t handle)
{
	struct uvm_channel **at = &file->channels;

	while (*at && ((*at)->client != client || (*at)->handle != handle))
		at = &(*at)->next;
	return at;
}

static void channel_drop(struct uvm_channel **at)
{
	struct uvm_channel *gone = *at;

	*at = gone->next;
	free(gone);
}

void uvm_drop_channels(struct uvm_file *file, uint32_t card)
{
	struct uvm_channel **at = &file->channels;

	while (*at) {
		if (card == SIM_NO_CARD || (*at)->card == card)
			channel_drop(at);
		else
			at = &(*at)->next;
	}
}

uint32_t uvm_register_channel(struct uvm_call *call)
{
	const struct card_layout_UVM_REGISTER_CHANNEL_PARAMS *at = &call->sim->card_abi->UVM_REGISTER_CHANNEL_PARAMS;
	uint32_t client = get32(call->params, at->hClient), handle = get32(call->params, at->hChannel), status;
	uint32_t card = uvm_card(call, call->params + at->gpuUuid);
	struct uvm_channel *made;
	struct object *object;

	if (card == SIM_NO_CARD || !call->file->has_va_space[card])
		return NV_ERR_INVALID_DEVICE;
	status = uvm_find_object(call, client, handle, &object);
	if (status != NV_OK)
		return status;
	if (!class_is_channel(object->class_id) || object->card != card || *channel_at(call->file, client, handle))
		return NV_ERR_INVALID_CHANNEL;
	made = calloc(1, sizeof(*made));
	if (!made)
		return NV_ERR_NO_MEMORY;
	*made = (struct uvm_channel){ call->file->channels, card, client, handle };
	call->file->channels = made;
	return NV_OK;
}

uint32_t uvm_unregister_channel(struct uvm_call *call)
{
	const struct card_layout_UVM_UNREGISTER_CHANNEL_PARAMS *at =
		&call->sim->card_abi->UVM_UNREGISTER_CHANNEL_PARAMS;
	struct uvm_channel **found =
		channel_at(call->file, get32(call->params, at->hClient), get32(call->params, at->hChannel));

	if (!*found)
		return NV_ERR_INVALID_CHANNEL;
	channel_drop(found);
	return NV_OK;
}
