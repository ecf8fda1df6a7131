// SPDX-License-Identifier: GPL-2.0
/*
 * Registrations without a process: inst_ctl's old form names none. Their tasks are known by the name of a cgroup, which
 * is searched at the first call or open of each group. One such registration may have several groups.
 */
#include <linux/hash.h>
#include <linux/slab.h>

#include "identity/records.h"

#define UNNAMED_BITS 8

struct expected {
	struct list_head list;
	u32 slot;
	u64 generation;
	char id[CGPU_ID_BYTES];
};

static LIST_HEAD(expectations);
static atomic_t expected_count;
/* Goes up with each change by which an unnamed group may have got a name. */
static atomic64_t epoch;
/* Marks of groups that are named after no container, in this epoch: for their tasks neither lock nor names are needed. */
static u64 unnamed[1 << UNNAMED_BITS];

static u64 *unnamed_place(u64 mark)
{
	return &unnamed[hash_64(mark, UNNAMED_BITS)];
}

static bool current_is_unnamed(void)
{
	struct km_groups groups;
	u64 mark;

	rcu_read_lock();
	km_groups_of_current(&groups);
	mark = km_groups_mark(&groups, atomic64_read(&epoch));
	rcu_read_unlock();
	return READ_ONCE(*unnamed_place(mark)) == mark;
}

bool expected_any(void)
{
	return atomic_read(&expected_count) > 0;
}

bool km_identity_unbound(void)
{
	return expected_any() && !(current->flags & PF_KTHREAD) && !current_is_unnamed();
}

int expected_find_current(void)
{
	s64 now = atomic64_read(&epoch);
	struct expected *expected;
	struct km_groups groups;
	struct km_keys keys;
	bool found = false;
	u64 mark;
	int err;

	lockdep_assert_held(&identity_lock);
	rcu_read_lock();
	km_groups_of_current(&groups);
	list_for_each_entry(expected, &expectations, list) {
		found = km_keys_named(&groups, expected->id, &keys);
		if (found)
			break;
	}
	mark = km_groups_mark(&groups, now);
	rcu_read_unlock();
	if (!found) {
		WRITE_ONCE(*unnamed_place(mark), mark);
		return 0;
	}
	err = record_start_named(&keys, expected->slot, expected->generation, expected->id);
	km_keys_put(&keys);
	return err;
}

static struct expected *expected_of(u32 slot, u64 generation)
{
	struct expected *expected;

	list_for_each_entry(expected, &expectations, list) {
		if (expected->slot == slot && expected->generation == generation)
			return expected;
	}
	return NULL;
}

static int expected_add(u32 slot, u64 generation, const char *id)
{
	struct expected *expected = kzalloc(sizeof(*expected), GFP_KERNEL_ACCOUNT);

	lockdep_assert_held(&identity_lock);
	if (!expected)
		return -ENOMEM;
	if (km_engine_pin()) {
		kfree(expected);
		return -ENODEV;
	}
	expected->slot = slot;
	expected->generation = generation;
	strscpy(expected->id, id, sizeof(expected->id));
	list_add(&expected->list, &expectations);
	atomic_inc(&expected_count);
	atomic64_inc(&epoch);
	return records_renew(slot, generation, id);
}

bool km_identity_expects(u32 slot, u64 generation)
{
	bool expected;

	lockdep_assert_held(&km_control_lock);
	mutex_lock(&identity_lock);
	expected = expected_of(slot, generation) != NULL;
	mutex_unlock(&identity_lock);
	return expected;
}

int km_identity_expect(u32 slot, u64 generation, const char *id)
{
	int err;

	lockdep_assert_held(&km_control_lock);
	mutex_lock(&identity_lock);
	err = expected_add(slot, generation, id);
	mutex_unlock(&identity_lock);
	return err;
}

static void expected_remove(struct expected *expected)
{
	list_del(&expected->list);
	atomic_dec(&expected_count);
	kfree(expected);
}

void expected_sweep(struct km_engine *engine)
{
	struct expected *expected, *next;

	lockdep_assert_held(&identity_lock);
	/* A group of version 1 may have been given another name. */
	atomic64_inc(&epoch);
	list_for_each_entry_safe(expected, next, &expectations, list) {
		if (!container_registered(engine, expected->slot, expected->generation))
			expected_remove(expected);
	}
}

void expected_exit(void)
{
	struct expected *expected, *next;

	list_for_each_entry_safe(expected, next, &expectations, list)
		expected_remove(expected);
}
