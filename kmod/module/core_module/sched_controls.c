// SPDX-License-Identifier: GPL-2.0-only
/* The scheduling controls as calls of the driver: channels are disabled and enabled, TSGs get timeslices. */
#include "core_module/rm_client.h"
#include "core_module/cards.h"

/* A client in the memory that the caller has. */
static void client_with(struct rm_client *own, const struct nv_abi *abi, struct cgpu_km_controls *controls, u32 client)
{
	own->abi = abi;
	own->rm = controls->rm;
	own->handle = client;
	own->room = sizeof(controls->room);
	own->params = controls->room;
	memset(controls->room, 0, sizeof(controls->room));
}

int controls_open(const struct nv_abi *abi, struct cgpu_km_controls *controls, u32 gpu)
{
	struct cgpu_gpu_facts facts = { .gpu_id = controls->gpu_id[gpu] };
	struct rm_client own;
	int err;

	client_with(&own, abi, controls, 0);
	if (rm_client_make(&own) != NV_OK)
		return -EIO;
	err = rm_client_attach(&own, &facts);
	if (err)
		rm_client_free(&own);
	controls->client[gpu] = own.handle;
	return err;
}

void controls_close(const struct nv_abi *abi, struct cgpu_km_controls *controls, u32 gpu)
{
	struct rm_client own;

	client_with(&own, abi, controls, controls->client[gpu]);
	rm_client_free(&own);
	controls->client[gpu] = 0;
}

u32 controls_set_channels(
	const struct nv_abi *abi, struct cgpu_km_controls *controls, const struct cgpu_channel_batch *channels)
{
	u32 client = controls->client[channels->gpu], bytes;
	struct rm_client own;

	client_with(&own, abi, controls, client);
	bytes = cgpu_card_channels(abi, channels, own.params, own.room);
	if (bytes == 0)
		return NV_ERR_NOT_SUPPORTED;
	return rm_client_control_of(&own, client, RM_CLIENT_SUBDEVICE, NV2080_CTRL_CMD_FIFO_DISABLE_CHANNELS, bytes);
}

u32 controls_set_timeslice(
	const struct nv_abi *abi, struct cgpu_km_controls *controls, const struct cgpu_timeslice *slice)
{
	struct rm_client own;
	u32 bytes;

	client_with(&own, abi, controls, 0);
	bytes = cgpu_card_timeslice(abi, slice, own.params, own.room);
	if (bytes == 0)
		return NV_ERR_NOT_SUPPORTED;
	return rm_client_control_of(&own, slice->client, slice->group, NVA06C_CTRL_CMD_SET_TIMESLICE, bytes);
}
