// SPDX-License-Identifier: Apache-2.0
/*
 * Channels that read pushbuffers: the ring of a channel has entries with address and length of each, and the client says in
 * user memory how many it has put there (clc46f.h). The card's doorbell is not listened to: all channels are looked at
 * again and again.
 */
#include <stdio.h>
#include <stdlib.h>

#include "engines.h"
#include "gpu.h"

/* Words that are read before other channels are served. */
#define MOST_WORDS (1u << 20)

static uint32_t va_space_of(struct sim *sim, const struct object *object, const uint8_t *params)
{
	const struct nv_layout_NV_CHANNELGPFIFO_ALLOCATION_PARAMETERS *at =
		&sim->abi->NV_CHANNELGPFIFO_ALLOCATION_PARAMETERS;
	const struct object *share = object_find(sim, object->client, get32(params, at->hContextShare));

	if (get32(params, at->hVASpace) != 0)
		return get32(params, at->hVASpace);
	if (share && share->virtual_space != 0)
		return share->virtual_space;
	return object->parent->va_space;
}

uint32_t gpu_channel_add(struct sim *sim, struct object *object, const uint8_t *params)
{
	const struct nv_layout_NV_CHANNELGPFIFO_ALLOCATION_PARAMETERS *at =
		&sim->abi->NV_CHANNELGPFIFO_ALLOCATION_PARAMETERS;
	struct object *memory = object_find(sim, object->client, get32(params, at->hUserdMemory));
	struct backing *user = memory ? backing_of(sim, memory) : NULL;
	struct object *error = object_find(sim, object->client, get32(params, at->hObjectError));
	struct gpu_channel *made;

	/* One whose client rings by write(2) instead (doorbell.h). */
	if (!user || get64(params, at->gpFifoOffset) == 0 || get32(params, at->gpFifoEntries) == 0)
		return NV_OK;
	made = calloc(1, sizeof(*made));
	if (!made)
		return NV_ERR_NO_MEMORY;
	made->object = object;
	made->client = object->client->number;
	made->va_space = va_space_of(sim, object, params);
	made->fifo = get64(params, at->gpFifoOffset);
	made->entries = get32(params, at->gpFifoEntries);
	made->user = user;
	made->user_at = get64(params, at->userdOffset);
	user->refs++;
	made->error = error ? backing_of(sim, error) : NULL;
	if (made->error)
		made->error->refs++;
	made->next = sim->work;
	sim->work = made;
	object->work = made;
	return NV_OK;
}

void gpu_channel_forget(struct sim *sim, struct object *object)
{
	struct gpu_channel **at = &sim->work, *gone = object->work;

	while (*at != gone)
		at = &(*at)->next;
	*at = gone->next;
	backing_put(sim, gone->error);
	backing_put(sim, gone->user);
	free(gone);
}

/* As the driver reports an error of a channel: a notification of the graphics engine's exception (nvlimits.h, nverror.h). */
static void notify(struct sim *sim, struct gpu_channel *channel)
{
	const struct card_layout_NvNotification *at = &sim->card_abi->NvNotification;
	uint8_t notification[32] = { 0 };

	if (!channel->error || at->bytes > sizeof(notification))
		return;
	put32(notification, at->info32, ROBUST_CHANNEL_GR_EXCEPTION);
	put16(notification, at->status, 0xffff);
	backing_write(sim, channel->error, 0, notification, at->bytes);
}

void gpu_fail(struct sim *sim, struct gpu_channel *channel, const char *why, uint64_t what)
{
	if (!channel->failed)
		notify(sim, channel);
	if (!channel->failed)
		fprintf(stderr, "cgpu-sim: channel %#x of client %#x: %s: %#llx\n", channel->object->handle,
			channel->object->client->handle, why, (unsigned long long)what);
	channel->failed = true;
}

static uint32_t user_word(struct sim *sim, struct gpu_channel *channel, uint16_t at)
{
	uint32_t word = 0;

	if (!backing_read(sim, channel->user, channel->user_at + at, &word, sizeof(word)))
		gpu_fail(sim, channel, "no user memory", at);
	return word;
}

/* The next pushbuffer of the ring. */
static bool next_buffer(struct sim *sim, struct gpu_channel *channel)
{
	const struct card_layout_Nvc46fControl *at = &sim->card_abi->Nvc46fControl;
	uint32_t get = user_word(sim, channel, at->GPGet), put = user_word(sim, channel, at->GPPut), entry[2];

	if (channel->failed || get == put)
		return false;
	if (get >= channel->entries || put >= channel->entries) {
		gpu_fail(sim, channel, "a place beyond its ring", get >= channel->entries ? get : put);
		return false;
	}
	if (!gpu_read(sim, channel->client, channel->va_space, channel->fifo + (uint64_t)get * NVC46F_GP_ENTRY__SIZE,
		    entry, sizeof(entry))) {
		gpu_fail(sim, channel, "no memory at its ring", channel->fifo);
		return false;
	}
	channel->at = (uint64_t)GPU_FIELD(entry[1], NVC46F_GP_ENTRY1_GET_HI) << 32 | (entry[0] & ~3u);
	channel->words = GPU_FIELD(entry[1], NVC46F_GP_ENTRY1_LENGTH);
	return true;
}

/* The client may use the entry again once what it led to has been done. */
static void finish_buffer(struct sim *sim, struct gpu_channel *channel)
{
	const struct card_layout_Nvc46fControl *at = &sim->card_abi->Nvc46fControl;
	uint32_t get = (user_word(sim, channel, at->GPGet) + 1) % channel->entries;

	backing_write(sim, channel->user, channel->user_at + at->GPGet, &get, sizeof(get));
}

static void start_method(struct gpu_channel *channel, uint32_t word)
{
	channel->method = GPU_FIELD(word, NVC46F_DMA_METHOD_ADDRESS) * 4;
	channel->subchannel = GPU_FIELD(word, NVC46F_DMA_METHOD_SUBCHANNEL);
	channel->count = GPU_FIELD(word, NVC46F_DMA_METHOD_COUNT);
	channel->operation = GPU_FIELD(word, NVC46F_DMA_SEC_OP);
}

static bool run_data(struct sim *sim, struct gpu_channel *channel, uint32_t word)
{
	if (!gpu_method(sim, channel, channel->subchannel, channel->method, word))
		return false;
	channel->count--;
	if (channel->operation == NVC46F_DMA_SEC_OP_INC_METHOD || channel->operation == NVC46F_DMA_SEC_OP_ONE_INC)
		channel->method += 4;
	if (channel->operation == NVC46F_DMA_SEC_OP_ONE_INC)
		channel->operation = NVC46F_DMA_SEC_OP_NON_INC_METHOD;
	return true;
}

/* One word of the pushbuffer. False: it has to be read again later. */
static bool run_word(struct sim *sim, struct gpu_channel *channel, uint32_t word)
{
	uint32_t data;

	if (channel->count > 0)
		return run_data(sim, channel, word);
	if (word == 0)
		return true;
	start_method(channel, word);
	switch (channel->operation) {
	case NVC46F_DMA_SEC_OP_INC_METHOD:
	case NVC46F_DMA_SEC_OP_NON_INC_METHOD:
	case NVC46F_DMA_SEC_OP_ONE_INC:
		return true;
	case NVC46F_DMA_SEC_OP_IMMD_DATA_METHOD:
		data = channel->count;
		channel->count = 0;
		return gpu_method(sim, channel, channel->subchannel, channel->method, data);
	case NVC46F_DMA_SEC_OP_END_PB_SEGMENT:
		channel->count = 0;
		channel->words = 1;
		return true;
	default:
		gpu_fail(sim, channel, "a word that it cannot read", word);
		return false;
	}
}

static bool advance(struct sim *sim, struct gpu_channel *channel)
{
	uint32_t budget = MOST_WORDS, word;

	while (budget-- > 0 && !channel->failed) {
		if (channel->words == 0 && !next_buffer(sim, channel))
			return false;
		if (channel->words == 0) {
			finish_buffer(sim, channel);
			continue;
		}
		if (!gpu_read(sim, channel->client, channel->va_space, channel->at, &word, sizeof(word))) {
			gpu_fail(sim, channel, "no memory at its pushbuffer", channel->at);
			return false;
		}
		if (!run_word(sim, channel, word))
			return false;
		channel->at += sizeof(word);
		if (--channel->words == 0)
			finish_buffer(sim, channel);
	}
	return !channel->failed;
}

bool gpu_advance(struct sim *sim)
{
	struct gpu_channel *at;
	bool more = false;

	for (at = sim->work; at; at = at->next) {
		struct engine_channel *channel = at->object->channel;

		if (!at->failed && channel && !channel->is_stopped && !channel->is_disabled)
			more |= advance(sim, at);
	}
	return more;
}
