// SPDX-License-Identifier: GPL-2.0-only
/* Finds which NVIDIA driver is loaded, whether it can be enforced upon, and the layouts of its version. */
#include <linux/module.h>
#include <linux/string.h>

#include "driver/driver.h"
#include "identity/identity.h"

struct km_loaded km_loaded;
/* Protects the driver, its version, the checked one and the rows for readers that must not wait for the control lock: cards are
 * started under that. */
static DEFINE_SPINLOCK(driver_lock);
static bool driver_bypassed;
static char driver_checked[CGPU_KM_VERSION_BYTES];
/* The row that was written last, and the one by which layouts are chosen: another core chooses by the same one. */
static char driver_row_written[PAGE_SIZE], driver_row[PAGE_SIZE];

static int checked_set(const char *text, const struct kernel_param *kp)
{
	spin_lock(&driver_lock);
	strscpy(driver_checked, text, sizeof(driver_checked));
	strim(driver_checked);
	spin_unlock(&driver_lock);
	return 0;
}

static int checked_get(char *text, const struct kernel_param *kp)
{
	int bytes;

	spin_lock(&driver_lock);
	bytes = scnprintf(text, PAGE_SIZE, "%s\n", driver_checked);
	spin_unlock(&driver_lock);
	return bytes;
}

static const struct kernel_param_ops checked_ops = { .set = checked_set, .get = checked_get };
module_param_cb(driver_checked, &checked_ops, NULL, 0600);
MODULE_PARM_DESC(driver_checked,
	"version of a driver outside of the table that has passed cgpu check-driver: cgpu-config-apply writes it");

/* Whether the loaded driver, which is not in the table, has passed its check. */
static bool is_checked(void)
{
	bool same;

	spin_lock(&driver_lock);
	same = strcmp(driver_checked, km_loaded.version) == 0;
	spin_unlock(&driver_lock);
	return same;
}

int km_loaded_set_row(const char *row)
{
	int changed;

	if (strlen(row) >= sizeof(driver_row))
		return -EINVAL;
	spin_lock(&driver_lock);
	changed = !sysfs_streq(driver_row, row);
	if (changed && km_identity_any())
		changed = -EBUSY;
	else
		strscpy(driver_row_written, row, sizeof(driver_row_written));
	spin_unlock(&driver_lock);
	return changed;
}

void km_loaded_take_row(void)
{
	lockdep_assert_held(&km_control_lock);
	if (km_identity_any())
		return;
	spin_lock(&driver_lock);
	strscpy(driver_row, driver_row_written, sizeof(driver_row));
	spin_unlock(&driver_lock);
}

void km_loaded_set(struct module *module)
{
	spin_lock(&driver_lock);
	if (module)
		strscpy(km_loaded.version, module->version ? module->version : "without a version",
			sizeof(km_loaded.version));
	km_loaded.driver = module;
	spin_unlock(&driver_lock);
}

int km_driver_check(char *why, size_t bytes)
{
	lockdep_assert_held(&km_control_lock);
	if (km_loaded.driver && engine_current()->core.abi_source == CGPU_ABI_NEAREST && !is_checked()) {
		snprintf(why, bytes,
			"NVIDIA driver %s is not in the table, and its check has not passed: cgpu-config-apply",
			km_loaded.version);
		return km_enforce ? -EPROTO : 0;
	}
	strscpy(why, "limits cannot be enforced on the loaded NVIDIA driver: see the kernel's log (dmesg)", bytes);
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
	enum cgpu_abi_source source;
	const struct nv_abi *abi;

	lockdep_assert_held(&km_control_lock);
	if (!km_loaded.driver)
		return 0;
	spin_lock(&driver_lock);
	abi = engine->logic->abi_choose(km_loaded.version, driver_row, km_allow_unknown_driver, &source);
	spin_unlock(&driver_lock);
	/* The tree does not go on to say what an earlier driver had. */
	engine->core.abi_source = abi ? source : CGPU_ABI_TABLE;
	if (abi && source == CGPU_ABI_NEAREST && km_enforce && km_identity_any() && !is_checked()) {
		pr_err("driver %s: is not in the table, and its check has not passed\n", km_loaded.version);
		return -EPROTO;
	}
	if (abi) {
		engine->core.abi = abi;
		return 0;
	}
	pr_err("driver %s: unknown version; expected one from 515.43.04 on; without allow_unknown_driver one of the table "
	       "of core %s\n",
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
