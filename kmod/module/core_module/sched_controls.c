// SPDX-License-Identifier: GPL-2.0
/* The levers by which GPU time is divided: channels that are stopped and let run, and time slices of their groups. */
#include "core_module/rm_client.h"
#include "core_module/cards.h"

/* On memory that the caller of all this has. */
static void asking_with(struct asking *asking, const struct nv_abi *abi, struct cgpu_km_levers *levers, u32 client)
{
	asking->abi = abi;
	asking->rm = levers->rm;
	asking->client = client;
	asking->room = sizeof(levers->room);
	asking->params = levers->room;
	memset(levers->room, 0, sizeof(levers->room));
}

int levers_open(const struct nv_abi *abi, struct cgpu_km_levers *levers, u32 gpu)
{
	struct cgpu_gpu_facts facts = { .gpu_id = levers->gpu_id[gpu] };
	struct asking asking;
	int err;

	asking_with(&asking, abi, levers, 0);
	if (asking_client(&asking) != NV_OK)
		return -EIO;
	err = asking_attach(&asking, &facts);
	if (err)
		asking_free_client(&asking);
	levers->client[gpu] = asking.client;
	return err;
}

void levers_close(const struct nv_abi *abi, struct cgpu_km_levers *levers, u32 gpu)
{
	struct asking asking;

	asking_with(&asking, abi, levers, levers->client[gpu]);
	asking_free_client(&asking);
	levers->client[gpu] = 0;
}

u32 levers_gates(const struct nv_abi *abi, struct cgpu_km_levers *levers, const struct cgpu_gates *gates)
{
	const struct nv_layout_NV2080_CTRL_FIFO_DISABLE_CHANNELS_PARAMS *at =
		&abi->NV2080_CTRL_FIFO_DISABLE_CHANNELS_PARAMS;
	u32 client = levers->client[gates->gpu];
	struct asking asking;
	u32 i;

	if (at->bytes == 0 || at->bytes > sizeof(levers->room) || gates->count > (at->bytes - at->hChannelList) / 4u)
		return NV_ERR_NOT_SUPPORTED;
	asking_with(&asking, abi, levers, client);
	asking.params[at->bDisable] = gates->disable != 0;
	put32(asking.params + at->numChannels, gates->count);
	for (i = 0; i < gates->count; i++) {
		put32(asking.params + at->hClientList + 4 * i, gates->client[i]);
		put32(asking.params + at->hChannelList + 4 * i, gates->channel[i]);
	}
	return asking_control_of(&asking, client, ASKING_SUBDEVICE, NV2080_CTRL_CMD_FIFO_DISABLE_CHANNELS, at->bytes);
}

u32 levers_slice(const struct nv_abi *abi, struct cgpu_km_levers *levers, const struct cgpu_time_slice *slice)
{
	const struct nv_layout_NVA06C_CTRL_TIMESLICE_PARAMS *at = &abi->NVA06C_CTRL_TIMESLICE_PARAMS;
	u64 us = slice->us;
	struct asking asking;

	if (at->bytes > sizeof(levers->room))
		return NV_ERR_NOT_SUPPORTED;
	asking_with(&asking, abi, levers, 0);
	memcpy(asking.params + at->timesliceUs, &us, sizeof(us));
	return asking_control_of(&asking, slice->client, slice->group, NVA06C_CTRL_CMD_SET_TIMESLICE, at->bytes);
}
