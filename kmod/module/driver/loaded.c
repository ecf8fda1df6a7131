// SPDX-License-Identifier: GPL-2.0
/* Finds which NVIDIA driver is loaded, whether it can be enforced upon, and the layouts of its version. */
#include <linux/module.h>

#include "driver/driver.h"

struct km_loaded km_loaded;
/* Protects the driver and its version for readers that must not wait for the control lock: cards are started under
 * that. */
static DEFINE_SPINLOCK(driver_lock);
static bool driver_bypassed;

void km_loaded_set(struct module *module)
{
	spin_lock(&driver_lock);
	if (module)
		strscpy(km_loaded.version, module->version ? module->version : "without a version",
			sizeof(km_loaded.version));
	km_loaded.driver = module;
	spin_unlock(&driver_lock);
}

int km_driver_check(void)
{
	lockdep_assert_held(&km_control_lock);
	if (km_driver_bypassed()) {
		pr_warn("nvidia: a call was run past the probes: nobody can be sliced until it is loaded anew\n");
		return km_enforce ? -EPROTO : 0;
	}
	if (!km_loaded.unfit && !km_loaded.uvm_unfit)
		return 0;
	pr_warn("%s: loaded, and cannot be enforced upon: nobody can be sliced; see the line above, or unload it\n",
		km_loaded.unfit ? km_loaded.unfit->name : km_loaded.uvm_unfit->name);
	return km_enforce ? -EPROTO : 0;
}

bool km_driver_attached(void)
{
	return READ_ONCE(km_loaded.driver) != NULL;
}

struct module *km_driver_hold(char *own_version)
{
	struct module *held = NULL;

	spin_lock(&driver_lock);
	if (km_loaded.driver && km_loaded.driver->state == MODULE_STATE_LIVE && try_module_get(km_loaded.driver)) {
		held = km_loaded.driver;
		strscpy(own_version, km_loaded.version, CGPU_KM_VERSION_BYTES);
	}
	spin_unlock(&driver_lock);
	return held;
}

int km_driver_layouts(struct km_engine *engine)
{
	const struct nv_abi *abi;

	lockdep_assert_held(&km_control_lock);
	if (!km_loaded.driver)
		return 0;
	abi = engine->logic->abi_find(km_loaded.version);
	if (!abi && km_allow_unknown_driver)
		abi = engine->logic->abi_nearest(km_loaded.version);
	if (abi) {
		engine->core.abi = abi;
		return 0;
	}
	pr_err("driver %s: unknown version; expected one of the public versions from 515.43.04 on that core %s knows, "
	       "or any that passes cgpu check-driver with the parameter allow_unknown_driver=Y\n",
		km_loaded.version, engine->logic->version);
	return -EPROTO;
}

bool km_driver_bypassed(void)
{
	return READ_ONCE(driver_bypassed);
}

void km_driver_distrust(const char *symbol)
{
	if (!xchg(&driver_bypassed, true))
		pr_err("nvidia: a call was run past the probe on %s: containers are refused until it is loaded anew\n",
			symbol);
}

void km_driver_trust(void)
{
	WRITE_ONCE(driver_bypassed, false);
}
