// SPDX-License-Identifier: GPL-2.0
/*
 * From a task to its container. An identity outlives the registration: whoever is left in a removed container must
 * not become someone who was never sliced. It goes with the last process.
 */
#include <linux/cgroup.h>
#include <linux/hashtable.h>
#include <linux/pid_namespace.h>
#include <linux/slab.h>

#include "km.h"

#define BUCKETS_BITS 9
#define ENTRIES (KM_KEYS + 1)

struct entry {
	struct hlist_node node;
	const void *key;
	u32 slot;
	u64 generation;
};

struct holder {
	struct list_head list;
	struct km_keys keys;
	u32 slot;
	u64 generation;
	bool unnamed; /* registered without a process */
	bool empty; /* was so at the last look */
	char id[CGPU_ID_BYTES];
	struct rcu_head rcu;
	struct entry entry[ENTRIES];
};

/* A registration without a process, until a task shows up in a cgroup named after it. */
struct expected {
	struct list_head list;
	u32 slot;
	u64 generation;
	char id[CGPU_ID_BYTES];
};

static struct hlist_head buckets[1 << BUCKETS_BITS];
static LIST_HEAD(holders);
static LIST_HEAD(expectations);
/* Of both lists, inside of the control lock or without it: a node of the tree is opened without. */
static DEFINE_MUTEX(lists_lock);
static struct holder *pending;
static atomic_t keys_known, keys_expected;

static bool look(const void *key, void *context)
{
	struct km_identity *identity = context;
	const struct entry *entry;

	hlist_for_each_entry_rcu(entry, &buckets[hash_ptr(key, BUCKETS_BITS)], node) {
		if (entry->key != key)
			continue;
		identity->slot = entry->slot;
		identity->generation = entry->generation;
		return true;
	}
	return false;
}

static bool identity_of(struct task_struct *task, struct km_identity *identity)
{
	return atomic_read(&keys_known) && km_keys_walk(task, look, identity);
}

bool km_identity_of_current(struct km_identity *identity)
{
	/* The driver's own threads work for everybody. */
	return !(current->flags & PF_KTHREAD) && identity_of(current, identity);
}

bool km_identity_unbound(void)
{
	return atomic_read(&keys_expected) > 0 && !(current->flags & PF_KTHREAD);
}

bool km_identity_any(void)
{
	return atomic_read(&keys_known) || atomic_read(&keys_expected);
}

static void entries_add(struct holder *holder)
{
	const void *key;
	u32 i;

	for (i = 0; i <= holder->keys.count; i++) {
		key = i ? (const void *)holder->keys.cgroup[i - 1] : (const void *)holder->keys.pid_ns;
		if (!key)
			continue;
		holder->entry[i].key = key;
		holder->entry[i].slot = holder->slot;
		holder->entry[i].generation = holder->generation;
		hlist_add_head_rcu(&holder->entry[i].node, &buckets[hash_ptr(key, BUCKETS_BITS)]);
		atomic_inc(&keys_known);
	}
}

static void holder_remove(struct holder *holder)
{
	u32 i;

	for (i = 0; i < ENTRIES; i++) {
		if (!holder->entry[i].key)
			continue;
		hlist_del_rcu(&holder->entry[i].node);
		atomic_dec(&keys_known);
	}
	list_del(&holder->list);
	km_keys_put(&holder->keys);
	kfree_rcu(holder, rcu);
}

static struct holder *holder_of(u32 slot, u64 generation)
{
	struct holder *holder;

	list_for_each_entry(holder, &holders, list) {
		if (holder->slot == slot && holder->generation == generation)
			return holder;
	}
	return NULL;
}

static bool registered(struct km_engine *engine, u32 slot, u64 generation)
{
	struct cgpu_container_info *info = kmalloc(sizeof(*info), GFP_KERNEL | __GFP_NOFAIL);
	bool found = engine->logic->container_next(&engine->core, slot, info) == 0 && info->slot == slot &&
		info->generation == generation;

	kfree(info);
	return found;
}

/* 0; -EEXIST: the process belongs to a container that is registered. */
static int check_free(struct km_engine *engine, const struct km_keys *keys)
{
	struct task_struct *task = get_pid_task(keys->init, PIDTYPE_PID);
	struct km_identity identity;
	bool taken = false;

	if (task) {
		taken = identity_of(task, &identity) && registered(engine, identity.slot, identity.generation);
		put_task_struct(task);
	}
	return taken ? -EEXIST : 0;
}

int km_identity_prepare(s32 pid, char *cgroup, size_t bytes)
{
	struct km_engine *engine;
	int err = km_driver_check();

	km_identity_forget();
	if (err)
		return err;
	pending = kzalloc(sizeof(*pending), GFP_KERNEL_ACCOUNT);
	engine = pending ? km_engine_get() : NULL;
	if (!engine) {
		km_identity_forget();
		return -ENOMEM;
	}
	err = km_keys_of(pid, &pending->keys, cgroup, bytes);
	if (err == 0)
		err = check_free(engine, &pending->keys);
	if (err == 0)
		err = km_engine_pin();
	km_engine_put(engine);
	if (err)
		km_identity_forget();
	return err;
}

static bool has_key(const struct holder *holder, const void *key)
{
	u32 i;

	for (i = 0; i < ENTRIES; i++) {
		if (holder->entry[i].key == key)
			return true;
	}
	return false;
}

/* What is left of a removed container goes when the new one in its cgroup is known by all that it was known by. */
static void replace_same(const struct holder *fresh)
{
	struct holder *holder, *next;
	bool same;
	u32 i;

	list_for_each_entry_safe(holder, next, &holders, list) {
		same = true;
		for (i = 0; i < ENTRIES; i++)
			same &= !holder->entry[i].key || has_key(fresh, holder->entry[i].key);
		if (same)
			holder_remove(holder);
	}
}

static void holder_start(struct holder *holder, u32 slot, u64 generation, const char *id)
{
	holder->slot = slot;
	holder->generation = generation;
	strscpy(holder->id, id, sizeof(holder->id));
	/* First, so that there is no moment without an identity: the newest of two with one key is the one found. */
	entries_add(holder);
	replace_same(holder);
	list_add(&holder->list, &holders);
}

int km_identity_commit(u32 slot, u64 generation, const char *id)
{
	int err = 0;

	mutex_lock(&lists_lock);
	if (!holder_of(slot, generation)) {
		if (pending)
			holder_start(pending, slot, generation, id);
		else
			err = -ESRCH;
		pending = NULL;
	}
	mutex_unlock(&lists_lock);
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

static struct expected *expected_of(u32 slot, u64 generation)
{
	struct expected *expected;

	list_for_each_entry(expected, &expectations, list) {
		if (expected->slot == slot && expected->generation == generation)
			return expected;
	}
	return NULL;
}

static int expect(u32 slot, u64 generation, const char *id)
{
	struct expected *expected = kzalloc(sizeof(*expected), GFP_KERNEL_ACCOUNT);

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
	atomic_inc(&keys_expected);
	return 0;
}

int km_identity_expect(u32 slot, u64 generation, const char *id)
{
	int err = 0;

	mutex_lock(&lists_lock);
	if (!holder_of(slot, generation) && !expected_of(slot, generation)) {
		err = km_driver_check();
		if (err == 0)
			err = expect(slot, generation, id);
	}
	mutex_unlock(&lists_lock);
	return err;
}

static void expected_remove(struct expected *expected)
{
	list_del(&expected->list);
	atomic_dec(&keys_expected);
	kfree(expected);
}

/* 1: the current task belongs to it; 0: it does not; -ENOMEM. */
static int bind(struct expected *expected)
{
	struct cgroup *cgroup = km_cgroup_named(expected->id);
	struct holder *holder;

	if (IS_ERR_OR_NULL(cgroup))
		return PTR_ERR_OR_ZERO(cgroup);
	holder = kzalloc(sizeof(*holder), GFP_KERNEL_ACCOUNT);
	if (!holder) {
		css_put(&cgroup->self);
		return -ENOMEM;
	}
	holder->keys.cgroup[holder->keys.count++] = cgroup;
	holder->unnamed = true;
	holder_start(holder, expected->slot, expected->generation, expected->id);
	expected_remove(expected);
	return 1;
}

static int bind_current(void)
{
	struct expected *expected, *next;
	int bound = 0;

	mutex_lock(&lists_lock);
	list_for_each_entry_safe(expected, next, &expectations, list) {
		bound = bind(expected);
		if (bound)
			break;
	}
	mutex_unlock(&lists_lock);
	return bound < 0 ? bound : 0;
}

int km_identity_find(struct km_identity *identity)
{
	int err;

	if (km_identity_of_current(identity))
		return 1;
	if (!km_identity_unbound())
		return 0;
	err = bind_current();
	return err ? err : km_identity_of_current(identity);
}

/* Its processes have gone. */
static void holder_end(struct km_engine *engine, struct holder *holder, bool known)
{
	if (known && holder->unnamed) {
		/* Such a container lives until it is removed; it may start again. Without memory: at the next look. */
		if (expect(holder->slot, holder->generation, holder->id))
			return;
	} else if (known) {
		pr_info("container %s: reclaimed, its processes are gone\n", holder->id);
		engine->logic->container_remove(&engine->core, holder->slot, holder->generation);
	}
	holder_remove(holder);
}

static void sweep(struct km_engine *engine)
{
	struct expected *expected, *next_expected;
	struct holder *holder, *next;
	bool known;

	list_for_each_entry_safe(holder, next, &holders, list) {
		if (km_keys_populated(&holder->keys)) {
			holder->empty = false;
			continue;
		}
		known = registered(engine, holder->slot, holder->generation);
		if (holder->empty || !known)
			holder_end(engine, holder, known);
		else
			/* Poststop is on its way, as a rule. */
			holder->empty = true;
	}
	list_for_each_entry_safe(expected, next_expected, &expectations, list) {
		if (!registered(engine, expected->slot, expected->generation))
			expected_remove(expected);
	}
}

u32 km_identity_sweep(struct km_engine *engine)
{
	u32 left;

	mutex_lock(&lists_lock);
	sweep(engine);
	left = !list_empty(&holders) || !list_empty(&expectations);
	mutex_unlock(&lists_lock);
	if (!left)
		km_engine_unpin();
	return left;
}

void km_identity_exit(void)
{
	struct expected *expected, *next_expected;
	struct holder *holder, *next;

	km_identity_forget();
	list_for_each_entry_safe(holder, next, &holders, list)
		holder_remove(holder);
	list_for_each_entry_safe(expected, next_expected, &expectations, list)
		expected_remove(expected);
}
