// SPDX-License-Identifier: GPL-2.0-only
/*
 * UVM's address spaces, and the probes of nvidia_uvm. Memory that UVM takes by itself for a process by HMM passes nothing
 * that could be charged: it is closed to containers.
 */
#include "probes/files.h"
#include "probes/task_call.h"

KM_EXTERNAL(va_space, u32(unsigned long, unsigned long, unsigned long));

static struct km_probe va_space_probe_flags = {
	.module = "nvidia_uvm",
	.wants = km_wants_enforced,
	KM_CALLS(va_space),
};

/* HMM would move ordinary memory of the process to the card, and no probe would see it. */
static u32 va_space_run(unsigned long *arguments, u32 flags)
{
	struct km_task_call *task_call = km_task_call_begin();
	u32 status = NV_ERR_NO_MEMORY;
	struct km_identity identity;

	if (task_call) {
		if (km_identity_of_current(&identity))
			arguments[flags] |= UVM_INIT_FLAGS_DISABLE_HMM;
		status = km_call(va_space)(arguments[0], arguments[1], arguments[2]);
		km_task_call_end(task_call);
	}
	km_probe_leave();
	return status;
}

/* uvm_va_space_initialize(), up to 525 */
static u32 va_space_initialize(unsigned long space, unsigned long flags)
{
	unsigned long arguments[3] = { space, flags };

	return va_space_run(arguments, 1);
}

/* uvm_va_space_create(), since 530; before that it has no flags. */
static u32 va_space_create(unsigned long mapping, unsigned long space, unsigned long flags)
{
	unsigned long arguments[3] = { mapping, space, flags };

	return va_space_run(arguments, 2);
}

/* Destruction first: nothing may be charged whose end would not be seen. */
static struct km_probe *const uvm_probes[] = {
	&km_probe_managed_space,
	&km_probe_managed_destroy,
	&km_probe_managed_create,
	&km_probe_uvm_gpu,
	&km_probe_uvm_close,
	&km_probe_uvm_open,
	&km_probe_uvm_ioctl,
	&km_probe_uvm_tools,
	&km_probe_uvm_mmap,
	&va_space_probe_flags,
};

void km_uvm_detach(void)
{
	km_probes_detach(uvm_probes, ARRAY_SIZE(uvm_probes));
}

/* Where an address space gets its flags. */
static void va_space_choose(void)
{
	bool old = km_symbol("nvidia_uvm", "uvm_va_space_initialize") != 0;

	va_space_probe_flags.symbol = old ? "uvm_va_space_initialize" : "uvm_va_space_create";
	va_space_probe_flags.replacement = old ? (void *)va_space_initialize : (void *)va_space_create;
}

int km_uvm_attach(void)
{
	const char *failed;
	int err;

	if (uvm_probes[0]->attached)
		return 0;
	va_space_choose();
	err = km_probes_attach(uvm_probes, ARRAY_SIZE(uvm_probes), &failed);
	if (err)
		pr_err("nvidia_uvm: %s cannot be probed (error %d)\n", failed, err);
	return err;
}
