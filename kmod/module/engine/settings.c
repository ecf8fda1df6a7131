// SPDX-License-Identifier: GPL-2.0-only
/*
 * The module's parameters. Most are the core's settings, and are applied to the core in use when one is written.
 * Bounds and defaults are those of the node's configuration.
 */
#include <linux/moduleparam.h>
#include <linux/time64.h>

#include "engine/engine.h"

static void settings_changed(void);

bool km_enforce __ro_after_init = CGPU_CONFIG_ENFORCE_DEFAULT;
module_param_named(enforce, km_enforce, bool, 0444);
MODULE_PARM_DESC(enforce, "N: count and report, refuse and rewrite nothing " CGPU_CONFIG_ENFORCE_DEFAULT_TEXT);

bool km_allow_unknown_driver __ro_after_init = CGPU_CONFIG_ALLOW_UNKNOWN_DRIVER_DEFAULT;
module_param_named(allow_unknown_driver, km_allow_unknown_driver, bool, 0444);
MODULE_PARM_DESC(allow_unknown_driver,
	"Y: for a driver version that is not in the table take the layouts of the newest older one, once "
	"driver_checked names it " CGPU_CONFIG_ALLOW_UNKNOWN_DRIVER_DEFAULT_TEXT);

bool km_count_pages __ro_after_init = CGPU_CONFIG_COUNT_PAGES_DEFAULT;
module_param_named(count_pages, km_count_pages, bool, 0444);
MODULE_PARM_DESC(count_pages,
	"N: what the driver's page allocator gives out is not counted, and the ledger of calls decides "
	"alone " CGPU_CONFIG_COUNT_PAGES_DEFAULT_TEXT);

static bool managed_memory = CGPU_CONFIG_MANAGED_MEMORY_DEFAULT;
module_param(managed_memory, bool, 0644);
MODULE_PARM_DESC(managed_memory,
	"N: containers get no managed memory; what they have of it stays " CGPU_CONFIG_MANAGED_MEMORY_DEFAULT_TEXT);

static bool allow_zero_weight = CGPU_CONFIG_ALLOW_ZERO_WEIGHT_DEFAULT;
module_param(allow_zero_weight, bool, 0444);
MODULE_PARM_DESC(allow_zero_weight,
	"Y: a container that finds too little weight left starts without compute, instead of being "
	"refused " CGPU_CONFIG_ALLOW_ZERO_WEIGHT_DEFAULT_TEXT);

static unsigned int policy = CGPU_CONFIG_POLICY_DEFAULT;
module_param(policy, uint, 0444);
MODULE_PARM_DESC(policy,
	"scheduling policy that a GPU starts with, " CGPU_CONFIG_POLICY_BOUNDS_TEXT
	" " CGPU_CONFIG_POLICY_DEFAULT_TEXT);

static unsigned int max_inst = CGPU_CONFIG_MAX_INST_DEFAULT;
module_param(max_inst, uint, 0444);
MODULE_PARM_DESC(max_inst,
	"containers that a GPU takes at first, " CGPU_CONFIG_MAX_INST_BOUNDS_TEXT
	" " CGPU_CONFIG_MAX_INST_DEFAULT_TEXT);

static unsigned int prio_ratio = CGPU_CONFIG_PRIO_RATIO_DEFAULT;
module_param(prio_ratio, uint, 0444);
MODULE_PARM_DESC(prio_ratio,
	"share of a container with high priority that a GPU starts with, " CGPU_CONFIG_PRIO_RATIO_BOUNDS_TEXT
	" " CGPU_CONFIG_PRIO_RATIO_DEFAULT_TEXT);

static unsigned long default_memsize = CGPU_CONFIG_DEFAULT_MEMSIZE_DEFAULT;
module_param(default_memsize, ulong, 0444);
MODULE_PARM_DESC(default_memsize,
	"bytes for a container that names a GPU and no amount; 0: it is not "
	"sliced " CGPU_CONFIG_DEFAULT_MEMSIZE_DEFAULT_TEXT);

/* A number that may be written later. The value comes first, so that param_get_ulong() reads it. */
struct bounded {
	unsigned long value, min, max;
};

static int bounded_set(const char *text, const struct kernel_param *kp)
{
	struct bounded *bounded = kp->arg;
	unsigned long value;
	int err = kstrtoul(text, 10, &value);

	if (err == 0 && (value < bounded->min || value > bounded->max))
		err = -EINVAL;
	if (err)
		return err;
	WRITE_ONCE(bounded->value, value);
	settings_changed();
	return 0;
}

static const struct kernel_param_ops bounded_ops = { .set = bounded_set, .get = param_get_ulong };

#define BOUNDED(key)                                                                          \
	{                                                                                     \
		CGPU_CONFIG_##key##_DEFAULT, CGPU_CONFIG_##key##_MIN, CGPU_CONFIG_##key##_MAX \
	}

static struct bounded context_memory = BOUNDED(CONTEXT_MEMORY);
module_param_cb(context_memory, &bounded_ops, &context_memory, 0644);
MODULE_PARM_DESC(context_memory,
	"bytes that a container is charged with for each context of the graphics engine; 0: "
	"none " CGPU_CONFIG_CONTEXT_MEMORY_DEFAULT_TEXT);

static struct bounded page_margin = BOUNDED(PAGE_MARGIN);
module_param_cb(page_margin, &bounded_ops, &page_margin, 0644);
MODULE_PARM_DESC(page_margin,
	"bytes of pages that the driver may take beyond a container's slice, for what it needs by "
	"itself " CGPU_CONFIG_PAGE_MARGIN_DEFAULT_TEXT);

static struct bounded drift_tolerance = BOUNDED(DRIFT_TOLERANCE);
module_param_cb(drift_tolerance, &bounded_ops, &drift_tolerance, 0644);
MODULE_PARM_DESC(drift_tolerance,
	"bytes that a GPU may be short of beyond what is charged before that is logged and "
	"answered " CGPU_CONFIG_DRIFT_TOLERANCE_DEFAULT_TEXT);

static struct bounded slice_us = BOUNDED(SLICE_US);
module_param_cb(slice_us, &bounded_ops, &slice_us, 0644);
MODULE_PARM_DESC(slice_us,
	"microseconds of GPU time of one unit of weight in each round, " CGPU_CONFIG_SLICE_US_BOUNDS_TEXT
	" " CGPU_CONFIG_SLICE_US_DEFAULT_TEXT);

static bool drift_refuse;

static int reaction_set(const char *text, const struct kernel_param *kp)
{
	if (!sysfs_streq(text, "report") && !sysfs_streq(text, "refuse"))
		return -EINVAL;
	WRITE_ONCE(drift_refuse, sysfs_streq(text, "refuse"));
	settings_changed();
	return 0;
}

static int reaction_get(char *text, const struct kernel_param *kp)
{
	return sprintf(text, "%s\n", drift_refuse ? "refuse" : "report");
}

static const struct kernel_param_ops reaction_ops = { .set = reaction_set, .get = reaction_get };

module_param_cb(drift_reaction, &reaction_ops, NULL, 0644);
MODULE_PARM_DESC(drift_reaction,
	"what lasting drift leads to: report, or refuse: containers get nothing more of that GPU, "
	"too " CGPU_CONFIG_DRIFT_REACTION_DEFAULT_TEXT);

#define UPGRADE_TIMEOUT_MAX_MS 10000

static unsigned int upgrade_timeout_ms = 200;
module_param(upgrade_timeout_ms, uint, 0644);
MODULE_PARM_DESC(upgrade_timeout_ms,
	"how long containers' calls may be kept waiting while one core hands over to one with another layout "
	"(default 200, at most " __stringify(UPGRADE_TIMEOUT_MAX_MS) ")");

/* Written and read by cgpu-config-apply alone: a module that was loaded anew has forgotten the configuration. */
static bool configured;
module_param(configured, bool, 0644);
MODULE_PARM_DESC(configured, "set by cgpu-config-apply when the node's configuration is in force");

bool km_managed_memory(void)
{
	return READ_ONCE(managed_memory);
}

unsigned int km_upgrade_timeout_ms(void)
{
	return min_t(unsigned int, upgrade_timeout_ms, UPGRADE_TIMEOUT_MAX_MS);
}

static DEFINE_MUTEX(settings_lock);
static bool settings_off; /* the last engine ends: whatever the parameters say, it enforces nothing any more */

static void settings_fill(struct cgpu_settings *settings)
{
	memset(settings, 0, sizeof(*settings));
	strscpy(settings->engine, "cgpu_km", sizeof(settings->engine));
	settings->major = NV_NVIDIA_MAJOR;
	settings->enforce = km_enforce;
	settings->allow_zero_weight = allow_zero_weight;
	settings->policy = policy;
	settings->max_inst = max_inst;
	settings->prio_ratio = prio_ratio;
	settings->default_memsize = default_memsize;
	settings->context_memory = READ_ONCE(context_memory.value);
	settings->page_margin = READ_ONCE(page_margin.value);
	settings->drift_tolerance = READ_ONCE(drift_tolerance.value);
	settings->slice = READ_ONCE(slice_us.value) * (u64)NSEC_PER_USEC;
	settings->drift_refuse = READ_ONCE(drift_refuse);
}

int settings_apply(struct km_engine *engine)
{
	struct cgpu_settings settings;
	int err;

	/* Held until the values are in force: no thread puts older values over newer ones. */
	mutex_lock(&settings_lock);
	settings_fill(&settings);
	settings.enforce &= !settings_off;
	strscpy(settings.version, engine->logic->version, sizeof(settings.version));
	err = engine->logic->settings_apply(&engine->core, &settings);
	mutex_unlock(&settings_lock);
	return err;
}

/* A write of a parameter takes no lock but this one: channels that are enabled for good stay enabled. */
void settings_turn_off(bool off)
{
	mutex_lock(&settings_lock);
	settings_off = off;
	mutex_unlock(&settings_lock);
}

/* Not under the control lock: a writer of a parameter holds the lock of all parameters, which readers of sysfs need. */
static void settings_changed(void)
{
	struct km_engine *engine;

	smp_mb(); /* pairs with the one in cores.c, engine_first(): either it reads the new value, or its engine is seen here */
	engine = km_engine_get_surely();
	if (!engine)
		return;
	if (settings_apply(engine))
		pr_err("the parameters are refused\n");
	km_engine_put(engine);
}
