// SPDX-License-Identifier: GPL-2.0
/* From a task to its container. */
#include <linux/hashtable.h>
#include <linux/pid.h>
#include <linux/pid_namespace.h>

#include "identity/identity.h"

#define BUCKETS_BITS 9

static struct hlist_head buckets[1 << BUCKETS_BITS];
static atomic_t entries;

static bool identity_match(const void *key, void *context)
{
	struct km_identity *identity = context;
	const struct identity_entry *entry;

	hlist_for_each_entry_rcu(entry, &buckets[hash_ptr(key, BUCKETS_BITS)], node) {
		if (entry->key != key)
			continue;
		identity->slot = entry->slot;
		identity->generation = entry->generation;
		return true;
	}
	return false;
}

bool identity_of(struct task_struct *task, struct km_identity *identity)
{
	return atomic_read(&entries) && km_keys_walk(task, identity_match, identity);
}

bool km_identity_of_process(s32 tgid)
{
	struct km_identity identity;
	struct task_struct *task;
	bool found;

	rcu_read_lock();
	task = pid_task(find_pid_ns(tgid, &init_pid_ns), PIDTYPE_PID);
	/* One that has ended is nobody else's. */
	found = !task || identity_of(task, &identity);
	rcu_read_unlock();
	return found;
}

bool km_identity_of_current(struct km_identity *identity)
{
	/* The driver's own threads work for everybody. */
	return !(current->flags & PF_KTHREAD) && identity_of(current, identity);
}

bool km_identity_any(void)
{
	return atomic_read(&entries) || expected_any();
}

void identity_entry_add(struct identity_entry *entry, const void *key, u32 slot, u64 generation)
{
	lockdep_assert_held(&holders_lock);
	entry->key = key;
	entry->slot = slot;
	entry->generation = generation;
	/* At the head: of two with one key the newest is found. */
	hlist_add_head_rcu(&entry->node, &buckets[hash_ptr(key, BUCKETS_BITS)]);
	atomic_inc(&entries);
}

void identity_entry_remove(struct identity_entry *entry)
{
	hlist_del_rcu(&entry->node);
	atomic_dec(&entries);
}

int km_identity_find(struct km_identity *identity)
{
	int err = 0;

	if (km_identity_of_current(identity))
		return 1;
	if (!km_identity_unbound())
		return 0;
	mutex_lock(&holders_lock);
	/* Another thread may have found it meanwhile. */
	if (!km_identity_of_current(identity))
		err = expected_find_current();
	mutex_unlock(&holders_lock);
	return err ? err : km_identity_of_current(identity);
}
