// SPDX-License-Identifier: GPL-2.0
/* What the pointers in a call name: copied in before it is judged, and out again after the driver has worked on it. */
#include <linux/slab.h>
#include <linux/uaccess.h>

#include "km.h"

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

static u8 *room_for(struct km_record *record, u32 bytes)
{
	u8 *room = record->space + record->space_used;

	if (bytes > sizeof(record->space) - record->space_used)
		return kvmalloc(bytes, GFP_KERNEL_ACCOUNT);
	record->space_used += ALIGN(bytes, 8);
	return room;
}

int km_segment_fetch(struct km_record *record)
{
	struct cgpu_call *call = &record->call;
	struct cgpu_segment *segment;
	u32 n = call->segments;

	if (!n || n > CGPU_MAX_SEGMENTS)
		return -EINVAL;
	segment = &call->segment[n - 1];
	if (segment->data || !segment->address || segment->bytes > CGPU_SEGMENT_MAX || segment->parent >= n ||
		overlaps(call, segment))
		return -EINVAL;
	segment->data = room_for(record, segment->bytes);
	if (!segment->data)
		return -ENOMEM;
	return copy_from_user(segment->data, u64_to_user_ptr(segment->address), segment->bytes) ? -EFAULT : 0;
}

int km_segments_deliver(const struct km_record *record)
{
	u32 i;

	for (i = 0; i < record->call.segments; i++) {
		const struct cgpu_segment *segment = &record->call.segment[i];

		if ((record->written >> i & 1) &&
			copy_to_user(u64_to_user_ptr(segment->address), segment->data, segment->bytes))
			return -EFAULT;
	}
	return 0;
}

void km_segments_free(struct km_record *record)
{
	u32 i;

	for (i = 0; i < record->call.segments; i++) {
		u8 *data = record->call.segment[i].data;

		if (data && (data < record->space || data >= record->space + sizeof(record->space)))
			kvfree(data);
	}
	record->call.segments = 0;
	record->space_used = 0;
}
