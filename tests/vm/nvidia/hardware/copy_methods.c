// SPDX-License-Identifier: GPL-2.0-only
/*
 * The methods of a pushbuffer that others wait for: semaphores of the host (clc46f.h) and of the copy engine
 * (clc5b5.h). All else is skipped. No memory is copied, and no page table is read: the card's memory has no content.
 */
#include <linux/kernel.h>
#include <linux/ktime.h>
#include <linux/string.h>

#include "copy_engine.h"
#include "gsp_layouts.h"

/* Methods below are the host's, not an engine's. */
#define HOST_METHODS_END 0x100u

static void write_stamp(u8 *at)
{
	u64 now = ktime_get_ns();

	memcpy(at + 8, &now, sizeof(now));
}

static void release(u64 address, u64 payload, u32 bytes, bool stamped)
{
	u8 *at = copy_memory_at(address, stamped ? 16 : bytes);

	if (!at) {
		pr_err("copy engine: semaphore at %#llx: no memory is known there\n", address);
		return;
	}
	if (stamped)
		write_stamp(at);
	/* Write the payload after all else: waiters read it. */
	smp_wmb();
	if (bytes == 8)
		WRITE_ONCE(*(u64 *)at, payload);
	else
		WRITE_ONCE(*(u32 *)at, (u32)payload);
}

static bool is_reached(u32 operation, u64 address, u32 payload)
{
	const u32 *at = copy_memory_at(address, sizeof(*at));
	u32 value = at ? READ_ONCE(*at) : payload;

	switch (operation) {
	case GSP_SEM_OPERATION_ACQUIRE:
		return value == payload;
	case GSP_SEM_OPERATION_ACQ_STRICT_GEQ:
		return value >= payload;
	case GSP_SEM_OPERATION_ACQ_CIRC_GEQ:
		return (s32)(value - payload) >= 0;
	default:
		pr_err("copy engine: host semaphore operation %u: not known here\n", operation);
		return true;
	}
}

static u64 both(const u32 half[2])
{
	return (u64)half[1] << 32 | half[0];
}

static bool host_semaphore(const struct copy_state *state, u32 execute)
{
	u32 operation = FIELD(execute, SEM_EXECUTE_OPERATION);
	u64 address = both(state->host_address);

	if (operation != GSP_SEM_OPERATION_RELEASE)
		return is_reached(operation, address, state->host_payload[0]);
	release(address, both(state->host_payload), FIELD(execute, SEM_EXECUTE_PAYLOAD_SIZE) ? 8 : 4,
		FIELD(execute, SEM_EXECUTE_RELEASE_TIMESTAMP));
	return true;
}

static void launch(const struct copy_state *state, u32 how)
{
	u32 type = FIELD(how, LAUNCH_DMA_SEMAPHORE_TYPE);

	if (type == GSP_SEMAPHORE_TYPE_NONE)
		return;
	if (FIELD(how, LAUNCH_DMA_SEMAPHORE_REDUCTION_ENABLE)) {
		pr_err("copy engine: semaphores with a reduction are not known here\n");
		return;
	}
	release(both(state->copy_address), state->copy_payload, 4, type == GSP_SEMAPHORE_TYPE_FOUR_WORDS);
}

static bool host_method(struct copy_state *state, u32 method, u32 data)
{
	switch (method) {
	case GSP_METHOD_SEM_ADDR_LO:
		state->host_address[0] = data & ~3u;
		return true;
	case GSP_METHOD_SEM_ADDR_HI:
		state->host_address[1] = data & 0xff;
		return true;
	case GSP_METHOD_SEM_PAYLOAD_LO:
		state->host_payload[0] = data;
		return true;
	case GSP_METHOD_SEM_PAYLOAD_HI:
		state->host_payload[1] = data;
		return true;
	case GSP_METHOD_SEM_EXECUTE:
		return host_semaphore(state, data);
	default:
		return true;
	}
}

static void copy_method(struct copy_state *state, u32 method, u32 data)
{
	if (method == GSP_METHOD_SET_SEMAPHORE_A)
		state->copy_address[1] = data & 0x1ffff;
	else if (method == GSP_METHOD_SET_SEMAPHORE_B)
		state->copy_address[0] = data;
	else if (method == GSP_METHOD_SET_SEMAPHORE_PAYLOAD)
		state->copy_payload = data;
	else if (method == GSP_METHOD_LAUNCH_DMA)
		launch(state, data);
}

static bool run_method(struct copy_state *state, u32 channel, u32 method, u32 data)
{
	if (method < HOST_METHODS_END)
		return host_method(state, method, data);
	if (channel == GSP_SUBCHANNEL_COPY)
		copy_method(state, method, data);
	return true;
}

bool copy_run(struct copy_state *state, const u32 *words, u32 count)
{
	u32 at = 0, i;

	while (at < count) {
		u32 header = words[at++], form = FIELD(header, DMA_SEC_OP), length = FIELD(header, DMA_METHOD_COUNT);
		u32 method = FIELD(header, DMA_METHOD_ADDRESS) * 4, channel = FIELD(header, DMA_METHOD_SUBCHANNEL);

		if (form == GSP_DMA_IMMD_DATA_METHOD) {
			if (!run_method(state, channel, method, length))
				return false;
			continue;
		}
		if (form != GSP_DMA_INC_METHOD && form != GSP_DMA_NON_INC_METHOD && form != GSP_DMA_ONE_INC)
			continue;
		for (i = 0; i < length && at < count; i++) {
			if (!run_method(state, channel, method, words[at++]))
				return false;
			if (form == GSP_DMA_INC_METHOD || (form == GSP_DMA_ONE_INC && i == 0))
				method += 4;
		}
	}
	return true;
}
