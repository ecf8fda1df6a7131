// SPDX-License-Identifier: GPL-2.0
/* The core's settings: they are parameters of the module, and are applied to the core in use when one is written. */
#include <linux/moduleparam.h>
#include <linux/time64.h>

#include "engine/engine.h"

static void settings_changed(void);

static bool allow_zero_weight;
module_param(allow_zero_weight, bool, 0444);
MODULE_PARM_DESC(allow_zero_weight,
	"Y: a container that finds too little weight left starts without compute, instead of being refused (default N)");

static unsigned int policy = CGPU_POLICY_DEFAULT;
module_param(policy, uint, 0444);
MODULE_PARM_DESC(policy,
	"scheduling policy that a GPU starts with, 0 to " __stringify(CGPU_POLICY_MAX) " (default " __stringify(
		CGPU_POLICY_DEFAULT) ")");

static unsigned int max_inst = CGPU_SCHED_MAX_INST_DEFAULT;
module_param(max_inst, uint, 0444);
MODULE_PARM_DESC(max_inst, "containers that a GPU takes at first, 1 to 25 (default 20)");

static unsigned int prio_ratio = CGPU_SCHED_PRIO_DEFAULT;
module_param(prio_ratio, uint, 0444);
MODULE_PARM_DESC(prio_ratio, "share of a container with high priority that a GPU starts with, 20 to 99 (default 80)");

static unsigned long default_memsize;
module_param(default_memsize, ulong, 0444);
MODULE_PARM_DESC(
	default_memsize, "bytes for a container that names a GPU and no amount; 0: it is not sliced (default 0)");

#define BYTES_MAX (1ul << 40)

/* Of parameters that may be written later. */
static int bytes_set(const char *text, const struct kernel_param *kp)
{
	unsigned long bytes;
	int err = kstrtoul(text, 10, &bytes);

	if (err == 0 && bytes > BYTES_MAX)
		err = -EINVAL;
	if (err)
		return err;
	WRITE_ONCE(*(unsigned long *)kp->arg, bytes);
	settings_changed();
	return 0;
}

static const struct kernel_param_ops bytes_ops = { .set = bytes_set, .get = param_get_ulong };

static unsigned long context_memory = 96ul << 20;
module_param_cb(context_memory, &bytes_ops, &context_memory, 0644);
MODULE_PARM_DESC(context_memory,
	"bytes that a container is charged with for each context of the graphics engine; 0: none (default 100663296)");

static unsigned long drift_tolerance = 512ul << 20;
module_param_cb(drift_tolerance, &bytes_ops, &drift_tolerance, 0644);
MODULE_PARM_DESC(drift_tolerance,
	"bytes that a GPU may be short of beyond what is charged before that is logged and answered (default 536870912)");

/* As sched/scheduler.h has them. */
#define SLICE_MIN_US 100u
#define SLICE_MAX_US 100000u

static unsigned int slice_us = 2000;

static int slice_set(const char *text, const struct kernel_param *kp)
{
	unsigned int us;
	int err = kstrtouint(text, 10, &us);

	if (err == 0 && (us < SLICE_MIN_US || us > SLICE_MAX_US))
		err = -EINVAL;
	if (err)
		return err;
	WRITE_ONCE(slice_us, us);
	settings_changed();
	return 0;
}

static const struct kernel_param_ops slice_ops = { .set = slice_set, .get = param_get_uint };

module_param_cb(slice_us, &slice_ops, &slice_us, 0644);
MODULE_PARM_DESC(
	slice_us, "microseconds of GPU time of one unit of weight in each round, 100 to 100000 (default 2000)");

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
	"what lasting drift leads to: report, or refuse: containers get nothing more of that GPU, too (default report)");

static DEFINE_MUTEX(settings_lock);
static bool settings_off; /* the last engine ends: whatever the parameters say, it enforces nothing any more */

static void settings_fill(struct cgpu_settings *settings)
{
	memset(settings, 0, sizeof(*settings));
	strscpy(settings->engine, "cgpu_km", sizeof(settings->engine));
	strscpy(settings->memory_backend, "core", sizeof(settings->memory_backend));
	settings->major = NV_NVIDIA_MAJOR;
	settings->enforce = km_enforce();
	settings->allow_zero_weight = allow_zero_weight;
	settings->policy = policy;
	settings->max_inst = max_inst;
	settings->prio_ratio = prio_ratio;
	settings->default_memsize = default_memsize;
	settings->context_memory = READ_ONCE(context_memory);
	settings->drift_tolerance = READ_ONCE(drift_tolerance);
	settings->slice = READ_ONCE(slice_us) * (u64)NSEC_PER_USEC;
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
