// SPDX-License-Identifier: GPL-2.0
/* What lies where in an address space (kernel-open/nvidia-uvm/uvm_va_range.c, uvm_range_tree.c). */
#include <linux/mm.h>

#include "uvm.h"

bool uvm_span_is_valid(u64 base, u64 length)
{
	return base != 0 && length != 0 && PAGE_ALIGNED(base) && PAGE_ALIGNED(length) && base + length > base;
}

void uvm_va_range_init(
	struct uvm_va_range *range, struct uvm_va_space *space, u64 start, u64 end, enum uvm_va_range_type type)
{
	range->va_space = space;
	range->node.start = start;
	range->node.end = end;
	/* So that its end knows whether it had a place. */
	RB_CLEAR_NODE(&range->node.rb_node);
	range->type = type;
}

u32 uvm_va_range_add(struct uvm_va_range *range)
{
	struct rb_node **at = &range->va_space->ranges.rb_node, *above = NULL;
	const struct uvm_va_range *other;

	while (*at) {
		above = *at;
		other = rb_entry(above, struct uvm_va_range, node.rb_node);
		if (range->node.end < other->node.start)
			at = &above->rb_left;
		else if (other->node.end < range->node.start)
			at = &above->rb_right;
		else
			return NV_ERR_UVM_ADDRESS_IN_USE;
	}
	rb_link_node(&range->node.rb_node, above, at);
	rb_insert_color(&range->node.rb_node, &range->va_space->ranges);
	return NV_OK;
}

struct uvm_va_range *uvm_va_range_find(const struct uvm_va_space *space, u64 address)
{
	struct rb_node *at = space->ranges.rb_node;
	struct uvm_va_range *range;

	while (at) {
		range = rb_entry(at, struct uvm_va_range, node.rb_node);
		if (address < range->node.start)
			at = at->rb_left;
		else if (address > range->node.end)
			at = at->rb_right;
		else
			return range;
	}
	return NULL;
}

struct uvm_va_range *uvm_va_range_first(const struct uvm_va_space *space)
{
	struct rb_node *first = rb_first(&space->ranges);

	return first ? rb_entry(first, struct uvm_va_range, node.rb_node) : NULL;
}

struct uvm_va_range *uvm_va_range_next(const struct uvm_va_range *range)
{
	struct rb_node *next = rb_next(&range->node.rb_node);

	return next ? rb_entry(next, struct uvm_va_range, node.rb_node) : NULL;
}

/* Also of one that was never added. */
noinline void uvm_va_range_destroy(struct uvm_va_range *range, struct list_head *deferred_free_list)
{
	if (!RB_EMPTY_NODE(&range->node.rb_node))
		rb_erase(&range->node.rb_node, &range->va_space->ranges);
	switch (range->type) {
	case UVM_VA_RANGE_TYPE_MANAGED:
		uvm_managed_destroy(range);
		return;
	case UVM_VA_RANGE_TYPE_EXTERNAL:
		uvm_external_destroy(range);
		return;
	case UVM_VA_RANGE_TYPE_SEMAPHORE_POOL:
		uvm_semaphore_pool_destroy(range);
	}
}
