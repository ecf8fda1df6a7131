// SPDX-License-Identifier: GPL-2.0
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
#include "nv_abi.h"

struct stub {
	const char *symbol;
	u32 result;
	bool (*run)(struct pt_regs *regs); /* whether the call is over with that */
	bool optional; /* the name that it has in some versions only */
	struct kprobe kprobe;
};

static u32 gsp_layout;

/* NV_STATUS _issueRpcAndWait(OBJGPU *, OBJRPC *) */
static bool run_message(struct pt_regs *regs)
{
	gsp_answer(gsp_layout, gsp_message_of(gsp_layout, (u8 *)regs->si));
	return true;
}

static struct stub stubs[] = {
	/* No ROM, no firmware that boots, no protected region, no processor to wait for. */
	{ "kgspExtractVbiosFromRom_TU102", NV_ERR_NOT_SUPPORTED },
	{ "kgspWaitForGfwBootOk_TU102" },
	{ "kgspIsWpr2Up_TU102" },
	{ "kgspCalculateFbLayout_TU102" },
	{ "kgspBootstrapRiscvOSEarly_TU102", .optional = true },
	{ "kgspPrepareForBootstrap_TU102", .optional = true },
	{ "kgspBootstrap_TU102", .optional = true },
	{ "kgspWaitForRmInitDone_IMPL" },
	{ "kgspHealthCheck_TU102" },
	{ "kgspUnloadRm_IMPL" },
	/* Messages. */
	{ "_issueRpcAndWait", .run = run_message },
	{ "_issueRpcAsync" },
	{ "_issueRpcLarge" },
	{ "RmRpcSetGuestSystemInfo" },
	/* Registers and video memory behind the BARs. */
	{ "tmrSetCurrentTime_GV100" },
	{ "osVerifySystemEnvironment" },
	{ "krcWatchdogInit_IMPL", NV_ERR_NOT_SUPPORTED },
	{ "kfifoGetUserdBar1MapInfo_GM107", NV_ERR_NOT_SUPPORTED },
	{ "kbusVerifyBar2_GM107" },
	{ "kmemsysDoCacheOp_GM107" },
	{ "kgmmuInvalidateTlb_GM107" },
};

static int stub_hit(struct kprobe *kprobe, struct pt_regs *regs)
{
	const struct stub *stub = container_of(kprobe, struct stub, kprobe);

	if (stub->run && !stub->run(regs))
		return 0;
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
		stubs[i].kprobe = (struct kprobe){
			.symbol_name = stubs[i].symbol, .pre_handler = stub_hit, .post_handler = stub_after
		};
		err = register_kprobe(&stubs[i].kprobe);
		if (err == 0)
			continue;
		stubs[i].kprobe.addr = NULL;
		if (err == -ENOENT && stubs[i].optional)
			continue;
		pr_err("gsp: %s: cannot be probed (error %d)\n", stubs[i].symbol, err);
		stubs_remove(i);
		return err;
	}
	return 0;
}

static bool gsp_in_place;

static int driver_came(const struct module *driver)
{
	int layout = gsp_layout_of(driver->version ? driver->version : ""), err;

	if (layout < 0) {
		pr_err("gsp: nvidia: no layouts of its version\n");
		return -EINVAL;
	}
	gsp_layout = (u32)layout;
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
