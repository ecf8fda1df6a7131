// SPDX-License-Identifier: GPL-2.0
/*
 * The NVIDIA driver comes and goes, and comes back in another version. Its probes are placed while it is loading,
 * before it has made its devices, so that there is no moment in which a container could reach it past them.
 */
#include <linux/module.h>
#include <linux/notifier.h>
#include <linux/workqueue.h>

#include "km.h"

static struct km_probe *const probes[] = {
	&km_probe_copy_from,
	&km_probe_copy_to,
	&km_probe_cleanup,
	&km_probe_uvm_dup,
	&km_probe_uvm_free,
	&km_probe_dma_buf,
	/* Last: with this one calls begin to be judged. */
	&km_probe_rm_ioctl,
};

/* Under the control lock. */
static struct module *driver; /* with its probes in place */
static struct module *unfit, *unfit_uvm; /* loaded, and not enforced upon: nobody may be sliced meanwhile */
static char version[CGPU_KM_VERSION_BYTES];

int km_driver_check(void)
{
	if (!unfit && !unfit_uvm)
		return 0;
	pr_warn("%s: loaded, and cannot be enforced upon: nobody can be sliced; see the line above, or unload it\n",
		unfit ? unfit->name : unfit_uvm->name);
	return km_enforce() ? -EPROTO : 0;
}

bool km_driver_attached(void)
{
	return READ_ONCE(driver) != NULL;
}

struct module *km_driver_hold(char *own_version)
{
	struct module *held = NULL;

	/* Not at any price: who asks may be what the lock's holder waits for. */
	if (!mutex_trylock(&km_control_lock))
		return NULL;
	if (driver && driver->state == MODULE_STATE_LIVE && try_module_get(driver)) {
		strscpy(own_version, version, CGPU_KM_VERSION_BYTES);
		held = driver;
	}
	mutex_unlock(&km_control_lock);
	return held;
}

int km_driver_layouts(struct km_engine *engine)
{
	const struct nv_abi *abi;

	if (!driver)
		return 0;
	abi = engine->logic->abi_find(version);
	if (!abi && km_allow_unknown_driver())
		abi = engine->logic->abi_nearest(version);
	if (abi) {
		engine->core.abi = abi;
		return 0;
	}
	pr_err("driver %s: unknown version; accepted are the public versions from 515.43.04 on that core %s knows, "
	       "or any with the parameter allow_unknown_driver=Y\n",
		version, engine->logic->version);
	return -EPROTO;
}

static void detach_all(void)
{
	u32 i;

	for (i = ARRAY_SIZE(probes); i-- > 0;)
		km_probe_detach(probes[i]);
}

/* The loaded driver cannot be enforced upon. */
static void give_up(void)
{
	detach_all();
	unfit = driver;
	driver = NULL;
}

static void add_cards(void)
{
	struct km_engine *engine = km_engine_get();
	int err;

	if (!engine)
		return;
	err = km_driver_layouts(engine);
	if (err)
		give_up();
	else
		err = km_gpus_add(engine, version);
	if (err == 0)
		err = km_tree_sync(engine);
	if (err)
		pr_err("driver %s: its GPUs cannot be sliced (error %d)\n", version, err);
	else
		pr_info("driver %s: in place\n", version);
	km_engine_put(engine);
}

static void look(struct work_struct *work)
{
	struct module *held;

	mutex_lock(&km_control_lock);
	held = driver;
	if (held && held->state == MODULE_STATE_LIVE && try_module_get(held)) {
		add_cards();
		module_put(held);
	}
	mutex_unlock(&km_control_lock);
}
/* In a thread of the kernel's own: it has the host's /proc, whoever loads the driver. */
static DECLARE_WORK(look_work, look);

void km_driver_core_came(void)
{
	schedule_work(&look_work);
}

void km_driver_settle(void)
{
	flush_work(&look_work);
}

static int attach_all(void)
{
	u32 i;
	int err;

	for (i = 0; i < ARRAY_SIZE(probes); i++) {
		err = km_probe_attach(probes[i]);
		if (err == 0 || (err == -ENOENT && probes[i]->optional))
			continue;
		pr_err("driver %s: %s cannot be probed (error %d): this driver cannot be enforced upon\n", version,
			probes[i]->symbol, err);
		detach_all();
		return err;
	}
	return 0;
}

/* Its version must be known before it may meet a container. */
static int check_version(void)
{
	struct km_engine *engine = km_engine_get();
	int err = engine ? km_driver_layouts(engine) : 0;

	if (engine)
		km_engine_put(engine);
	return err;
}

/* A driver that cannot be enforced upon is no concern of ours, unless containers are there that it would serve. */
static int came(struct module *module)
{
	int err;

	if (driver)
		return 0;
	strscpy(version, module->version ? module->version : "without a version", sizeof(version));
	driver = module;
	err = attach_all();
	if (err == 0)
		err = check_version();
	if (err == 0)
		return 0;
	give_up();
	if (!km_identity_any())
		return 0;
	/* The loader frees it without another word; another module may have its address next. */
	unfit = NULL;
	pr_err("driver %s: not let in, since sliced containers are running\n", version);
	return err;
}

static void went(void)
{
	detach_all();
	driver = NULL;
}

static int changed(struct module *module, unsigned long event)
{
	int err = 0;

	if (event == MODULE_STATE_GOING && module == unfit)
		unfit = NULL;
	else if (event == MODULE_STATE_GOING && module == driver)
		went();
	else if (event == MODULE_STATE_COMING)
		err = came(module);
	else if (event == MODULE_STATE_LIVE && module == driver)
		schedule_work(&look_work);
	return err;
}

static int uvm_changed(struct module *module, unsigned long event)
{
	int err = 0;

	if (event == MODULE_STATE_GOING) {
		km_probe_detach(&km_probe_uvm_mmap);
		unfit_uvm = NULL;
	} else if (event == MODULE_STATE_COMING && !km_probe_uvm_mmap.attached) {
		err = km_probe_attach(&km_probe_uvm_mmap);
	}
	if (err == 0)
		return 0;
	pr_err("nvidia_uvm: %s cannot be probed (error %d)\n", km_probe_uvm_mmap.symbol, err);
	if (km_identity_any())
		return err;
	unfit_uvm = module;
	return 0;
}

static int notified(struct notifier_block *block, unsigned long event, void *data)
{
	struct module *module = data;
	int err = 0;
	bool gone;

	if (strcmp(module->name, "nvidia") && strcmp(module->name, "nvidia_uvm"))
		return NOTIFY_DONE;
	mutex_lock(&km_control_lock);
	if (!strcmp(module->name, "nvidia"))
		err = changed(module, event);
	else
		err = uvm_changed(module, event);
	gone = event == MODULE_STATE_GOING && !driver;
	mutex_unlock(&km_control_lock);
	/* A thread that closed a file may still be on its way out of here. */
	if (gone) {
		km_probes_drain();
		km_files_clear();
	}
	return notifier_from_errno(err);
}

static struct notifier_block block = { .notifier_call = notified };

/* Modules that were there before us. One that is loading now reaches the notifier. */
static void find_loaded(void)
{
	struct module *(*find_module)(const char *) = (void *)km_symbol(NULL, "find_module");
	struct module *found[2] = { NULL, NULL };
	static const char *const names[2] = { "nvidia", "nvidia_uvm" };
	u32 i;

	for (i = 0; find_module && i < 2; i++) {
		preempt_disable();
		found[i] = find_module(names[i]);
		/* One that goes now is not for us; one that comes is for the notifier. */
		if (found[i] && !try_module_get(found[i]))
			found[i] = NULL;
		preempt_enable();
		if (!found[i])
			continue;
		notified(&block, MODULE_STATE_COMING, found[i]);
		if (found[i]->state == MODULE_STATE_LIVE)
			notified(&block, MODULE_STATE_LIVE, found[i]);
		module_put(found[i]);
	}
}

int km_driver_init(void)
{
	int err = register_module_notifier(&block);

	if (err)
		return err;
	err = km_probe_attach(&km_probe_open);
	if (err) {
		pr_err("chrdev_open: cannot be probed (error %d)\n", err);
		unregister_module_notifier(&block);
		return err;
	}
	find_loaded();
	return 0;
}

void km_driver_exit(void)
{
	unregister_module_notifier(&block);
	cancel_work_sync(&look_work);
	km_probe_detach(&km_probe_uvm_mmap);
	detach_all();
	km_probe_detach(&km_probe_open);
	km_probes_drain();
	km_files_clear();
}
