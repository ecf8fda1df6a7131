// SPDX-License-Identifier: GPL-2.0
/*
 * The driver fetches what a call's pointers name by two functions. A call that was judged by its copy runs on that
 * copy: the same bytes are handed out here, whatever other threads have made of the original since, and what the driver
 * writes goes into the copy, to be looked at before the caller sees it.
 */
#include "km.h"

/* All that a judged call fetches is in its segments. What the driver would take from anywhere else of the caller's was
 * not judged, and could keep it waiting while the container's other calls wait for it. */
static bool copy_wants(u64 address)
{
	const struct km_record *record = km_record_current();

	return record && record->judged && address < TASK_SIZE_MAX;
}

static bool copy_from_wants(struct pt_regs *regs)
{
	return copy_wants(regs_get_kernel_argument(regs, 1));
}
NOKPROBE_SYMBOL(copy_from_wants);

static bool copy_to_wants(struct pt_regs *regs)
{
	return copy_wants(regs_get_kernel_argument(regs, 0));
}
NOKPROBE_SYMBOL(copy_to_wants);

/* Where a range lies in the segments; NULL: not wholly in one. */
static u8 *place(struct km_record *record, u64 address, u32 bytes, u32 *index)
{
	u32 i;

	record->copies++;
	for (i = 0; i < record->call.segments; i++) {
		const struct cgpu_segment *segment = &record->call.segment[i];
		u64 at = address - segment->address;

		if (at < segment->bytes && bytes <= segment->bytes - at) {
			*index = i;
			return segment->data + at;
		}
	}
	return NULL;
}

static u32 copy_from(void *to, const void *from, u32 bytes)
{
	struct km_record *record = km_record_current();
	u32 index;
	const u8 *data = record ? place(record, (uintptr_t)from, bytes, &index) : NULL;

	if (data)
		memcpy(to, data, bytes);
	km_probe_leave();
	return data ? NV_OK : NV_ERR_INVALID_ADDRESS;
}

static u32 copy_to(void *to, const void *from, u32 bytes)
{
	struct km_record *record = km_record_current();
	u32 index;
	u8 *data = record ? place(record, (uintptr_t)to, bytes, &index) : NULL;

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
