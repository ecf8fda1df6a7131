// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
/* Orders to a card: channels are disabled and enabled, channel groups get timeslices, and a page is taken. */
#include "cgpu_card.h"
#include "fields.h"

#define PAGE_BYTES 65536u

u32 cgpu_card_channels(const struct nv_abi *abi, const struct cgpu_channel_batch *batch, u8 *params, u32 room)
{
	const struct nv_layout_NV2080_CTRL_FIFO_DISABLE_CHANNELS_PARAMS *at =
		&abi->NV2080_CTRL_FIFO_DISABLE_CHANNELS_PARAMS;
	u32 i;

	if (at->bytes == 0 || at->bytes > room || batch->count > (at->bytes - at->hChannelList) / 4u)
		return 0;
	memset(params, 0, at->bytes);
	params[at->bDisable] = batch->disable != 0;
	put32(params, at->numChannels, batch->count);
	for (i = 0; i < batch->count; i++) {
		put32(params, at->hClientList + 4 * i, batch->client[i]);
		put32(params, at->hChannelList + 4 * i, batch->channel[i]);
	}
	return at->bytes;
}

u32 cgpu_card_timeslice(const struct nv_abi *abi, const struct cgpu_timeslice *slice, u8 *params, u32 room)
{
	const struct nv_layout_NVA06C_CTRL_TIMESLICE_PARAMS *at = &abi->NVA06C_CTRL_TIMESLICE_PARAMS;

	if (at->bytes > room)
		return 0;
	memset(params, 0, at->bytes);
	put64(params, at->timesliceUs, slice->us);
	return at->bytes;
}

u32 cgpu_card_page(const struct nv_abi *abi, u32 owner, u8 *params, u32 room)
{
	const struct nv_layout_NV_MEMORY_ALLOCATION_PARAMS *at = &abi->NV_MEMORY_ALLOCATION_PARAMS;

	if (at->bytes > room)
		return 0;
	memset(params, 0, at->bytes);
	put32(params, at->owner, owner);
	put32(params, at->attr, NVOS32_ATTR_PAGE_SIZE_BIG << NVOS32_ATTR_PAGE_SIZE_SHIFT);
	put64(params, at->size, PAGE_BYTES);
	return at->bytes;
}
