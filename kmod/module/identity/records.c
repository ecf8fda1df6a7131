// SPDX-License-Identifier: GPL-2.0-only
/*
 * Identity records: the keys of each registered container's tasks. A record outlives its registration, as a process
 * that is left in a removed container must not pass for one that was never sliced. It goes with the last process.
 */
#include <linux/pid.h>
#include <linux/sched/task.h>
#include <linux/slab.h>

#include "identity/records.h"

#define ENTRIES (KM_KEYS + 1)

struct identity_record {
	struct list_head list;
	struct km_keys keys;
	u32 slot;
	u64 generation;
	bool empty; /* had no process at the last sweep */
	char id[CGPU_ID_BYTES];
	struct rcu_head rcu;
	struct identity_entry entry[ENTRIES];
};

static LIST_HEAD(records);
/* Between the steps of a registration. The control lock protects it and the records. */
static struct identity_record *pending;

static void record_remove(struct identity_record *record)
{
	u32 i;

	for (i = 0; i < ENTRIES; i++) {
		if (record->entry[i].key)
			identity_entry_remove(&record->entry[i]);
	}
	list_del(&record->list);
	km_keys_put(&record->keys);
	kfree_rcu(record, rcu);
}

static struct identity_record *record_of(u32 slot, u64 generation)
{
	struct identity_record *record;

	list_for_each_entry(record, &records, list) {
		if (record->slot == slot && record->generation == generation)
			return record;
	}
	return NULL;
}

static bool record_has_key(const struct identity_record *record, const void *key)
{
	u32 i;

	for (i = 0; i < ENTRIES; i++) {
		if (record->entry[i].key == key)
			return true;
	}
	return false;
}

/* Drop the record of a removed container once the new one has all its keys. */
static void records_replace(const struct identity_record *fresh)
{
	struct identity_record *record, *next;
	bool same;
	u32 i;

	list_for_each_entry_safe(record, next, &records, list) {
		same = true;
		for (i = 0; i < ENTRIES; i++)
			same &= !record->entry[i].key || record_has_key(fresh, record->entry[i].key);
		if (same)
			record_remove(record);
	}
}

static void record_start(struct identity_record *record, u32 slot, u64 generation, const char *id)
{
	u32 i;

	record->slot = slot;
	record->generation = generation;
	strscpy(record->id, id, sizeof(record->id));
	/* Before the old ones go, so that there is no moment without an identity. */
	for (i = 0; i < record->keys.count; i++)
		identity_entry_add(&record->entry[i], record->keys.cgroup[i], slot, generation);
	if (record->keys.pid_ns)
		identity_entry_add(&record->entry[i], record->keys.pid_ns, slot, generation);
	records_replace(record);
	list_add(&record->list, &records);
}

static bool container_registered(struct km_engine *engine, u32 slot, u64 generation)
{
	/* Too long for a stack; protected by the control lock. */
	static struct cgpu_container_info info;

	lockdep_assert_held(&km_control_lock);
	return engine->logic->container_next(&engine->core, slot, &info) == 0 && info.slot == slot &&
		info.generation == generation;
}

/* 0; -EEXIST: the process belongs to a container that is registered. */
static int check_free(struct km_engine *engine, const struct km_keys *keys)
{
	struct task_struct *task = get_pid_task(keys->init, PIDTYPE_PID);
	struct km_identity identity;
	bool taken = false;

	if (task) {
		taken = identity_of(task, &identity) &&
			container_registered(engine, identity.slot, identity.generation);
		put_task_struct(task);
	}
	return taken ? -EEXIST : 0;
}

int km_identity_prepare(s32 pid, char *cgroup, size_t bytes)
{
	struct km_engine *engine;
	int err;

	lockdep_assert_held(&km_control_lock);
	km_identity_forget();
	pending = kzalloc(sizeof(*pending), GFP_KERNEL_ACCOUNT);
	engine = pending ? km_engine_get() : NULL;
	if (!engine) {
		km_identity_forget();
		return -ENOMEM;
	}
	err = km_keys_of(pid, &pending->keys, cgroup, bytes);
	if (err == 0)
		err = check_free(engine, &pending->keys);
	if (err == -EEXIST)
		scnprintf(cgroup, bytes, "process %d belongs to a container already; end that one first", pid);
	if (err == 0)
		err = km_engine_pin(KM_PIN_CONTAINERS);
	km_engine_put(engine);
	if (err)
		km_identity_forget();
	return err;
}

int km_identity_commit(u32 slot, u64 generation, const char *id)
{
	int err = 0;

	lockdep_assert_held(&km_control_lock);
	if (!record_of(slot, generation)) {
		if (pending)
			record_start(pending, slot, generation, id);
		else
			err = -ESRCH;
		pending = NULL;
	}
	return err;
}

void km_identity_forget(void)
{
	if (!pending)
		return;
	km_keys_put(&pending->keys);
	kfree(pending);
	pending = NULL;
}

/* End a record whose processes have gone. */
static void record_end(struct km_engine *engine, struct identity_record *record, bool registered)
{
	if (registered) {
		pr_info("container %s: reclaimed, its processes are gone\n", record->id);
		engine->logic->container_remove(&engine->core, record->slot, record->generation);
	}
	record_remove(record);
}

u32 km_identity_sweep(struct km_engine *engine)
{
	struct identity_record *record, *next;
	bool registered;

	lockdep_assert_held(&km_control_lock);
	list_for_each_entry_safe(record, next, &records, list) {
		if (km_keys_populated(&record->keys)) {
			record->empty = false;
			continue;
		}
		registered = container_registered(engine, record->slot, record->generation);
		if (record->empty || !registered)
			record_end(engine, record, registered);
		else
			/* The runtime's poststop hook comes now, as a rule. */
			record->empty = true;
	}
	if (!list_empty(&records))
		return 1;
	km_engine_unpin(KM_PIN_CONTAINERS);
	return 0;
}

void km_identity_exit(void)
{
	struct identity_record *record, *next;

	mutex_lock(&km_control_lock);
	km_identity_forget();
	list_for_each_entry_safe(record, next, &records, list)
		record_remove(record);
	mutex_unlock(&km_control_lock);
}
