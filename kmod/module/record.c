// SPDX-License-Identifier: GPL-2.0
/*
 * Calls of containers that are inside of the driver, found by task. A probe on a function that such a call passes must
 * know what was decided for it, and must let it through where the call is our own.
 */
#include <linux/hashtable.h>
#include <linux/slab.h>

#include "km.h"

#define BUCKETS_BITS 10

static struct hlist_head buckets[1 << BUCKETS_BITS];
static spinlock_t locks[1 << BUCKETS_BITS];
static struct kmem_cache *cache;

static u32 bucket_of(const struct task_struct *task)
{
	return hash_ptr(task, BUCKETS_BITS);
}

int km_record_init(void)
{
	u32 i;

	for (i = 0; i < ARRAY_SIZE(locks); i++)
		spin_lock_init(&locks[i]);
	/* Charged to the container: a thousand sleeping calls are its own memory. */
	cache = KMEM_CACHE_USERCOPY(km_record, SLAB_ACCOUNT, space);
	return cache ? 0 : -ENOMEM;
}

static void free_record(struct rcu_head *head)
{
	kmem_cache_free(cache, container_of(head, struct km_record, rcu));
}

void km_record_exit(void)
{
	rcu_barrier();
	kmem_cache_destroy(cache);
}

struct km_record *km_record_begin(void)
{
	u32 bucket = bucket_of(current);
	struct km_record *record = kmem_cache_alloc(cache, GFP_KERNEL);

	if (!record)
		return NULL;
	memset(record, 0, offsetof(struct km_record, space));
	record->task = current;
	spin_lock(&locks[bucket]);
	hlist_add_head_rcu(&record->node, &buckets[bucket]);
	spin_unlock(&locks[bucket]);
	return record;
}

void km_record_end(struct km_record *record)
{
	u32 bucket = bucket_of(record->task);

	spin_lock(&locks[bucket]);
	hlist_del_rcu(&record->node);
	spin_unlock(&locks[bucket]);
	/* A probe of another task may be passing by on its way through the chain. */
	call_rcu(&record->rcu, free_record);
}

struct km_record *km_record_current(void)
{
	struct km_record *record;

	rcu_read_lock();
	hlist_for_each_entry_rcu(record, &buckets[bucket_of(current)], node) {
		if (record->task == current)
			break;
	}
	rcu_read_unlock();
	/* Only the task itself takes it away. */
	return record;
}
