// SPDX-License-Identifier: GPL-2.0
/*
 * The driver fetches what a call's pointers name by two functions. A call that was judged by its copy runs on that
 * copy: the same bytes are handed out here, whatever other threads have made of the original since, and what the driver
 * writes goes into the copy, to be looked at before the caller sees it.
 */
#include "km.h"

/* The segment that a range touches; NULL: none. */
static struct cgpu_segment *touched(struct km_record *record, u64 address, u32 bytes, u32 *index)
{
	u32 i;

	for (i = 0; i < record->call.segments; i++) {
		struct cgpu_segment *segment = &record->call.segment[i];

		if (segment->data && address < segment->address + segment->bytes &&
			segment->address < address + bytes) {
			*index = i;
			return segment;
		}
	}
	return NULL;
}

static bool wants(u64 address, u32 bytes)
{
	struct km_record *record = km_record_current();
	u32 index;

	return record && record->judged && touched(record, address, bytes, &index);
}

static bool copy_from_wants(struct pt_regs *regs)
{
	return wants(regs_get_kernel_argument(regs, 1), (u32)regs_get_kernel_argument(regs, 2));
}
NOKPROBE_SYMBOL(copy_from_wants);

static bool copy_to_wants(struct pt_regs *regs)
{
	return wants(regs_get_kernel_argument(regs, 0), (u32)regs_get_kernel_argument(regs, 2));
}
NOKPROBE_SYMBOL(copy_to_wants);

/* Where in a segment a range lies; NULL when it goes beyond: then the driver reads more than was judged. */
static u8 *place(u64 address, u32 bytes, struct km_record *record, u32 *index)
{
	struct cgpu_segment *segment = touched(record, address, bytes, index);

	if (!segment || address < segment->address || bytes > segment->bytes - (address - segment->address))
		return NULL;
	return segment->data + (address - segment->address);
}

static u32 copy_from(void *to, const void *from, u32 bytes)
{
	struct km_record *record = km_record_current();
	u32 index;
	const u8 *data = record ? place((uintptr_t)from, bytes, record, &index) : NULL;

	if (data)
		memcpy(to, data, bytes);
	km_probe_leave();
	return data ? NV_OK : NV_ERR_INVALID_ADDRESS;
}

static u32 copy_to(void *to, const void *from, u32 bytes)
{
	struct km_record *record = km_record_current();
	u32 index;
	u8 *data = record ? place((uintptr_t)to, bytes, record, &index) : NULL;

	if (data) {
		memcpy(data, from, bytes);
		record->written |= 1u << index;
	}
	km_probe_leave();
	return data ? NV_OK : NV_ERR_INVALID_ADDRESS;
}

struct km_probe km_probe_copy_from = {
	.module = "nvidia",
	.symbol = "os_memcpy_from_user",
	.replacement = copy_from,
	.wants = copy_from_wants,
};

struct km_probe km_probe_copy_to = {
	.module = "nvidia",
	.symbol = "os_memcpy_to_user",
	.replacement = copy_to,
	.wants = copy_to_wants,
};
