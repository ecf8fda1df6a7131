// SPDX-License-Identifier: Apache-2.0
/* What copies: the copy engine (clc5b5.h), and data in the pushbuffer itself (clc5c0.h). */
#include "gpu.h"

#define MOST_BYTES (1ull << 36) /* of one launch */
#define COMPONENTS 4u

/* Four components of a pixel of the copy engine, each of which comes from somewhere. */
static uint32_t component(uint32_t remap, uint32_t which)
{
	switch (which) {
	case 0:
		return GPU_FIELD(remap, NVC5B5_SET_REMAP_COMPONENTS_DST_X);
	case 1:
		return GPU_FIELD(remap, NVC5B5_SET_REMAP_COMPONENTS_DST_Y);
	case 2:
		return GPU_FIELD(remap, NVC5B5_SET_REMAP_COMPONENTS_DST_Z);
	default:
		return GPU_FIELD(remap, NVC5B5_SET_REMAP_COMPONENTS_DST_W);
	}
}

/* One pixel made of constants alone, which is how memory is set. Its size, or 0 where it is of more than that. */
static uint32_t pixel_of(const uint32_t *value, uint8_t pixel[16])
{
	uint32_t remap = value[NVC5B5_SET_REMAP_COMPONENTS / 4];
	uint32_t size = GPU_FIELD(remap, NVC5B5_SET_REMAP_COMPONENTS_COMPONENT_SIZE) + 1;
	uint32_t count = GPU_FIELD(remap, NVC5B5_SET_REMAP_COMPONENTS_NUM_DST_COMPONENTS) + 1, i, from;

	for (i = 0; i < count && i < COMPONENTS; i++) {
		from = component(remap, i);
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
	uint64_t from =
		GPU_ADDRESS(value, NVC5B5_OFFSET_IN_UPPER, NVC5B5_OFFSET_IN_UPPER_UPPER_MASK, NVC5B5_OFFSET_IN_LOWER);
	uint64_t to =
		GPU_ADDRESS(value, NVC5B5_OFFSET_OUT_UPPER, NVC5B5_OFFSET_IN_UPPER_UPPER_MASK, NVC5B5_OFFSET_OUT_LOWER);
	uint32_t length = value[NVC5B5_LINE_LENGTH_IN / 4], lines = 1, size = 1, i;
	bool remaps = GPU_FIELD(data, NVC5B5_LAUNCH_DMA_REMAP_ENABLE) != 0, done = true;
	uint8_t pixel[16];

	if (GPU_FIELD(data, NVC5B5_LAUNCH_DMA_MULTI_LINE_ENABLE))
		lines = value[NVC5B5_LINE_COUNT / 4];
	if (remaps)
		size = pixel_of(value, pixel);
	if (size == 0)
		return gpu_fail(sim, channel, "a copy that rearranges components", data), true;
	/* The card is nobody else's meanwhile. */
	if (length && lines > MOST_BYTES / length / size)
		return gpu_fail(sim, channel, "a copy of more than a simulated card does at once", data), true;
	for (i = 0; i < lines && done; i++) {
		done = remaps ? fill(sim, channel, to, pixel, size, length) :
				gpu_copy(sim, channel->client, channel->va_space, from, to, length);
		from += value[NVC5B5_PITCH_IN / 4];
		to += value[NVC5B5_PITCH_OUT / 4];
	}
	return done;
}

void gpu_copy_launch(struct sim *sim, struct gpu_channel *channel, const uint32_t *value, uint32_t data)
{
	uint32_t type = GPU_FIELD(data, NVC5B5_LAUNCH_DMA_SEMAPHORE_TYPE);
	uint64_t semaphore =
		GPU_ADDRESS(value, NVC5B5_SET_SEMAPHORE_A, NVC5B5_SET_SEMAPHORE_A_UPPER_MASK, NVC5B5_SET_SEMAPHORE_B);

	if (GPU_FIELD(data, NVC5B5_LAUNCH_DMA_DATA_TRANSFER_TYPE)) {
		if (GPU_FIELD(data, NVC5B5_LAUNCH_DMA_SRC_TYPE) || GPU_FIELD(data, NVC5B5_LAUNCH_DMA_DST_TYPE) ||
			!GPU_FIELD(data, NVC5B5_LAUNCH_DMA_SRC_MEMORY_LAYOUT) ||
			!GPU_FIELD(data, NVC5B5_LAUNCH_DMA_DST_MEMORY_LAYOUT))
			return gpu_fail(sim, channel, "a copy of blocks, or by physical addresses", data);
		if (!copy_lines(sim, channel, value, data))
			return gpu_fail(sim, channel, "no memory at what it copies", data);
	}
	if (type == NVC5B5_LAUNCH_DMA_SEMAPHORE_TYPE_RELEASE_ONE_WORD_SEMAPHORE ||
		type == NVC5B5_LAUNCH_DMA_SEMAPHORE_TYPE_RELEASE_FOUR_WORD_SEMAPHORE)
		gpu_release(sim, channel, semaphore, value[NVC5B5_SET_SEMAPHORE_PAYLOAD / 4], false,
			type == NVC5B5_LAUNCH_DMA_SEMAPHORE_TYPE_RELEASE_FOUR_WORD_SEMAPHORE);
}

void gpu_inline_launch(struct sim *sim, struct gpu_channel *channel, const uint32_t *value, uint32_t data)
{
	uint64_t length = value[NVC5C0_LINE_LENGTH_IN / 4], lines = value[NVC5C0_LINE_COUNT / 4];

	if (GPU_FIELD(data, NVC5C0_LAUNCH_DMA_DST_MEMORY_LAYOUT) != NVC5C0_LAUNCH_DMA_DST_MEMORY_LAYOUT_PITCH)
		return gpu_fail(sim, channel, "inline data into blocks", data);
	channel->inline_at =
		GPU_ADDRESS(value, NVC5C0_OFFSET_OUT_UPPER, NVC5C0_OFFSET_OUT_UPPER_VALUE_MASK, NVC5C0_OFFSET_OUT);
	/* Lines one behind the other, or one line. */
	if (lines > 1 && value[NVC5C0_PITCH_OUT / 4] != length)
		return gpu_fail(sim, channel, "inline data of lines with gaps", lines);
	channel->inline_left = length * lines;
}

static void inline_done(struct sim *sim, struct gpu_channel *channel, const uint32_t *value)
{
	uint32_t data = value[NVC5C0_LAUNCH_DMA / 4];
	uint64_t semaphore = GPU_ADDRESS(value, NVC5C0_SET_I2M_SEMAPHORE_A,
		NVC5C0_SET_I2M_SEMAPHORE_A_OFFSET_UPPER_MASK, NVC5C0_SET_I2M_SEMAPHORE_B);

	if (GPU_FIELD(data, NVC5C0_LAUNCH_DMA_COMPLETION_TYPE) == NVC5C0_LAUNCH_DMA_COMPLETION_TYPE_RELEASE_SEMAPHORE)
		gpu_release(sim, channel, semaphore, value[NVC5C0_SET_I2M_SEMAPHORE_C / 4], false,
			GPU_FIELD(data, NVC5C0_LAUNCH_DMA_SEMAPHORE_STRUCT_SIZE) ==
				NVC5C0_LAUNCH_DMA_SEMAPHORE_STRUCT_SIZE_FOUR_WORDS);
}

void gpu_inline_data(struct sim *sim, struct gpu_channel *channel, const uint32_t *value, uint32_t data)
{
	uint64_t now = channel->inline_left < sizeof(data) ? channel->inline_left : sizeof(data);

	if (now == 0)
		return;
	if (!gpu_write(sim, channel->client, channel->va_space, channel->inline_at, &data, now))
		return gpu_fail(sim, channel, "no memory at its inline data", channel->inline_at);
	channel->inline_at += now;
	channel->inline_left -= now;
	if (channel->inline_left == 0)
		inline_done(sim, channel, value);
}
