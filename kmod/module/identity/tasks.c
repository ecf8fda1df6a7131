// SPDX-License-Identifier: GPL-2.0-only
/* Finds a task's container by its cgroups and its pid namespace. */
#include <linux/hashtable.h>
#include <linux/pid.h>
#include <linux/pid_namespace.h>
#include <linux/sched.h>

#include "identity/records.h"

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
	/* A process that has ended counts as one of a container. */
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
	return atomic_read(&entries);
}

void identity_entry_add(struct identity_entry *entry, const void *key, u32 slot, u64 generation)
{
	lockdep_assert_held(&km_control_lock);
	entry->key = key;
	entry->slot = slot;
	entry->generation = generation;
	/* The newest entry of a key comes first, and is found. */
	hlist_add_head_rcu(&entry->node, &buckets[hash_ptr(key, BUCKETS_BITS)]);
	atomic_inc(&entries);
}

void identity_entry_remove(struct identity_entry *entry)
{
	lockdep_assert_held(&km_control_lock);
	hlist_del_rcu(&entry->node);
	atomic_dec(&entries);
}

/* By the number that a process has in the namespace of the task whose call is judged. */
s32 km_process_of(void *ctx, s32 number)
{
	struct task_struct *task;
	s32 tgid = 0;

	rcu_read_lock();
	task = pid_task(find_vpid(number), PIDTYPE_PID);
	if (task)
		tgid = task_tgid_nr(task);
	rcu_read_unlock();
	return tgid;
}

int km_process_in(void *ctx, s32 tgid, u32 slot, u64 generation)
{
	struct km_identity identity;
	struct task_struct *task;
	bool found;

	rcu_read_lock();
	task = pid_task(find_pid_ns(tgid, &init_pid_ns), PIDTYPE_PID);
	found = task && identity_of(task, &identity) && identity.slot == slot && identity.generation == generation;
	rcu_read_unlock();
	return found;
}
