// SPDX-License-Identifier: GPL-2.0
/*
 * Calls of containers that are inside of the driver, found by task. A probe on a function that such a call passes must
 * know what was decided for it, and must let it through where the call is our own.
 */
#include <linux/hashtable.h>
#include <linux/slab.h>

#include "km.h"

#define BUCKETS_BITS 10

/* What others see of a record on their way through the chain. RCU frees it, so it is small: a container that makes calls
 * without a pause has thousands of them waiting. */
struct km_record_node {
	struct hlist_node node;
	const struct task_struct *task;
	u64 started; /* the task; another one at its address has not taken its record away when it died in the driver */
	struct km_record *record;
	struct rcu_head rcu;
};

static struct hlist_head record_buckets[1 << BUCKETS_BITS];
static spinlock_t record_locks[1 << BUCKETS_BITS];
static struct kmem_cache *record_cache;

static u32 bucket_of(const struct task_struct *task)
{
	return hash_ptr(task, BUCKETS_BITS);
}

int km_record_init(void)
{
	u32 i;

	for (i = 0; i < ARRAY_SIZE(record_locks); i++)
		spin_lock_init(&record_locks[i]);
	/* Charged to the container: a thousand sleeping calls are its own memory. */
	record_cache = KMEM_CACHE_USERCOPY(km_record, SLAB_ACCOUNT, space);
	return record_cache ? 0 : -ENOMEM;
}

void km_record_exit(void)
{
	kmem_cache_destroy(record_cache);
}

static void node_add(struct km_record_node *node)
{
	u32 bucket = bucket_of(node->task);

	spin_lock(&record_locks[bucket]);
	hlist_add_head_rcu(&node->node, &record_buckets[bucket]);
	spin_unlock(&record_locks[bucket]);
}

static void node_remove(struct km_record_node *node)
{
	u32 bucket = bucket_of(node->task);

	spin_lock(&record_locks[bucket]);
	hlist_del_rcu(&node->node);
	spin_unlock(&record_locks[bucket]);
	kfree_rcu(node, rcu);
}

static struct km_record *record_begin(gfp_t flags)
{
	struct km_record_node *node = kmalloc(sizeof(*node), flags | __GFP_ACCOUNT);
	struct km_record *record = kmem_cache_alloc(record_cache, flags);

	if (!node || !record) {
		kfree(node);
		if (record)
			kmem_cache_free(record_cache, record);
		return NULL;
	}
	memset(record, 0, offsetof(struct km_record, undo));
	record->node = node;
	node->task = current;
	node->started = current->start_boottime;
	node->record = record;
	node_add(node);
	return record;
}

struct km_record *km_record_begin(void)
{
	return record_begin(GFP_KERNEL);
}

struct km_record *km_record_begin_surely(void)
{
	return record_begin(GFP_KERNEL | __GFP_NOFAIL);
}

void km_record_end(struct km_record *record)
{
	node_remove(record->node);
	/* Nobody but the task itself looks into it. */
	kmem_cache_free(record_cache, record);
}

struct km_record *km_record_current(void)
{
	struct km_record *record = NULL;
	struct km_record_node *node;

	rcu_read_lock();
	hlist_for_each_entry_rcu(node, &record_buckets[bucket_of(current)], node) {
		if (node->task == current && node->started == current->start_boottime) {
			record = node->record;
			break;
		}
	}
	rcu_read_unlock();
	/* Only the task itself takes it away. */
	return record;
}
