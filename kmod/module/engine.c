// SPDX-License-Identifier: GPL-2.0
/* The core in use, the state it works on, and the change from one core to another. */
#include <linux/delay.h>
#include <linux/slab.h>
#include <linux/vmalloc.h>
#include <linux/wait.h>

#include "km.h"

DEFINE_MUTEX(km_control_lock);
static DEFINE_MUTEX(state_lock);
static struct mutex order[CGPU_MAX_CONTAINERS];
static struct km_engine __rcu *engine_in_use;
static struct cgpu_state *state;
static LIST_HEAD(cores);
static u32 core_count;
static bool containers_known;
static bool gate_closed;
static DECLARE_WAIT_QUEUE_HEAD(gate);
static DECLARE_WAIT_QUEUE_HEAD(drained);

static void state_take(void *ctx)
{
	mutex_lock(&state_lock);
}

static void state_give(void *ctx)
{
	mutex_unlock(&state_lock);
}

static void say(void *ctx, int level, const char *line)
{
	printk("%c%c" pr_fmt("%s\n"), KERN_SOH_ASCII, '0' + level, line);
}

static const struct cgpu_ops ops = {
	.lock = state_take,
	.unlock = state_give,
	.log = say,
	.cgroup_of = km_cgroup_of,
	.orphans = km_orphans_wait,
};

struct mutex *km_order(u32 slot)
{
	return &order[slot % CGPU_MAX_CONTAINERS];
}

static struct km_engine *in_use(void)
{
	return rcu_dereference_protected(engine_in_use, lockdep_is_held(&km_control_lock));
}

static struct km_engine *engine_try_get(void)
{
	struct km_engine *engine;

	rcu_read_lock();
	do {
		engine = rcu_dereference(engine_in_use);
	} while (engine && !refcount_inc_not_zero(&engine->users));
	rcu_read_unlock();
	return engine;
}

/* NULL with again set: the gate is closed. */
static struct km_engine *engine_enter(bool *again)
{
	struct km_engine *engine = engine_try_get();

	*again = false;
	if (!engine)
		return NULL;
	/* Pairs with the one in quiesce(): either it counts us, or we see that it is closed. */
	smp_mb__after_atomic();
	if (!READ_ONCE(gate_closed))
		return engine;
	km_engine_put(engine);
	*again = true;
	return NULL;
}

struct km_engine *km_engine_get(void)
{
	struct km_engine *engine;
	bool again;

	do {
		engine = engine_enter(&again);
	} while (again && wait_event_killable(gate, !READ_ONCE(gate_closed)) == 0);
	return engine;
}

struct km_engine *km_engine_get_surely(void)
{
	struct km_engine *engine;
	bool again;

	for (;;) {
		engine = engine_enter(&again);
		if (!again)
			return engine;
		wait_event(gate, !READ_ONCE(gate_closed));
	}
}

static void engine_release(struct km_engine *engine)
{
	if (engine->pinned)
		module_put(engine->logic->owner);
	kfree(engine);
}

void km_engine_put(struct km_engine *engine)
{
	if (refcount_dec_and_test(&engine->users)) {
		engine_release(engine);
		return;
	}
	/* The engine may be gone by now. Pairs with quiesce(): either it sees the count, or we see that it waits. */
	smp_mb();
	if (READ_ONCE(gate_closed))
		wake_up(&drained);
}

int km_engine_pin(void)
{
	struct km_engine *engine = in_use();

	if (containers_known)
		return 0;
	if (!engine || !try_module_get(engine->logic->owner))
		return -ENODEV;
	engine->pinned = true;
	containers_known = true;
	return 0;
}

void km_engine_unpin(void)
{
	struct km_engine *engine = in_use();

	if (!containers_known)
		return;
	containers_known = false;
	engine->pinned = false;
	module_put(engine->logic->owner);
}

static int settings_apply(struct km_engine *engine)
{
	struct cgpu_settings settings;

	km_settings(&settings);
	strscpy(settings.version, engine->logic->version, sizeof(settings.version));
	return engine->logic->settings_apply(&engine->core, &settings);
}

static struct km_engine *engine_make(struct cgpu_km_core *logic, struct cgpu_state *on)
{
	struct km_engine *engine = kzalloc(sizeof(*engine), GFP_KERNEL);

	if (!engine)
		return NULL;
	engine->core.state = on;
	engine->core.ops = &ops;
	engine->core.ctx = engine;
	engine->logic = logic;
	refcount_set(&engine->users, 1);
	return engine;
}

static struct cgpu_state *state_make(struct cgpu_km_core *logic)
{
	return vzalloc(logic->state_bytes());
}

/* The first core: on what an earlier one has left, where it can. */
static int engine_first(struct cgpu_km_core *logic)
{
	struct cgpu_state *fresh = state_make(logic);
	struct km_engine *engine = fresh ? engine_make(logic, fresh) : NULL;
	int err;

	if (!engine) {
		vfree(fresh);
		return -ENOMEM;
	}
	/* Nobody is registered while no core is there: nothing is lost with a state that cannot be read. */
	if (!state || logic->state_convert(fresh, state))
		logic->state_init(fresh);
	err = settings_apply(engine);
	if (err) {
		pr_err("the parameters are refused: policy is 0 to 5, max_inst 1 to 25, prio_ratio 20 to 99\n");
		kfree(engine);
		vfree(fresh);
		return err;
	}
	vfree(state);
	state = fresh;
	rcu_assign_pointer(engine_in_use, engine);
	return 0;
}

/* Let no more calls in, and wait until those inside have come out. */
static int quiesce(struct km_engine *engine)
{
	WRITE_ONCE(gate_closed, true);
	smp_mb(); /* pairs with the one in km_engine_get() */
	if (wait_event_timeout(
		    drained, refcount_read(&engine->users) == 1, msecs_to_jiffies(km_upgrade_timeout_ms())) ||
		refcount_read(&engine->users) == 1)
		return 0;
	return -EBUSY;
}

static void resume(void)
{
	WRITE_ONCE(gate_closed, false);
	wake_up_all(&gate);
}

/* A core with another layout of the state: it gets a copy in its own, while no call is under way. */
static int engine_convert(struct km_engine *old, struct km_engine *fresh)
{
	int err = quiesce(old);

	if (err == 0)
		err = fresh->logic->state_convert(fresh->core.state, state);
	if (err == 0)
		err = settings_apply(fresh);
	if (err == 0) {
		vfree(state);
		state = fresh->core.state;
		rcu_assign_pointer(engine_in_use, fresh);
	}
	resume();
	return err;
}

/* It is no longer in use. Calls that began in it end in it, where its module is held for them; else it must be left
 * before the module may go. */
static void engine_leave(struct km_engine *engine)
{
	synchronize_rcu();
	while (!engine->pinned && refcount_read(&engine->users) > 1)
		msleep(1);
	km_engine_put(engine);
}

static bool same_layout(const struct cgpu_km_core *a, const struct cgpu_km_core *b)
{
	return a->state_version() == b->state_version() && a->state_bytes() == b->state_bytes();
}

int km_engine_exchange(struct cgpu_km_core *logic)
{
	struct km_engine *old = in_use();
	bool same = same_layout(logic, old->logic);
	struct cgpu_state *on = same ? state : state_make(logic);
	struct km_engine *fresh = on ? engine_make(logic, on) : NULL;
	int err = fresh ? 0 : -ENOMEM;

	if (err == 0 && containers_known) {
		fresh->pinned = try_module_get(logic->owner);
		err = fresh->pinned ? 0 : -ENODEV;
	}
	if (err == 0)
		err = km_driver_layouts(fresh);
	if (err == 0 && !same)
		err = engine_convert(old, fresh);
	else if (err == 0 && (err = settings_apply(fresh)) == 0)
		/* Calls under way end in the core that they began in: both know the same records. */
		rcu_assign_pointer(engine_in_use, fresh);
	if (err == 0) {
		engine_leave(old);
		return 0;
	}
	if (fresh)
		engine_release(fresh);
	if (!same)
		vfree(on);
	return err;
}

struct cgpu_km_core *km_engine_candidate(void)
{
	struct km_engine *engine = in_use();
	struct cgpu_km_core *core;

	/* The newest comes first. */
	list_for_each_entry(core, &cores, list)
	{
		if (!engine || core != engine->logic)
			return core;
	}
	return NULL;
}

bool km_engine_has_candidate(void)
{
	return READ_ONCE(core_count) > 1;
}

static bool version_known(const char *version)
{
	struct cgpu_km_core *core;

	list_for_each_entry(core, &cores, list)
	{
		if (!strcmp(core->version, version))
			return true;
	}
	return false;
}

int cgpu_km_core_register(struct cgpu_km_core *core)
{
	int err = 0;

	if (core->interface != CGPU_KM_INTERFACE) {
		pr_err("core %s: made for interface %u, this module has %u; load a cgpu_km of the same release\n",
			core->version, core->interface, CGPU_KM_INTERFACE);
		return -EPROTO;
	}
	mutex_lock(&km_control_lock);
	if (version_known(core->version))
		err = -EEXIST;
	else if (!in_use())
		err = engine_first(core);
	if (err == 0) {
		list_add(&core->list, &cores);
		WRITE_ONCE(core_count, core_count + 1);
		if (in_use()->logic == core) {
			km_driver_core_came();
			err = km_tree_sync(in_use());
		}
	}
	mutex_unlock(&km_control_lock);
	if (err)
		pr_err("core %s: not taken (error %d)\n", core->version, err);
	else
		pr_info("core %s: loaded\n", core->version);
	if (err == 0)
		km_driver_settle();
	return err;
}
EXPORT_SYMBOL_GPL(cgpu_km_core_register);

void cgpu_km_core_unregister(struct cgpu_km_core *core)
{
	struct km_engine *engine;
	bool last;

	mutex_lock(&km_control_lock);
	list_del(&core->list);
	WRITE_ONCE(core_count, core_count - 1);
	engine = in_use();
	last = engine && engine->logic == core;
	/* With its module: nobody is registered, or that would be held. */
	if (last) {
		rcu_assign_pointer(engine_in_use, NULL);
		engine_leave(engine);
	}
	mutex_unlock(&km_control_lock);
	if (!last)
		return;
	/* Without the lock: it waits for those who write into the tree, and they for the lock. */
	km_tree_sync(NULL);
	mutex_lock(&km_control_lock);
	if (in_use())
		km_tree_sync(in_use());
	mutex_unlock(&km_control_lock);
}
EXPORT_SYMBOL_GPL(cgpu_km_core_unregister);

void km_engine_init(void)
{
	u32 i;

	for (i = 0; i < ARRAY_SIZE(order); i++)
		mutex_init(&order[i]);
}

void km_engine_exit(void)
{
	vfree(state);
	state = NULL;
}
