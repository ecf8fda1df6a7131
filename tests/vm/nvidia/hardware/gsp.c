// SPDX-License-Identifier: GPL-2.0-only
/*
 * A fake GSP for NVIDIA's real driver, loaded before nvidia.ko. A card's own processor runs most of the resource manager;
 * without a card nothing can. Here the driver's messages to it are answered in the function that sends them, and the
 * functions that wait for hardware return at once. All else of the driver runs as it is: clients, objects, memory
 * management, UVM, and its interfaces.
 */
#include <linux/kprobes.h>
#include <linux/module.h>
#include <linux/notifier.h>

#include "gsp.h"
#include "gsp_layouts.h"
#include "nv_abi.h"

struct stub {
	enum gsp_name name;
	u32 result;
	void (*run)(struct pt_regs *regs);
	struct kprobe kprobe;
};

/* The copy engine asks for names, too: it is loaded after the driver, and unloaded before it. */
const struct gsp_layout *gsp_layout;
EXPORT_SYMBOL_GPL(gsp_layout);

static const struct gsp_layout *layout_of(const char *version)
{
	u32 branch, minor, patch = 0, number, i = ARRAY_SIZE(gsp_layouts);

	if (sscanf(version, "%u.%u.%u", &branch, &minor, &patch) < 2)
		return NULL;
	number = branch * 1000000 + minor * 1000 + patch;
	while (i-- && number <= GSP_NEWEST) {
		if (gsp_layouts[i].first <= number)
			return &gsp_layouts[i];
	}
	return NULL;
}

/* NV_STATUS _issueRpcAndWait(OBJGPU *, OBJRPC *) */
static void run_message(struct pt_regs *regs)
{
	gsp_answer((u8 *)regs->si);
}

static struct stub stubs[] = {
	/* No ROM, no firmware that boots, no protected region, no processor to wait for. */
	{ GSP_NAME_kgspExtractVbiosFromRom, NV_ERR_NOT_SUPPORTED },
	{ GSP_NAME_kgspWaitForGfwBootOk },
	{ GSP_NAME_kgspIsWpr2Up },
	{ GSP_NAME_kgspCalculateFbLayout },
	{ GSP_NAME_kgspBootstrapRiscvOSEarly },
	{ GSP_NAME_kgspPrepareForBootstrap },
	{ GSP_NAME_kgspBootstrap },
	{ GSP_NAME_kgspWaitForRmInitDone },
	{ GSP_NAME_kgspHealthCheck },
	{ GSP_NAME_kgspUnloadRm },
	/* Messages. */
	{ GSP_NAME_issueRpcAndWait, .run = run_message },
	{ GSP_NAME_issueRpcAsync },
	{ GSP_NAME_issueRpcLarge },
	{ GSP_NAME_RmRpcSetGuestSystemInfo },
	/* Registers and video memory behind the BARs. */
	{ GSP_NAME_tmrSetCurrentTime },
	{ GSP_NAME_osVerifySystemEnvironment },
	{ GSP_NAME_krcWatchdogInit, NV_ERR_NOT_SUPPORTED },
	{ GSP_NAME_kfifoGetUserdBar1MapInfo, NV_ERR_NOT_SUPPORTED },
	{ GSP_NAME_kbusVerifyBar2 },
	{ GSP_NAME_kmemsysDoCacheOp },
	{ GSP_NAME_kgmmuInvalidateTlb },
};

static int stub_hit(struct kprobe *kprobe, struct pt_regs *regs)
{
	const struct stub *stub = container_of(kprobe, struct stub, kprobe);

	if (stub->run)
		stub->run(regs);
	regs->ax = stub->result;
	regs->ip = *(unsigned long *)regs->sp;
	regs->sp += sizeof(unsigned long);
	return 1;
}
NOKPROBE_SYMBOL(stub_hit);

/* Without one the kernel may turn the probe into a jump, which cannot return for its function. */
static void stub_after(struct kprobe *kprobe, struct pt_regs *regs, unsigned long flags)
{
}
NOKPROBE_SYMBOL(stub_after);

static void stubs_remove(u32 count)
{
	while (count) {
		if (stubs[--count].kprobe.addr)
			unregister_kprobe(&stubs[count].kprobe);
	}
}

static int stubs_place(void)
{
	u32 i;
	int err;

	for (i = 0; i < ARRAY_SIZE(stubs); i++) {
		const char *symbol = gsp_layout->names[stubs[i].name];

		stubs[i].kprobe =
			(struct kprobe){ .symbol_name = symbol, .pre_handler = stub_hit, .post_handler = stub_after };
		if (!symbol)
			continue;
		err = register_kprobe(&stubs[i].kprobe);
		if (err == 0)
			continue;
		stubs[i].kprobe.addr = NULL;
		pr_err("gsp: %s: cannot be probed (error %d)\n", symbol, err);
		stubs_remove(i);
		return err;
	}
	return 0;
}

static bool gsp_in_place;

static int driver_came(const struct module *driver)
{
	int err;

	gsp_layout = layout_of(driver->version ? driver->version : "");
	if (!gsp_layout) {
		pr_err("gsp: nvidia: no layouts of its version\n");
		return -EINVAL;
	}
	err = stubs_place();
	if (err)
		return err;
	err = witness_place();
	if (err)
		stubs_remove(ARRAY_SIZE(stubs));
	gsp_in_place = err == 0;
	return err;
}

static void driver_went(void)
{
	if (!gsp_in_place)
		return;
	gsp_in_place = false;
	witness_remove();
	stubs_remove(ARRAY_SIZE(stubs));
}

static int driver_notified(struct notifier_block *block, unsigned long event, void *data)
{
	const struct module *module = data;

	if (strcmp(module->name, "nvidia"))
		return NOTIFY_DONE;
	if (event == MODULE_STATE_COMING)
		return notifier_from_errno(driver_came(module));
	if (event == MODULE_STATE_GOING)
		driver_went();
	return NOTIFY_DONE;
}

static struct notifier_block driver_notifier = { .notifier_call = driver_notified };

static int __init gsp_init(void)
{
	int err = gsp_orders_init();

	if (err)
		return err;
	err = witness_init();
	if (err)
		goto no_witness;
	err = register_module_notifier(&driver_notifier);
	if (err == 0)
		return 0;
	witness_exit();
no_witness:
	gsp_orders_exit();
	return err;
}

static void __exit gsp_exit(void)
{
	unregister_module_notifier(&driver_notifier);
	driver_went();
	witness_exit();
	gsp_orders_exit();
}

module_init(gsp_init);
module_exit(gsp_exit);
MODULE_DESCRIPTION("A fake GSP for NVIDIA's driver, for tests");
MODULE_LICENSE("GPL");
