// SPDX-License-Identifier: GPL-2.0
/* Parameters of the module: docs/cgpu_km.md has them with examples. */
#include <linux/moduleparam.h>
#include <linux/time64.h>

#include "km.h"

static bool enforce = true;
module_param(enforce, bool, 0444);
MODULE_PARM_DESC(enforce, "N: count and report, refuse and rewrite nothing (default Y)");

static bool allow_unknown_driver;
module_param(allow_unknown_driver, bool, 0444);
MODULE_PARM_DESC(allow_unknown_driver,
	"Y: for a driver version that is not in the table take the layouts of the newest older one; run cgpu "
	"check-driver first (default N)");

static bool managed_memory = true;
module_param(managed_memory, bool, 0644);
MODULE_PARM_DESC(managed_memory, "N: containers get no managed memory; what they have of it stays (default Y)");

static bool allow_zero_weight;
module_param(allow_zero_weight, bool, 0444);
MODULE_PARM_DESC(allow_zero_weight,
	"Y: a container that finds too little weight left starts without compute, instead of being refused (default N)");

static unsigned int policy = 1;
module_param(policy, uint, 0444);
MODULE_PARM_DESC(policy, "scheduling policy that a GPU starts with, 0 to 5 (default 1)");

static unsigned int max_inst = 20;
module_param(max_inst, uint, 0444);
MODULE_PARM_DESC(max_inst, "containers that a GPU takes at first, 1 to 25 (default 20)");

static unsigned int prio_ratio = 80;
module_param(prio_ratio, uint, 0444);
MODULE_PARM_DESC(prio_ratio, "share of a container with high priority that a GPU starts with, 20 to 99 (default 80)");

static unsigned long default_memsize;
module_param(default_memsize, ulong, 0444);
MODULE_PARM_DESC(
	default_memsize, "bytes for a container that names a GPU and no amount; 0: it is not sliced (default 0)");

#define BYTES_MAX (1ul << 40)

/* Those that may be written later. */
static int bytes_set(const char *text, const struct kernel_param *kp)
{
	unsigned long bytes;
	int err = kstrtoul(text, 10, &bytes);

	if (err == 0 && bytes > BYTES_MAX)
		err = -EINVAL;
	if (err)
		return err;
	WRITE_ONCE(*(unsigned long *)kp->arg, bytes);
	km_engine_settings();
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

/* As sched_gpu.h has them. */
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
	km_engine_settings();
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
	km_engine_settings();
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

#define UPGRADE_TIMEOUT_MAX_MS 10000u

static unsigned int upgrade_timeout_ms = 200;
module_param(upgrade_timeout_ms, uint, 0644);
MODULE_PARM_DESC(upgrade_timeout_ms,
	"how long containers' calls may be kept waiting while one core hands over to one with another layout "
	"(default 200, at most 10000)");

/* Written and read by cgpu-config-apply alone: a module that was loaded anew has forgotten the configuration. */
static bool configured;
module_param(configured, bool, 0644);
MODULE_PARM_DESC(configured, "set by cgpu-config-apply when the node's configuration is in force");

bool km_enforce(void)
{
	return enforce;
}

bool km_allow_unknown_driver(void)
{
	return allow_unknown_driver;
}

bool km_managed_memory(void)
{
	return READ_ONCE(managed_memory);
}

unsigned int km_upgrade_timeout_ms(void)
{
	return min(upgrade_timeout_ms, UPGRADE_TIMEOUT_MAX_MS);
}

void km_settings(struct cgpu_settings *settings)
{
	memset(settings, 0, sizeof(*settings));
	strscpy(settings->engine, "cgpu_km", sizeof(settings->engine));
	strscpy(settings->memory_backend, "core", sizeof(settings->memory_backend));
	settings->major = NV_NVIDIA_MAJOR;
	settings->enforce = enforce;
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
