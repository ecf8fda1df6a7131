// SPDX-License-Identifier: GPL-2.0-only
/* Cores that are loaded, the state that one of them works on, and the change from one to another. */

#include <linux/kprobes.h>
#include <linux/random.h>
#include <linux/vmalloc.h>

#include "driver/driver.h"
#include "engine/engine.h"
#include "identity/identity.h"
#include "sched/rounds.h"
#include "tree/proc_tree.h"

/* Held while a core comes or goes as a whole: the files of the tree are removed without the control lock. */
static DEFINE_MUTEX(cores_lock);
static struct cgpu_state *state;
static LIST_HEAD(cores);
static u32 core_count;

static struct cgpu_state *state_make(struct cgpu_km_core *logic)
{
	return vzalloc(logic->state_bytes());
}

/* The first core: it works on the state that an earlier one has left, where it can. */
static int engine_first(struct cgpu_km_core *logic)
{
	struct cgpu_state *fresh = state_make(logic);
	struct km_engine *engine = fresh ? engine_make(logic, fresh) : NULL;
	int err;

	if (!engine) {
		vfree(fresh);
		return -ENOMEM;
	}
	/* A state that cannot be read has no containers in it: with one registered its core could not have gone. */
	if (!state || logic->state_convert(fresh, state))
		logic->state_init(fresh, get_random_u64());
	settings_turn_off(false);
	err = settings_apply(engine);
	if (err) {
		pr_err("the parameters are refused: policy is " CGPU_CONFIG_POLICY_BOUNDS_TEXT
		       ", max_inst " CGPU_CONFIG_MAX_INST_BOUNDS_TEXT ", prio_ratio " CGPU_CONFIG_PRIO_RATIO_BOUNDS_TEXT
		       "\n");
		engine_release(engine);
		vfree(fresh);
		return err;
	}
	vfree(state);
	state = fresh;
	engine_use(engine);
	km_rounds_begin();
	smp_mb(); /* pairs with the one in settings.c, settings_changed() */
	if (settings_apply(engine))
		pr_err("the parameters are refused\n");
	return 0;
}

/* A core with another layout of the state: it gets a copy in its own layout, while no call is in flight. */
static int engine_convert(struct km_engine *old, struct km_engine *fresh)
{
	int err = engine_quiesce(old, km_upgrade_timeout_ms());

	if (err == 0)
		err = fresh->logic->state_convert(fresh->core.state, state);
	if (err == 0)
		err = settings_apply(fresh);
	if (err == 0) {
		engine_use(fresh);
		engine_end(old);
		vfree(state);
		state = fresh->core.state;
	}
	engine_resume();
	return err;
}

/* A core with the same layout: calls in flight end in the core that they began in, as both read the same state. */
static int engine_replace(struct km_engine *fresh)
{
	int err = settings_apply(fresh);

	if (err == 0)
		engine_use(fresh);
	return err;
}

static bool same_layout(const struct cgpu_km_core *a, const struct cgpu_km_core *b)
{
	return a->state_version() == b->state_version() && a->state_bytes() == b->state_bytes();
}

/* Whether calls of containers, which some may have left behind, would be judged by other layouts of the driver. Cores of one
 * interface have the same fields. */
static bool changes_layouts(const struct km_engine *old, const struct km_engine *fresh)
{
	const struct nv_abi *before = old->core.abi, *after = fresh->core.abi;

	return (km_identity_any() || km_latency_inside()) && before && after && memcmp(before, after, sizeof(*before));
}

/* Put another core in use. Where it lays out the state in another way, calls of containers wait meanwhile. -EBUSY: a call
 * did not end in time; -EPROTO: it cannot read the state, does not know the driver, or has other layouts for it than containers. */
static int engine_exchange(struct cgpu_km_core *logic)
{
	struct km_engine *old = engine_current();
	bool same = same_layout(logic, old->logic);
	struct cgpu_state *on = same ? state : state_make(logic);
	struct km_engine *fresh = on ? engine_make(logic, on) : NULL;
	int err = fresh ? 0 : -ENOMEM;

	if (err == 0 && engine_is_pinned()) {
		fresh->pinned = try_module_get(logic->owner);
		err = fresh->pinned ? 0 : -ENODEV;
	}
	if (err == 0)
		err = km_driver_layouts(fresh);
	if (err == 0 && changes_layouts(old, fresh))
		err = -EPROTO;
	if (err == 0)
		err = same ? engine_replace(fresh) : engine_convert(old, fresh);
	if (err == 0) {
		/* The new core may have other files. reclaim.c makes those that fail here. */
		km_tree_sync(fresh);
		engine_leave(old);
		return 0;
	}
	if (fresh)
		engine_release(fresh);
	if (!same)
		vfree(on);
	return err;
}

/* Another core that is loaded; NULL: there is none. */
static struct cgpu_km_core *engine_candidate(void)
{
	struct km_engine *engine = engine_current();
	struct cgpu_km_core *core;

	/* The newest comes first. */
	list_for_each_entry(core, &cores, list) {
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

	list_for_each_entry(core, &cores, list) {
		if (!strcmp(core->version, version))
			return true;
	}
	return false;
}

static int core_add(struct cgpu_km_core *core)
{
	int err = 0;

	lockdep_assert_held(&km_control_lock);
	if (version_known(core->version))
		return -EEXIST;
	if (!engine_current())
		err = engine_first(core);
	if (err)
		return err;
	list_add(&core->list, &cores);
	WRITE_ONCE(core_count, core_count + 1);
	return 0;
}

/* Returns whether it was the one in use: then the files of the tree are to be removed. */
static bool core_remove(struct cgpu_km_core *core)
{
	struct km_engine *engine = engine_current();
	bool last = engine && engine->logic == core;

	list_del(&core->list);
	WRITE_ONCE(core_count, core_count - 1);
	/*
	 * Its module goes: no container is registered, or the module would be held. But processes of a removed container may
	 * have channels left, which are enabled here for the last time.
	 */
	if (last) {
		settings_turn_off(true);
		if (settings_apply(engine))
			pr_err("the parameters are refused\n");
		km_rounds_end(engine);
		engine_use(NULL);
		engine_leave(engine);
	}
	return last;
}

static int core_take(struct cgpu_km_core *core)
{
	bool last = false;
	int err;

	mutex_lock(&km_control_lock);
	err = core_add(core);
	if (err == 0 && engine_current()->logic == core) {
		err = km_tree_sync(engine_current());
		if (err)
			last = core_remove(core);
		else
			km_driver_core_came();
	}
	mutex_unlock(&km_control_lock);
	if (last)
		km_tree_sync(NULL);
	return err;
}

int cgpu_km_core_register(struct cgpu_km_core *core)
{
	int err;

	if (core->interface != CGPU_KM_INTERFACE) {
		pr_err("core %s: made for interface %u, this module has %u; load a cgpu_km of the same release\n",
			core->version, core->interface, CGPU_KM_INTERFACE);
		return -EPROTO;
	}
	mutex_lock(&cores_lock);
	err = core_take(core);
	mutex_unlock(&cores_lock);
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
	bool last;

	mutex_lock(&cores_lock);
	mutex_lock(&km_control_lock);
	last = core_remove(core);
	mutex_unlock(&km_control_lock);
	/* Without the control lock: it waits for writers into the tree, and these for that lock. */
	if (last)
		km_tree_sync(NULL);
	mutex_unlock(&cores_lock);
}
EXPORT_SYMBOL_GPL(cgpu_km_core_unregister);

void km_cores_exit(void)
{
	vfree(state);
	state = NULL;
}

/* docs/engines.md says what refuses an upgrade. */
int km_upgrade(void)
{
	struct cgpu_km_core *core = engine_candidate();
	int err = core ? engine_exchange(core) : -ENOENT;

	if (err == -ENOENT)
		pr_warn("upgrade: no other core is loaded; modprobe its cgpu_core_<version> first\n");
	else if (err == -EBUSY)
		pr_warn("upgrade to %s: calls of containers did not end within %u ms (upgrade_timeout_ms); nothing has changed\n",
			core->version, km_upgrade_timeout_ms());
	else if (err)
		pr_warn("upgrade to %s: refused (error %d): its state is not compatible, it does not know the driver or has "
			"other layouts for it than the running containers; nothing has changed\n",
			core->version, err);
	else
		pr_info("upgrade: core %s is in use\n", core->version);
	return err;
}
