// SPDX-License-Identifier: GPL-2.0-only
/*
 * A container's calls that change what it holds, in order: the driver gets one at a time, so that the ledger has them in the
 * driver's order. A call that waits in the driver belongs to one registration: the next one in the same slot does not wait.
 */
#include <linux/hashtable.h>
#include <linux/slab.h>

#include "engine/engine.h"

#define BUCKETS_BITS 7

static DEFINE_HASHTABLE(orders, BUCKETS_BITS);
static DEFINE_SPINLOCK(orders_lock);

static struct km_order *order_find(u32 slot, u64 generation)
{
	struct km_order *order;

	lockdep_assert_held(&orders_lock);
	hash_for_each_possible(orders, order, node, slot)
	{
		if (order->slot == slot && order->generation == generation) {
			order->users++;
			return order;
		}
	}
	return NULL;
}

static struct km_order *order_make(u32 slot, u64 generation)
{
	struct km_order *order = kzalloc(sizeof(*order), GFP_KERNEL_ACCOUNT);

	if (!order)
		return NULL;
	order->slot = slot;
	order->generation = generation;
	order->users = 1;
	mutex_init(&order->lock);
	return order;
}

struct km_order *km_order_get(u32 slot, u64 generation)
{
	struct km_order *order, *fresh;

	spin_lock(&orders_lock);
	order = order_find(slot, generation);
	spin_unlock(&orders_lock);
	if (order)
		return order;
	fresh = order_make(slot, generation);
	if (!fresh)
		return NULL;
	spin_lock(&orders_lock);
	order = order_find(slot, generation);
	if (!order)
		hash_add(orders, &fresh->node, slot);
	spin_unlock(&orders_lock);
	if (!order)
		return fresh;
	kfree(fresh);
	return order;
}

void km_order_put(struct km_order *order)
{
	bool last;

	spin_lock(&orders_lock);
	last = --order->users == 0;
	if (last)
		hash_del(&order->node);
	spin_unlock(&orders_lock);
	if (last)
		kfree(order);
}
