// SPDX-License-Identifier: GPL-2.0
/* Parameters that the module itself reads; settings.c has those of the core. docs/cgpu_km.md has them with examples. */
#include <linux/moduleparam.h>

#include "engine/engine.h"

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
