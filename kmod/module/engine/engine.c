// SPDX-License-Identifier: GPL-2.0-only
/* The core in use, and references of the tasks that are inside of it. */
#include <linux/delay.h>
#include <linux/init.h>
#include <linux/kprobes.h>
#include <linux/ktime.h>
#include <linux/slab.h>
#include <linux/wait.h>

#include "engine/engine.h"

DEFINE_MUTEX(km_control_lock);
static DEFINE_MUTEX(state_lock);
static struct km_engine __rcu *engine_in_use;
static u32 pins; /* bits of enum km_pin */
static bool calls_stopped;
static DECLARE_WAIT_QUEUE_HEAD(resumed);
static DECLARE_WAIT_QUEUE_HEAD(drained);

static void core_lock(void *ctx)
{
	mutex_lock(&state_lock);
}

static void core_unlock(void *ctx)
{
	mutex_unlock(&state_lock);
}

static void core_log(void *ctx, int level, const char *line)
{
	if (level == 3)
		pr_err("%s\n", line);
	else if (level == 4)
		pr_warn("%s\n", line);
	else
		pr_info("%s\n", line);
}

static u64 engine_clock(void *ctx)
{
	return ktime_get_ns();
}

static struct cgpu_ops ops __ro_after_init = {
	.lock = core_lock,
	.unlock = core_unlock,
	.log = core_log,
	.clock = engine_clock,
};

void __init km_engine_register(const struct cgpu_ops *others)
{
	ops.cgroup_of = others->cgroup_of;
	ops.orphans = others->orphans;
	ops.process_of = others->process_of;
	ops.process_in = others->process_in;
	ops.cards = others->cards;
	ops.round = others->round;
	ops.pages = others->pages;
	ops.pages_next = others->pages_next;
	ops.pages_limit = others->pages_limit;
}

struct km_engine *engine_current(void)
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

/* NULL with again set: calls are stopped, or the engine that was found has ended meanwhile. */
static struct km_engine *engine_enter(bool *again)
{
	struct km_engine *engine = engine_try_get();

	*again = false;
	if (!engine)
		return NULL;
	/* Pairs with the one in engine_quiesce(): either it counts this task, or calls_stopped is seen here. */
	smp_mb__after_atomic();
	if (!smp_load_acquire(&calls_stopped) && !READ_ONCE(engine->ended))
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
	} while (again && wait_event_killable(resumed, !READ_ONCE(calls_stopped)) == 0);
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
		wait_event(resumed, !READ_ONCE(calls_stopped));
	}
}

/* engine_leave() waits for those who have found an engine here, before it and its core go. */
bool km_engine_serves_uvm(u32 nr)
{
	const struct km_engine *engine;
	bool serves;

	rcu_read_lock();
	engine = rcu_dereference(engine_in_use);
	serves = engine && engine->logic->uvm_is_served(nr);
	rcu_read_unlock();
	return serves;
}
NOKPROBE_SYMBOL(km_engine_serves_uvm);

void engine_release(struct km_engine *engine)
{
	if (engine->pinned)
		module_put(engine->logic->owner);
	kfree(engine);
}

void km_engine_put(struct km_engine *engine)
{
	if (!engine)
		return;
	if (refcount_dec_and_test(&engine->users)) {
		engine_release(engine);
		return;
	}
	/* The engine may be gone by now. Pairs with engine_quiesce(): it sees the count, or calls_stopped is seen here. */
	smp_mb();
	if (READ_ONCE(calls_stopped))
		wake_up(&drained);
}

int km_engine_pin(enum km_pin pin)
{
	struct km_engine *engine = engine_current();

	if (!pins) {
		if (!engine || !try_module_get(engine->logic->owner))
			return -ENODEV;
		engine->pinned = true;
	}
	pins |= pin;
	return 0;
}

void km_engine_unpin(enum km_pin pin)
{
	struct km_engine *engine = engine_current();

	if (!(pins & pin))
		return;
	pins &= ~pin;
	if (pins)
		return;
	engine->pinned = false;
	module_put(engine->logic->owner);
}

struct km_engine *engine_make(struct cgpu_km_core *logic, struct cgpu_state *on)
{
	static u64 last_number; /* under the control lock */
	struct km_engine *engine = kzalloc(sizeof(*engine), GFP_KERNEL);

	if (!engine)
		return NULL;
	engine->number = ++last_number;
	engine->core.state = on;
	engine->core.ops = &ops;
	engine->core.ctx = engine;
	engine->logic = logic;
	refcount_set(&engine->users, 1);
	return engine;
}

int engine_quiesce(struct km_engine *engine, unsigned int timeout_ms)
{
	WRITE_ONCE(calls_stopped, true);
	smp_mb(); /* pairs with the one in km_engine_get() */
	if (wait_event_timeout(drained, refcount_read(&engine->users) == 1, msecs_to_jiffies(timeout_ms)) ||
		refcount_read(&engine->users) == 1)
		return 0;
	return -EBUSY;
}

void engine_resume(void)
{
	smp_store_release(&calls_stopped, false); /* with it engine_end() is seen too */
	wake_up_all(&resumed);
}

void engine_use(struct km_engine *engine)
{
	rcu_assign_pointer(engine_in_use, engine);
}

void engine_end(struct km_engine *engine)
{
	WRITE_ONCE(engine->ended, true);
}

bool engine_is_pinned(void)
{
	return pins;
}

void engine_leave(struct km_engine *engine)
{
	synchronize_rcu();
	while (!engine->pinned && refcount_read(&engine->users) > 1)
		msleep(1);
	km_engine_put(engine);
}
