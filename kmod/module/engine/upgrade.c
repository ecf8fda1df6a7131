// SPDX-License-Identifier: GPL-2.0
/* The upgrade node: another core takes over while containers run. docs/cgpu_km.md says what refuses it. */
#include "km.h"

int km_upgrade(void)
{
	struct cgpu_km_core *core = km_engine_candidate();
	int err = core ? km_engine_exchange(core) : -ENOENT;

	if (err == -ENOENT)
		pr_warn("upgrade: no other core is loaded; modprobe its cgpu_core_<version> first\n");
	else if (err == -EBUSY)
		pr_warn("upgrade to %s: calls of containers did not end within %u ms (upgrade_timeout_ms); nothing has changed\n",
			core->version, km_upgrade_timeout_ms());
	else if (err)
		pr_warn("upgrade to %s: refused (error %d): its state is not compatible or it does not know the driver; "
			"nothing has changed\n",
			core->version, err);
	else
		pr_info("upgrade: core %s is in use\n", core->version);
	return err;
}
