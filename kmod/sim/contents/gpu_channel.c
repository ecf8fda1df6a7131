// SPDX-License-Identifier: Apache-2.0
/*
 * Channels that read pushbuffers: the ring of a channel has entries with address and length of each, and the client
 * says in user memory how many it has put there (clc46f.h). The card does not listen to its doorbell, and polls all
 * channels. It carries out the host's methods (clc46f.h), those of the copy engine (clc5b5.h) and those of data in the
 * pushbuffer itself (clc5c0.h).
 */
#include <stdio.h>
#include <stdlib.h>

#include "engines.h"
#include "gpu.h"

/* Words that are read before other channels are served. */
#define MOST_WORDS (1u << 20)
/* Methods below this are the host's, for any class of the subchannel. */
#define FIRST_OF_CLASS 0x100u
#define MOST_BYTES (1ull << 36) /* of one launch */
/* Components of a pixel of the copy engine, each of which comes from somewhere: X, Y, Z and W. */
#define COMPONENTS 4u
#define COMPONENT_BITS (NVC5B5_SET_REMAP_COMPONENTS_DST_Y_SHIFT - NVC5B5_SET_REMAP_COMPONENTS_DST_X_SHIFT)

static uint32_t va_space_of(struct sim *sim, const struct object *object, const uint8_t *params)
{
	const __auto_type at = &sim->abi->NV_CHANNELGPFIFO_ALLOCATION_PARAMETERS;
	const struct object *share = object_find(sim, object->client, get32(params, at->hContextShare));

	if (get32(params, at->hVASpace) != 0)
		return get32(params, at->hVASpace);
	if (share && share->virtual_space != 0)
		return share->virtual_space;
	return object->parent->va_space;
}

uint32_t gpu_channel_add(struct sim *sim, struct object *object, const uint8_t *params)
{
	const __auto_type at = &sim->abi->NV_CHANNELGPFIFO_ALLOCATION_PARAMETERS;
	struct object *memory = object_find(sim, object->client, get32(params, at->hUserdMemory));
	struct backing *user = memory ? backing_of(sim, memory) : NULL;
	struct object *error = object_find(sim, object->client, get32(params, at->hObjectError));
	struct gpu_channel *made;

	/* The client of such a channel rings by write(2) instead (doorbell.h). */
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

/* Reports a channel's error as the driver does: by the graphics engine's notifier (nvlimits.h, nverror.h). */
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

/* Says why a channel is read no further. */
static void fail(struct sim *sim, struct gpu_channel *channel, const char *why, uint64_t what)
{
	if (!channel->failed)
		notify(sim, channel);
	if (!channel->failed)
		fprintf(stderr, "cgpu-sim: channel %#x of client %#x: %s: %#llx\n", channel->object->handle,
			channel->object->client->handle, why, (unsigned long long)what);
	channel->failed = true;
}

/* Writes a payload, and the time behind it where the semaphore has four words. */
static bool release(
	struct sim *sim, struct gpu_channel *channel, uint64_t address, uint64_t payload, bool is_long, bool has_time)
{
	uint64_t words[2] = { payload, engines_time(sim) };
	size_t size = has_time ? sizeof(words) : is_long ? 8 : 4;

	if (!is_long)
		words[0] &= UINT32_MAX;
	if (gpu_write(sim, channel->client, channel->va_space, address, words, size))
		return true;
	fail(sim, channel, "no memory at its semaphore", address);
	return false;
}

/* Makes a pixel of constants, as clients do to set memory. Returns its size, or 0 where constants do not suffice. */
static uint32_t pixel_of(const uint32_t *value, uint8_t pixel[16])
{
	uint32_t remap = value[NVC5B5_SET_REMAP_COMPONENTS / 4];
	uint32_t size = GPU_FIELD(remap, NVC5B5_SET_REMAP_COMPONENTS_COMPONENT_SIZE) + 1;
	uint32_t count = GPU_FIELD(remap, NVC5B5_SET_REMAP_COMPONENTS_NUM_DST_COMPONENTS) + 1, i, from;

	for (i = 0; i < count && i < COMPONENTS; i++) {
		from = GPU_FIELD(remap >> i * COMPONENT_BITS, NVC5B5_SET_REMAP_COMPONENTS_DST_X);
		if (from != NVC5B5_SET_REMAP_COMPONENTS_DST_X_CONST_A &&
			from != NVC5B5_SET_REMAP_COMPONENTS_DST_X_CONST_B)
			return 0;
		memcpy(pixel + i * size,
			&value[(from == NVC5B5_SET_REMAP_COMPONENTS_DST_X_CONST_A ? NVC5B5_SET_REMAP_CONST_A :
										    NVC5B5_SET_REMAP_CONST_B) /
				4],
			size);
	}
	return size * count;
}

static bool fill(
	struct sim *sim, struct gpu_channel *channel, uint64_t to, const uint8_t *pixel, uint32_t size, uint64_t pixels)
{
	uint8_t bytes[16 * 256];
	uint64_t now, i;

	for (i = 0; i < 256; i++)
		memcpy(bytes + i * size, pixel, size);
	for (; pixels > 0; pixels -= now, to += now * size) {
		now = pixels < 256 ? pixels : 256;
		if (!gpu_write(sim, channel->client, channel->va_space, to, bytes, now * size))
			return false;
	}
	return true;
}

static bool copy_lines(struct sim *sim, struct gpu_channel *channel, const uint32_t *value, uint32_t data)
{
	uint64_t from = GPU_ADDRESS(value, NVC5B5_OFFSET_IN_UPPER, NVC5B5_OFFSET_IN_LOWER);
	uint64_t to = GPU_ADDRESS(value, NVC5B5_OFFSET_OUT_UPPER, NVC5B5_OFFSET_OUT_LOWER);
	uint32_t length = value[NVC5B5_LINE_LENGTH_IN / 4], lines = 1, size = 1, i;
	bool remaps = GPU_FIELD(data, NVC5B5_LAUNCH_DMA_REMAP_ENABLE) != 0, done = true;
	uint8_t pixel[16];

	if (GPU_FIELD(data, NVC5B5_LAUNCH_DMA_MULTI_LINE_ENABLE))
		lines = value[NVC5B5_LINE_COUNT / 4];
	if (remaps)
		size = pixel_of(value, pixel);
	if (size == 0)
		return fail(sim, channel, "a copy that rearranges components", data), true;
	/* A copy holds the card's lock, so limit its size. */
	if (length && lines > MOST_BYTES / length / size)
		return fail(sim, channel, "a copy of more than a simulated card does at once", data), true;
	for (i = 0; i < lines && done; i++) {
		done = remaps ? fill(sim, channel, to, pixel, size, length) :
				gpu_copy(sim, channel->client, channel->va_space, from, to, length);
		from += value[NVC5B5_PITCH_IN / 4];
		to += value[NVC5B5_PITCH_OUT / 4];
	}
	return done;
}

static void copy_launch(struct sim *sim, struct gpu_channel *channel, const uint32_t *value, uint32_t data)
{
	uint32_t type = GPU_FIELD(data, NVC5B5_LAUNCH_DMA_SEMAPHORE_TYPE);
	uint64_t semaphore = GPU_ADDRESS(value, NVC5B5_SET_SEMAPHORE_A, NVC5B5_SET_SEMAPHORE_B);

	if (GPU_FIELD(data, NVC5B5_LAUNCH_DMA_DATA_TRANSFER_TYPE)) {
		if (GPU_FIELD(data, NVC5B5_LAUNCH_DMA_SRC_TYPE) || GPU_FIELD(data, NVC5B5_LAUNCH_DMA_DST_TYPE) ||
			!GPU_FIELD(data, NVC5B5_LAUNCH_DMA_SRC_MEMORY_LAYOUT) ||
			!GPU_FIELD(data, NVC5B5_LAUNCH_DMA_DST_MEMORY_LAYOUT))
			return fail(sim, channel, "a copy of blocks, or by physical addresses", data);
		if (!copy_lines(sim, channel, value, data))
			return fail(sim, channel, "no memory at what it copies", data);
	}
	if (type == NVC5B5_LAUNCH_DMA_SEMAPHORE_TYPE_RELEASE_ONE_WORD_SEMAPHORE ||
		type == NVC5B5_LAUNCH_DMA_SEMAPHORE_TYPE_RELEASE_FOUR_WORD_SEMAPHORE)
		release(sim, channel, semaphore, value[NVC5B5_SET_SEMAPHORE_PAYLOAD / 4], false,
			type == NVC5B5_LAUNCH_DMA_SEMAPHORE_TYPE_RELEASE_FOUR_WORD_SEMAPHORE);
}

static void inline_launch(struct sim *sim, struct gpu_channel *channel, const uint32_t *value, uint32_t data)
{
	uint64_t length = value[NVC5C0_LINE_LENGTH_IN / 4], lines = value[NVC5C0_LINE_COUNT / 4];

	if (GPU_FIELD(data, NVC5C0_LAUNCH_DMA_DST_MEMORY_LAYOUT) != NVC5C0_LAUNCH_DMA_DST_MEMORY_LAYOUT_PITCH)
		return fail(sim, channel, "inline data into blocks", data);
	channel->inline_at = GPU_ADDRESS(value, NVC5C0_OFFSET_OUT_UPPER, NVC5C0_OFFSET_OUT);
	/* Lines one behind the other, or one line. */
	if (lines > 1 && value[NVC5C0_PITCH_OUT / 4] != length)
		return fail(sim, channel, "inline data of lines with gaps", lines);
	channel->inline_left = length * lines;
}

static void inline_done(struct sim *sim, struct gpu_channel *channel, const uint32_t *value)
{
	uint32_t data = value[NVC5C0_LAUNCH_DMA / 4];
	uint64_t semaphore = GPU_ADDRESS(value, NVC5C0_SET_I2M_SEMAPHORE_A, NVC5C0_SET_I2M_SEMAPHORE_B);

	if (GPU_FIELD(data, NVC5C0_LAUNCH_DMA_COMPLETION_TYPE) == NVC5C0_LAUNCH_DMA_COMPLETION_TYPE_RELEASE_SEMAPHORE)
		release(sim, channel, semaphore, value[NVC5C0_SET_I2M_SEMAPHORE_C / 4], false,
			GPU_FIELD(data, NVC5C0_LAUNCH_DMA_SEMAPHORE_STRUCT_SIZE) ==
				NVC5C0_LAUNCH_DMA_SEMAPHORE_STRUCT_SIZE_FOUR_WORDS);
}

static void inline_data(struct sim *sim, struct gpu_channel *channel, const uint32_t *value, uint32_t data)
{
	uint64_t now = channel->inline_left < sizeof(data) ? channel->inline_left : sizeof(data);

	if (now == 0)
		return;
	if (!gpu_write(sim, channel->client, channel->va_space, channel->inline_at, &data, now))
		return fail(sim, channel, "no memory at its inline data", channel->inline_at);
	channel->inline_at += now;
	channel->inline_left -= now;
	if (channel->inline_left == 0)
		inline_done(sim, channel, value);
}

static bool acquired(uint32_t operation, uint64_t now, uint64_t wanted, bool is_long)
{
	uint64_t less = now - wanted;

	switch (operation) {
	case NVC46F_SEM_EXECUTE_OPERATION_ACQUIRE:
		return now == wanted;
	case NVC46F_SEM_EXECUTE_OPERATION_ACQ_STRICT_GEQ:
		return now >= wanted;
	case NVC46F_SEM_EXECUTE_OPERATION_ACQ_CIRC_GEQ:
		return is_long ? (int64_t)less >= 0 : (int32_t)(uint32_t)less >= 0;
	case NVC46F_SEM_EXECUTE_OPERATION_ACQ_AND:
		return (now & wanted) != 0;
	default:
		return (now | wanted) != (is_long ? UINT64_MAX : UINT32_MAX);
	}
}

/* False: not yet. */
static bool acquire(struct sim *sim, struct gpu_channel *channel, uint32_t operation, uint64_t address, uint64_t wanted,
	bool is_long)
{
	uint64_t now = 0;

	if (!gpu_read(sim, channel->client, channel->va_space, address, &now, is_long ? 8 : 4)) {
		fail(sim, channel, "no memory at its semaphore", address);
		return false;
	}
	return acquired(operation, now, wanted, is_long);
}

static bool semaphore(struct sim *sim, struct gpu_channel *channel, const uint32_t *value, uint32_t data)
{
	uint32_t operation = GPU_FIELD(data, NVC46F_SEM_EXECUTE_OPERATION);
	bool is_long = GPU_FIELD(data, NVC46F_SEM_EXECUTE_PAYLOAD_SIZE) == NVC46F_SEM_EXECUTE_PAYLOAD_SIZE_64BIT;
	uint64_t address = GPU_ADDRESS(value, NVC46F_SEM_ADDR_HI, NVC46F_SEM_ADDR_LO) & ~3ull;
	uint64_t payload = value[NVC46F_SEM_PAYLOAD_LO / 4];

	if (is_long)
		payload |= (uint64_t)value[NVC46F_SEM_PAYLOAD_HI / 4] << 32;
	if (operation == NVC46F_SEM_EXECUTE_OPERATION_RELEASE)
		return release(sim, channel, address, payload, is_long,
			GPU_FIELD(data, NVC46F_SEM_EXECUTE_RELEASE_TIMESTAMP) != 0);
	if (operation > NVC46F_SEM_EXECUTE_OPERATION_ACQ_NOR) {
		fail(sim, channel, "a reduction on a semaphore, which this card does not do", data);
		return false;
	}
	return acquire(sim, channel, operation, address, payload, is_long);
}

/* The methods that are read here are alike from Volta to Blackwell, but for the bits of an address (clc3b5.h to clc9b5.h). */
static bool is_copy(uint32_t class_id)
{
	switch (class_id) {
	case VOLTA_DMA_COPY_A:
	case TURING_DMA_COPY_A:
	case AMPERE_DMA_COPY_A:
	case AMPERE_DMA_COPY_B:
	case HOPPER_DMA_COPY_A:
	case BLACKWELL_DMA_COPY_A:
		return true;
	default:
		return false;
	}
}

/* And these (clc3c0.h to clcdc0.h). */
static bool is_compute(uint32_t class_id)
{
	switch (class_id) {
	case VOLTA_COMPUTE_A:
	case TURING_COMPUTE_A:
	case AMPERE_COMPUTE_A:
	case AMPERE_COMPUTE_B:
	case ADA_COMPUTE_A:
	case HOPPER_COMPUTE_A:
	case BLACKWELL_COMPUTE_A:
		return true;
	default:
		return false;
	}
}

static bool set_object(struct sim *sim, struct gpu_channel *channel, uint32_t subchannel, uint32_t class_id)
{
	channel->class_id[subchannel] = class_id;
	if (is_copy(class_id) || is_compute(class_id))
		return true;
	fail(sim, channel, "a class whose methods it does not know", class_id);
	return false;
}

static bool host_method(
	struct sim *sim, struct gpu_channel *channel, uint32_t subchannel, uint32_t method, uint32_t data)
{
	/* All subchannels share the host's values. */
	uint32_t *value = channel->value[0];

	value[method / 4] = data;
	if (method == NVC46F_SET_OBJECT)
		return set_object(sim, channel, subchannel, GPU_FIELD(data, NVC46F_SET_OBJECT_NVCLASS));
	if (method == NVC46F_SEM_EXECUTE)
		return semaphore(sim, channel, value, data);
	if (method != NVC46F_SEMAPHORED)
		return true;
	fail(sim, channel, "an older way to a semaphore, which this card does not do", data);
	return false;
}

static void report(struct sim *sim, struct gpu_channel *channel, const uint32_t *value, uint32_t data)
{
	uint64_t address = GPU_ADDRESS(value, NVC5C0_SET_REPORT_SEMAPHORE_A, NVC5C0_SET_REPORT_SEMAPHORE_B);
	bool is_four = GPU_FIELD(data, NVC5C0_SET_REPORT_SEMAPHORE_D_STRUCTURE_SIZE) ==
		NVC5C0_SET_REPORT_SEMAPHORE_D_STRUCTURE_SIZE_FOUR_WORDS;

	if (GPU_FIELD(data, NVC5C0_SET_REPORT_SEMAPHORE_D_OPERATION) == NVC5C0_SET_REPORT_SEMAPHORE_D_OPERATION_RELEASE)
		release(sim, channel, address, value[NVC5C0_SET_REPORT_SEMAPHORE_C / 4], false, is_four);
}

static void compute_method(
	struct sim *sim, struct gpu_channel *channel, const uint32_t *value, uint32_t method, uint32_t data)
{
	switch (method) {
	case NVC5C0_LAUNCH_DMA:
		inline_launch(sim, channel, value, data);
		break;
	case NVC5C0_LOAD_INLINE_DATA:
		inline_data(sim, channel, value, data);
		break;
	case NVC5C0_SET_REPORT_SEMAPHORE_D:
		report(sim, channel, value, data);
		break;
	case NVC5C0_SEND_PCAS_A:
	case NVC5C0_SET_INLINE_QMD_ADDRESS_A:
		fail(sim, channel, "a launch of a kernel, which a simulated card cannot run", data);
		break;
	default:
		/* State for kernels, which none here has. */
		break;
	}
}

/* False: it waits for a semaphore. */
static bool run_method(
	struct sim *sim, struct gpu_channel *channel, uint32_t subchannel, uint32_t method, uint32_t data)
{
	uint32_t *value = channel->value[subchannel];

	/* A run of methods that each follow the one before can lead beyond the last one. */
	if (method / 4 >= GPU_METHODS) {
		fail(sim, channel, "no such method", method);
		return false;
	}
	if (method < FIRST_OF_CLASS)
		return host_method(sim, channel, subchannel, method, data);
	value[method / 4] = data;
	if (is_copy(channel->class_id[subchannel]) && method == NVC5B5_LAUNCH_DMA)
		copy_launch(sim, channel, value, data);
	else if (is_compute(channel->class_id[subchannel]))
		compute_method(sim, channel, value, method, data);
	return !channel->failed;
}

static uint32_t user_word(struct sim *sim, struct gpu_channel *channel, uint16_t at)
{
	uint32_t word = 0;

	if (!backing_read(sim, channel->user, channel->user_at + at, &word, sizeof(word)))
		fail(sim, channel, "no user memory", at);
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
		fail(sim, channel, "a place beyond its ring", get >= channel->entries ? get : put);
		return false;
	}
	if (!gpu_read(sim, channel->client, channel->va_space, channel->fifo + (uint64_t)get * NVC46F_GP_ENTRY__SIZE,
		    entry, sizeof(entry))) {
		fail(sim, channel, "no memory at its ring", channel->fifo);
		return false;
	}
	channel->at = (uint64_t)GPU_FIELD(entry[1], NVC46F_GP_ENTRY1_GET_HI) << 32 | (entry[0] & ~3u);
	channel->words = GPU_FIELD(entry[1], NVC46F_GP_ENTRY1_LENGTH);
	return true;
}

/* The client may use the entry again once its pushbuffer has been run. */
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
	if (!run_method(sim, channel, channel->subchannel, channel->method, word))
		return false;
	channel->count--;
	if (channel->operation == NVC46F_DMA_SEC_OP_INC_METHOD || channel->operation == NVC46F_DMA_SEC_OP_ONE_INC)
		channel->method += 4;
	if (channel->operation == NVC46F_DMA_SEC_OP_ONE_INC)
		channel->operation = NVC46F_DMA_SEC_OP_NON_INC_METHOD;
	return true;
}

/* Runs one word of the pushbuffer. False: it has to be read again later. */
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
		return run_method(sim, channel, channel->subchannel, channel->method, data);
	case NVC46F_DMA_SEC_OP_END_PB_SEGMENT:
		channel->count = 0;
		channel->words = 1;
		return true;
	default:
		fail(sim, channel, "a word that it cannot read", word);
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
			fail(sim, channel, "no memory at its pushbuffer", channel->at);
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
