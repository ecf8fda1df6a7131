// SPDX-License-Identifier: GPL-2.0-only
/*
 * The NVIDIA driver is loaded and unloaded, and may come back in another version. Its probes are placed while it is loading,
 * before it has made its devices, so that there is no moment in which a container could reach it past them.
 */
#include <linux/module.h>
#include <linux/notifier.h>
#include <linux/workqueue.h>

#include "driver/driver.h"
#include "identity/identity.h"
#include "probes/files.h"
#include "probes/pages.h"
#include "probes/probe.h"
#include "tree/proc_tree.h"

static struct km_probe *const driver_probes[] = {
	&km_probe_copy_from,
	&km_probe_copy_to,
	&km_probe_get_file,
	&km_probe_cleanup,
	&km_probe_uvm_dup,
	&km_probe_uvm_free,
	/* The end first: nothing may be retained whose release would not be seen. */
	&km_probe_release,
	&km_probe_retain,
	&km_probe_dma_buf_dup,
	&km_probe_dma_buf_undup,
	&km_probe_dma_buf,
	&km_probe_dev_get,
	&km_probe_opened_close,
	/* The ends first, as above. */
	&km_probe_map_window,
	&km_probe_map_peer,
	&km_probe_map_user,
	&km_probe_map_free,
	&km_probe_map_leave,
	&km_probe_map_access,
	&km_probe_map_fault,
	&km_probe_map,
	&km_probe_map_ready,
	&km_probe_opened_ioctl,
	/* Last: with this one calls begin to be judged. */
	&km_probe_rm_ioctl,
};

static void detach_driver(void)
{
	km_probes_detach(driver_probes, ARRAY_SIZE(driver_probes));
	km_pages_detach();
}

/* The loaded driver cannot be enforced upon. */
static void driver_give_up(void)
{
	detach_driver();
	km_loaded.unfit = km_loaded.driver;
	km_loaded_set(NULL);
}

static int driver_choose_layouts(void)
{
	struct km_engine *engine = km_engine_get();
	int err = engine ? km_driver_layouts(engine) : 0;

	km_engine_put(engine);
	return err;
}

/* err: why the driver has no layouts. */
static void driver_add_cards(int err)
{
	struct km_engine *engine = km_engine_get();

	if (!engine)
		return;
	if (err)
		driver_give_up();
	else
		err = km_gpus_add(engine);
	if (err == 0)
		err = km_tree_sync(engine);
	if (err)
		pr_err("driver %s: its GPUs cannot be sliced (error %d)\n", km_loaded.version, err);
	else
		pr_info("driver %s: in place\n", km_loaded.version);
	km_engine_put(engine);
}

static void driver_ask_cards(int err)
{
	struct module *held = km_loaded.driver;

	if (held && held->state == MODULE_STATE_LIVE && try_module_get(held)) {
		driver_add_cards(err);
		module_put(held);
	}
}

static void driver_start_cards(struct work_struct *work)
{
	mutex_lock(&km_control_lock);
	driver_ask_cards(driver_choose_layouts());
	mutex_unlock(&km_control_lock);
}
/* In a thread of its own: the loader holds locks of the kernel's, and its cards take seconds to start. */
static DECLARE_WORK(driver_cards_work, driver_start_cards);

void km_driver_core_came(void)
{
	schedule_work(&driver_cards_work);
}

void km_driver_settle(void)
{
	flush_work(&driver_cards_work);
}

/* A call in flight, of a removed container or of the module's own, would end by other layouts than it began by. -EBUSY: there is
 * one. */
static int driver_choose_by_row(void)
{
	struct km_engine *engine = engine_current();
	int err = engine ? engine_quiesce(engine, km_upgrade_timeout_ms()) : 0;

	if (km_latency_inside())
		err = -EBUSY;
	if (err == 0) {
		km_loaded_take_row();
		err = engine ? km_driver_layouts(engine) : 0;
	}
	engine_resume();
	return err;
}

static void driver_take_row(struct work_struct *work)
{
	int err = -EBUSY;

	mutex_lock(&km_control_lock);
	/* Containers keep their layouts, and what a card needs by itself cannot be measured beside them. */
	if (!km_identity_any())
		err = driver_choose_by_row();
	/* Else cgpu-config-apply writes the row once more. */
	if (err != -EBUSY)
		driver_ask_cards(err);
	mutex_unlock(&km_control_lock);
}
static DECLARE_WORK(driver_row_work, driver_take_row);

/* The cards are asked by the row in a thread of its own, too: as settings.c says, no writer waits for the control lock. */
static int row_set(const char *text, const struct kernel_param *kp)
{
	int changed = km_loaded_set_row(text);

	if (changed > 0 && km_driver_attached())
		schedule_work(&driver_row_work);
	return min(changed, 0);
}

static const struct kernel_param_ops row_ops = { .set = row_set };
module_param_cb(driver_row, &row_ops, NULL, 0200);
MODULE_PARM_DESC(driver_row,
	"layouts of a driver outside of the table, by a signed file: cgpu-config-apply writes them where no container "
	"is registered");

static int attach_driver(void)
{
	const char *failed;
	int err;

	km_opened_files_choose();
	km_mappings_choose();
	err = km_pages_attach();
	if (err)
		return err;
	err = km_probes_attach(driver_probes, ARRAY_SIZE(driver_probes), &failed);
	if (err)
		pr_err("driver %s: %s cannot be probed (error %d): this driver cannot be enforced upon\n",
			km_loaded.version, failed, err);
	return err;
}

/* A driver that cannot be enforced upon may load, unless there are containers that it would serve. */
static int driver_came(struct module *module)
{
	int err;

	if (km_loaded.driver)
		return 0;
	km_rm_forget();
	km_loaded_set(module);
	km_loaded_take_row();
	err = attach_driver();
	/* Its version must be known before it may meet a container. */
	if (err == 0)
		err = driver_choose_layouts();
	if (err == 0)
		return 0;
	driver_give_up();
	if (!km_identity_any())
		return 0;
	/* The loader frees it without an event; another module may have its address next. */
	km_loaded.unfit = NULL;
	pr_err("driver %s: not let in, since sliced containers are running\n", km_loaded.version);
	return err;
}

static void driver_went(void)
{
	detach_driver();
	km_loaded_set(NULL);
	km_driver_trust();
}

static int driver_changed(struct module *module, unsigned long event)
{
	int err = 0;

	if (event == MODULE_STATE_GOING && module == km_loaded.unfit)
		km_loaded.unfit = NULL;
	else if (event == MODULE_STATE_GOING && module == km_loaded.driver)
		driver_went();
	else if (event == MODULE_STATE_COMING)
		err = driver_came(module);
	else if (event == MODULE_STATE_LIVE && module == km_loaded.driver)
		schedule_work(&driver_cards_work);
	return err;
}

static int uvm_changed(struct module *module, unsigned long event)
{
	int err = 0;

	if (event == MODULE_STATE_GOING) {
		km_uvm_detach();
		km_loaded.uvm_unfit = NULL;
	} else if (event == MODULE_STATE_COMING) {
		err = km_uvm_attach();
	}
	if (err == 0)
		return 0;
	if (km_identity_any())
		return err;
	km_loaded.uvm_unfit = module;
	return 0;
}

static void driver_forget(void)
{
	/* A thread that closed a file may still be on its way out of here. */
	km_probes_drain();
	km_files_clear();
	km_mappings_clear();
	km_opened_files_clear();
	km_references_clear();
	km_managed_clear();
	km_pages_clear();
}

static int driver_notified(struct notifier_block *block, unsigned long event, void *data)
{
	struct module *module = data;
	int err = 0;
	bool gone;

	if (strcmp(module->name, "nvidia") && strcmp(module->name, "nvidia_uvm"))
		return NOTIFY_DONE;
	mutex_lock(&km_control_lock);
	if (!strcmp(module->name, "nvidia"))
		err = driver_changed(module, event);
	else
		err = uvm_changed(module, event);
	gone = event == MODULE_STATE_GOING && !km_loaded.driver;
	mutex_unlock(&km_control_lock);
	if (gone)
		driver_forget();
	return notifier_from_errno(err);
}

static struct notifier_block driver_notifier = { .notifier_call = driver_notified };

KM_EXTERNAL(find_module, struct module *(const char *));

/* Find modules that were loaded before this one. A module that is loading now reaches the notifier. */
static void driver_find_loaded(void)
{
	unsigned long find_module = km_symbol(NULL, "find_module");
	struct module *found[2] = { NULL, NULL };
	static const char *const names[2] = { "nvidia", "nvidia_uvm" };
	u32 i;

	km_set_external(find_module, find_module);
	for (i = 0; find_module && i < 2; i++) {
		preempt_disable();
		found[i] = km_call(find_module)(names[i]);
		/* A module that is going away is passed over; one that is coming reaches the notifier. */
		if (found[i] && !try_module_get(found[i]))
			found[i] = NULL;
		preempt_enable();
		if (!found[i])
			continue;
		driver_notified(&driver_notifier, MODULE_STATE_COMING, found[i]);
		if (found[i]->state == MODULE_STATE_LIVE)
			driver_notified(&driver_notifier, MODULE_STATE_LIVE, found[i]);
		module_put(found[i]);
	}
}

int km_driver_init(void)
{
	int err = register_module_notifier(&driver_notifier);

	if (err)
		return err;
	err = km_probe_attach(&km_probe_open);
	if (err) {
		pr_err("chrdev_open: cannot be probed (error %d)\n", err);
		unregister_module_notifier(&driver_notifier);
		return err;
	}
	driver_find_loaded();
	return 0;
}

void km_driver_exit(void)
{
	unregister_module_notifier(&driver_notifier);
	cancel_work_sync(&driver_cards_work);
	cancel_work_sync(&driver_row_work);
	km_uvm_detach();
	detach_driver();
	km_probe_detach(&km_probe_open);
	driver_forget();
}
