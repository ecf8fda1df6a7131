// SPDX-License-Identifier: GPL-2.0-only
/* The live parts of the mappings of managed memory, by address space and place. */
#include "probes/live.h"

#define CHUNK_BYTES (2ull << 20) /* UVM_CHUNK_SIZE_MAX, kernel-open/nvidia-uvm/uvm_pmm_gpu.h */

static struct live_part *part_of(struct rb_node *node)
{
	return rb_entry(node, struct live_part, node);
}

/* Whether a place lies before a part. */
static bool lies_before(const void *va_space, u64 start, const struct live_part *part)
{
	return va_space != part->of->va_space ? va_space < part->of->va_space : start < part->start;
}

/* The last part that begins at a place or before it, in whatever address space. */
static struct live_part *last_before(const struct rb_root *root, const void *va_space, u64 start)
{
	struct rb_node *at = root->rb_node;
	struct live_part *best = NULL;

	while (at) {
		if (lies_before(va_space, start, part_of(at))) {
			at = at->rb_left;
		} else {
			best = part_of(at);
			at = at->rb_right;
		}
	}
	return best;
}

static void insert(struct rb_root *root, struct live_part *part)
{
	struct rb_node **at = &root->rb_node, *above = NULL;

	while (*at) {
		above = *at;
		at = lies_before(part->of->va_space, part->start, part_of(above)) ? &above->rb_left : &above->rb_right;
	}
	rb_link_node(&part->node, above, at);
	rb_insert_color(&part->node, root);
	part->of->parts++;
}

bool live_add(struct rb_root *root, struct live_mapping *mapping, struct live_part *part)
{
	const struct live_part *other = last_before(root, mapping->va_space, part->end);

	if (other && other->of->va_space == mapping->va_space && other->end >= part->start)
		return false;
	part->of = mapping;
	insert(root, part);
	return true;
}

struct live_part *live_find(const struct rb_root *root, const void *va_space, u64 start, u64 end)
{
	struct live_part *part = last_before(root, va_space, start);

	return part && part->of->va_space == va_space && start <= end && end <= part->end ? part : NULL;
}

bool live_splits(const struct live_part *part, u64 start, u64 end)
{
	return part->start < start && end < part->end;
}

static struct live_part *split(
	struct rb_root *root, struct live_part *part, u64 start, u64 end, struct live_part *spare)
{
	u64 last = part->end;

	part->end = start - 1;
	if (!spare || part->of->parts >= LIVE_PARTS_MAX) {
		part->of->lost = true;
		return spare;
	}
	*spare = (struct live_part){ .of = part->of, .start = end + 1, .end = last };
	insert(root, spare);
	return NULL;
}

struct live_part *live_take(struct rb_root *root, struct live_part *part, u64 start, u64 end, struct live_part *spare)
{
	if (live_splits(part, start, end))
		return split(root, part, start, end, spare);
	if (part->start < start) {
		part->end = start - 1;
	} else if (end < part->end) {
		/* Nothing else lies between, so its place in the tree is right. */
		part->start = end + 1;
	} else {
		rb_erase(&part->node, root);
		part->of->parts--;
		return part;
	}
	return spare;
}

struct live_part *live_any(const struct rb_root *root, const void *va_space)
{
	struct live_part *part;

	if (!va_space)
		return root->rb_node ? part_of(root->rb_node) : NULL;
	part = last_before(root, va_space, U64_MAX);
	return part && part->of->va_space == va_space ? part : NULL;
}

u64 live_chunk_bytes(u64 start, u64 end)
{
	return (end / CHUNK_BYTES - start / CHUNK_BYTES + 1) * CHUNK_BYTES;
}

u64 live_chunk_bytes_inside(u64 start, u64 end)
{
	u64 first = start / CHUNK_BYTES + (start % CHUNK_BYTES != 0), after = (end + 1) / CHUNK_BYTES;

	return after > first ? (after - first) * CHUNK_BYTES : 0;
}
