// SPDX-License-Identifier: GPL-2.0-only
/* Buffers that the pointers in a call name: copied in before it is judged, and out again after the driver has worked
 * on it. */
#include <linux/slab.h>
#include <linux/uaccess.h>

#include "probes/task_call.h"

/* Whether a buffer shares bytes with one before it: what is rewritten in one would be handed out by the other. */
static bool overlaps(const struct cgpu_call *call, const struct cgpu_segment *segment)
{
	const struct cgpu_segment *other;

	for (other = call->segment; other < segment; other++) {
		if (segment->address < other->address + other->bytes &&
			other->address < segment->address + segment->bytes)
			return true;
	}
	return false;
}

static u8 *room_for(struct km_task_call *task_call, u32 bytes)
{
	u8 *room = task_call->room + task_call->room_used;

	if (bytes > sizeof(task_call->room) - task_call->room_used)
		return kvmalloc(bytes, GFP_KERNEL_ACCOUNT);
	task_call->room_used += ALIGN(bytes, 8);
	return room;
}

static int segment_fetch(struct km_task_call *task_call, u32 index)
{
	struct cgpu_call *call = &task_call->call;
	struct cgpu_segment *segment = &call->segment[index];

	if (!segment->address || segment->bytes > CGPU_SEGMENT_MAX || segment->parent > index ||
		overlaps(call, segment))
		return -EINVAL;
	segment->data = room_for(task_call, segment->bytes);
	if (!segment->data)
		return -ENOMEM;
	return copy_from_user(segment->data, u64_to_user_ptr(segment->address), segment->bytes) ? -EFAULT : 0;
}

int km_segments_fetch(struct km_task_call *task_call)
{
	u32 i;
	int err = 0;

	for (i = 0; i < task_call->call.segments && i < CGPU_MAX_SEGMENTS && err == 0; i++) {
		if (!task_call->call.segment[i].data)
			err = segment_fetch(task_call, i);
	}
	return err;
}

int km_segments_deliver(const struct km_task_call *task_call)
{
	u32 i;

	for (i = 0; i < task_call->call.segments; i++) {
		const struct cgpu_segment *segment = &task_call->call.segment[i];

		if ((task_call->written >> i & 1) &&
			copy_to_user(u64_to_user_ptr(segment->address), segment->data, segment->bytes))
			return -EFAULT;
	}
	return 0;
}

void km_segments_free(struct km_task_call *task_call)
{
	u32 i;

	for (i = 0; i < task_call->call.segments; i++) {
		u8 *data = task_call->call.segment[i].data;

		if (data && (data < task_call->room || data >= task_call->room + sizeof(task_call->room)))
			kvfree(data);
	}
	task_call->call.segments = 0;
	task_call->room_used = 0;
}

/*
 * The driver fetches what a call's pointers name by two functions. A call that was judged by its copy runs on that
 * copy: the same bytes are handed out here, whatever other threads have made of the original since, and what the driver
 * writes goes into the copy, to be looked at before the caller sees it.
 */

/* All that a judged call fetches is in its segments. Any other memory of the caller's was not judged, and could keep
 * the driver waiting while the container's other calls wait for it. */
static bool copy_wants(u64 address)
{
	const struct km_task_call *task_call = km_task_call_current();

	return task_call && (task_call->asks || (task_call->judged && address < TASK_SIZE_MAX));
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

/* Where a range lies in a question of the core; NULL: not wholly in it. */
static u8 *place_in_question(struct km_task_call *task_call, u64 address, u32 bytes)
{
	u64 at = address - (uintptr_t)task_call->undo_top;

	return at < KM_UNDO_BYTES && bytes <= KM_UNDO_BYTES - at ? task_call->undo_top + at : NULL;
}

/* Where a range lies in the segments; NULL: not wholly in one. index: CGPU_MAX_SEGMENTS for a question. */
static u8 *place(struct km_task_call *task_call, u64 address, u32 bytes, u32 *index)
{
	u32 i;

	if (task_call->asks) {
		*index = CGPU_MAX_SEGMENTS;
		return place_in_question(task_call, address, bytes);
	}
	task_call->copies++;
	for (i = 0; i < task_call->call.segments; i++) {
		const struct cgpu_segment *segment = &task_call->call.segment[i];
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
	struct km_task_call *task_call = km_task_call_current();
	u32 index;
	const u8 *data = task_call ? place(task_call, (uintptr_t)from, bytes, &index) : NULL;

	if (data)
		memcpy(to, data, bytes);
	km_probe_leave();
	return data ? NV_OK : NV_ERR_INVALID_ADDRESS;
}

static u32 copy_to(void *to, const void *from, u32 bytes)
{
	struct km_task_call *task_call = km_task_call_current();
	u32 index;
	u8 *data = task_call ? place(task_call, (uintptr_t)to, bytes, &index) : NULL;

	if (data) {
		memcpy(data, from, bytes);
		if (index < CGPU_MAX_SEGMENTS)
			task_call->written |= 1u << index;
	}
	km_probe_leave();
	return data ? NV_OK : NV_ERR_INVALID_ADDRESS;
}

KM_PROBE(copy_from, "nvidia", "os_memcpy_from_user", copy_from, copy_from_wants);
KM_PROBE(copy_to, "nvidia", "os_memcpy_to_user", copy_to, copy_to_wants);
