// SPDX-License-Identifier: GPL-2.0
/*
 * What tells the tasks of each registered container. It outlives the registration: whoever is left in a removed
 * container must not become someone who was never sliced. It goes with the last process.
 */
#include <linux/pid.h>
#include <linux/slab.h>

#include "identity/identity.h"

#define ENTRIES (KM_KEYS + 1)

struct holder {
	struct list_head list;
	struct km_keys keys;
	u32 slot;
	u64 generation;
	bool named; /* registered without a process, and found by the name of a cgroup */
	bool empty; /* was so at the last look */
	char id[CGPU_ID_BYTES];
	struct rcu_head rcu;
	struct identity_entry entry[ENTRIES];
};

DEFINE_MUTEX(holders_lock);
static LIST_HEAD(holders);
/* Between the steps of a registration. Under the control lock. */
static struct holder *pending;

static void holder_remove(struct holder *holder)
{
	u32 i;

	for (i = 0; i < ENTRIES; i++) {
		if (holder->entry[i].key)
			identity_entry_remove(&holder->entry[i]);
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

static bool holder_has_key(const struct holder *holder, const void *key)
{
	u32 i;

	for (i = 0; i < ENTRIES; i++) {
		if (holder->entry[i].key == key)
			return true;
	}
	return false;
}

/* What is left of a removed container goes when the new one in its cgroup is known by all that it was known by. */
static void holders_replace(const struct holder *fresh)
{
	struct holder *holder, *next;
	bool same;
	u32 i;

	list_for_each_entry_safe(holder, next, &holders, list) {
		same = true;
		for (i = 0; i < ENTRIES; i++)
			same &= !holder->entry[i].key || holder_has_key(fresh, holder->entry[i].key);
		if (same)
			holder_remove(holder);
	}
}

static void holder_start(struct holder *holder, u32 slot, u64 generation, const char *id)
{
	u32 i;

	holder->slot = slot;
	holder->generation = generation;
	strscpy(holder->id, id, sizeof(holder->id));
	/* Before the old ones go, so that there is no moment without an identity. */
	for (i = 0; i < holder->keys.count; i++)
		identity_entry_add(&holder->entry[i], holder->keys.cgroup[i], slot, generation);
	if (holder->keys.pid_ns)
		identity_entry_add(&holder->entry[i], holder->keys.pid_ns, slot, generation);
	holders_replace(holder);
	list_add(&holder->list, &holders);
}

int holder_start_named(struct km_keys *keys, u32 slot, u64 generation, const char *id)
{
	struct holder *holder = kzalloc(sizeof(*holder), GFP_KERNEL_ACCOUNT);

	if (!holder)
		return -ENOMEM;
	holder->keys = *keys;
	memset(keys, 0, sizeof(*keys));
	holder->named = true;
	holder_start(holder, slot, generation, id);
	return 0;
}

static struct holder *holder_named_before(u64 generation, const char *id)
{
	struct holder *holder;

	list_for_each_entry(holder, &holders, list) {
		if (holder->named && holder->generation != generation && !strcmp(holder->id, id))
			return holder;
	}
	return NULL;
}

int holders_renew(u32 slot, u64 generation, const char *id)
{
	struct holder *holder;
	int err = 0;

	/* Each start takes away the one whose keys it has got. */
	while (err == 0 && (holder = holder_named_before(generation, id)) != NULL)
		err = holder_start_named(&holder->keys, slot, generation, id);
	return err;
}

bool container_registered(struct km_engine *engine, u32 slot, u64 generation)
{
	/* Long for a stack; the control lock keeps it. */
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

int km_identity_commit(u32 slot, u64 generation, const char *id)
{
	int err = 0;

	mutex_lock(&holders_lock);
	if (!holder_of(slot, generation)) {
		if (pending)
			holder_start(pending, slot, generation, id);
		else
			err = -ESRCH;
		pending = NULL;
	}
	mutex_unlock(&holders_lock);
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

/* Its processes have gone. */
static void holder_end(struct km_engine *engine, struct holder *holder, bool registered)
{
	/* One that is known by a name lives until it is removed; it may start again. */
	if (registered && !holder->named) {
		pr_info("container %s: reclaimed, its processes are gone\n", holder->id);
		engine->logic->container_remove(&engine->core, holder->slot, holder->generation);
	}
	holder_remove(holder);
}

static void holders_sweep(struct km_engine *engine)
{
	struct holder *holder, *next;
	bool registered;

	list_for_each_entry_safe(holder, next, &holders, list) {
		if (km_keys_populated(&holder->keys)) {
			holder->empty = false;
			continue;
		}
		registered = container_registered(engine, holder->slot, holder->generation);
		if (holder->empty || !registered)
			holder_end(engine, holder, registered);
		else
			/* Poststop is on its way, as a rule. */
			holder->empty = true;
	}
}

u32 km_identity_sweep(struct km_engine *engine)
{
	u32 left;

	mutex_lock(&holders_lock);
	holders_sweep(engine);
	expected_sweep(engine);
	left = !list_empty(&holders) || expected_any();
	mutex_unlock(&holders_lock);
	if (!left)
		km_engine_unpin();
	return left;
}

void km_identity_exit(void)
{
	struct holder *holder, *next;

	km_identity_forget();
	mutex_lock(&holders_lock);
	list_for_each_entry_safe(holder, next, &holders, list)
		holder_remove(holder);
	expected_exit();
	mutex_unlock(&holders_lock);
}
