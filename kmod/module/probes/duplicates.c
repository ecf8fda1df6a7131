// SPDX-License-Identifier: GPL-2.0
/*
 * Duplicates of containers' memory that a part of the driver has made for itself: UVM for what it maps, the export of
 * dma-bufs for each buffer. The charge stays as long as the duplicate does, whatever the container has freed meanwhile.
 */
#include <linux/hashtable.h>
#include <linux/slab.h>

#include "km.h"

/* A container has at most as many as it has objects, and frees of all look into it. */
#define BUCKETS_BITS 14

static DEFINE_HASHTABLE(kept_table, BUCKETS_BITS);
static DEFINE_SPINLOCK(kept_lock);

static struct km_kept *kept_find(const void *owner, u32 handle)
{
	struct km_kept *kept;

	hash_for_each_possible_rcu(kept_table, kept, node, handle, lockdep_is_held(&kept_lock)) {
		if (kept->owner == owner && kept->handle == handle && !READ_ONCE(kept->releasing))
			return kept;
	}
	return NULL;
}

bool km_kept_known(const void *owner, u32 handle)
{
	bool known;

	rcu_read_lock();
	known = kept_find(owner, handle) != NULL;
	rcu_read_unlock();
	return known;
}

void km_kept_add(struct km_kept *kept, const void *owner, u32 handle)
{
	kept->owner = owner;
	kept->handle = handle;
	spin_lock(&kept_lock);
	hash_add_rcu(kept_table, &kept->node, handle);
	spin_unlock(&kept_lock);
}

struct km_kept *km_kept_release(const void *owner, u32 handle)
{
	struct km_kept *kept;

	spin_lock(&kept_lock);
	kept = kept_find(owner, handle);
	/* From here on the probe lets the call through. */
	if (kept)
		WRITE_ONCE(kept->releasing, true);
	spin_unlock(&kept_lock);
	return kept;
}

static void kept_drop(struct km_kept *kept)
{
	struct km_engine *engine = km_engine_get_surely();

	if (engine) {
		engine->logic->hold_drop(&engine->core, &kept->hold);
		km_engine_put(engine);
	}
	spin_lock(&kept_lock);
	hash_del_rcu(&kept->node);
	spin_unlock(&kept_lock);
	kfree_rcu(kept, rcu);
}

void km_kept_released(struct km_kept *kept, bool done)
{
	if (done)
		kept_drop(kept);
	else
		WRITE_ONCE(kept->releasing, false);
}

void km_kept_clear(void)
{
	struct hlist_node *next;
	struct km_kept *kept;
	u32 bucket;

	hash_for_each_safe(kept_table, bucket, next, kept, node) kept_drop(kept);
}
