// SPDX-License-Identifier: GPL-2.0-only
/*
 * Calls of containers that are inside of the driver, found by task. A probe on a function that such a call passes must
 * know what was decided for it, and must not redirect a call that the module itself makes.
 */
#include <linux/hashtable.h>
#include <linux/slab.h>

#include "probes/task_call.h"

#define BUCKETS_BITS 10

/* The part of a call that other tasks read on their way through the chain. RCU frees it, so it is small: a container
 * that makes calls without a pause has thousands of them waiting. */
struct km_task_call_node {
	struct hlist_node node;
	const struct task_struct *task;
	u64 started; /* when the task did: one that died in the driver leaves its node, and another gets its address */
	struct km_task_call *task_call;
	struct rcu_head rcu;
};

static struct hlist_head task_call_buckets[1 << BUCKETS_BITS];
static spinlock_t task_call_locks[1 << BUCKETS_BITS];
static struct kmem_cache *task_call_cache;

static u32 bucket_of(const struct task_struct *task)
{
	return hash_ptr(task, BUCKETS_BITS);
}

int km_task_call_init(void)
{
	u32 i;

	for (i = 0; i < ARRAY_SIZE(task_call_locks); i++)
		spin_lock_init(&task_call_locks[i]);
	/* Charged to the container: a thousand sleeping calls are its own memory. */
	task_call_cache = KMEM_CACHE_USERCOPY(km_task_call, SLAB_ACCOUNT, room);
	return task_call_cache ? 0 : -ENOMEM;
}

void km_task_call_exit(void)
{
	kmem_cache_destroy(task_call_cache);
}

static void *allocate_record(gfp_t flags)
{
	if (flags & __GFP_ACCOUNT)
		return kmem_cache_alloc(task_call_cache, flags);
	return kmalloc(sizeof(struct km_task_call), flags);
}

static struct km_task_call *task_call_begin(gfp_t flags)
{
	struct km_task_call_node *node = kmalloc(sizeof(*node), flags);
	struct km_task_call *task_call = allocate_record(flags);
	u32 bucket = bucket_of(current);

	if (!node || !task_call) {
		kfree(node);
		kfree(task_call);
		return NULL;
	}
	memset(task_call, 0, offsetof(struct km_task_call, undo));
	task_call->node = node;
	node->task = current;
	node->started = current->start_boottime;
	node->task_call = task_call;
	spin_lock(&task_call_locks[bucket]);
	hlist_add_head_rcu(&node->node, &task_call_buckets[bucket]);
	spin_unlock(&task_call_locks[bucket]);
	return task_call;
}

struct km_task_call *km_task_call_begin(void)
{
	return task_call_begin(GFP_KERNEL_ACCOUNT);
}

struct km_task_call *km_task_call_begin_locked(void)
{
	return task_call_begin(GFP_KERNEL);
}

struct km_task_call *km_task_call_begin_surely(void)
{
	return task_call_begin(GFP_KERNEL_ACCOUNT | __GFP_NOFAIL);
}

void km_task_call_end(struct km_task_call *task_call)
{
	u32 bucket = bucket_of(current);

	spin_lock(&task_call_locks[bucket]);
	hlist_del_rcu(&task_call->node->node);
	spin_unlock(&task_call_locks[bucket]);
	kfree_rcu(task_call->node, rcu);
	kfree(task_call->spare);
	/* Only the task itself reads it. */
	kfree(task_call);
}

struct km_task_call *km_task_call_current(void)
{
	struct km_task_call *task_call = NULL;
	struct km_task_call_node *node;

	rcu_read_lock();
	hlist_for_each_entry_rcu(node, &task_call_buckets[bucket_of(current)], node) {
		if (node->task == current && node->started == current->start_boottime) {
			task_call = node->task_call;
			break;
		}
	}
	rcu_read_unlock();
	/* Only the task itself takes it away. */
	return task_call;
}

bool km_wants_container(struct pt_regs *regs)
{
	struct km_identity identity;

	/* Our own call of the original function. */
	if (km_task_call_current())
		return false;
	return km_identity_of_current(&identity);
}
NOKPROBE_SYMBOL(km_wants_container);

bool km_wants_enforced(struct pt_regs *regs)
{
	return km_enforce && km_wants_container(regs);
}
NOKPROBE_SYMBOL(km_wants_enforced);
