// SPDX-License-Identifier: GPL-2.0-only
/* Calls the driver through its interface for other kernel modules, nvidia_get_rm_ops(), as nvidia-modeset does. */
#include <linux/slab.h>

#include "driver/driver.h"
#include "probes/probe.h"

/* The driver writes a whole nvidia_modeset_rm_ops_t, which in an unknown version may be longer than the layout says. */
#define OPS_BYTES 512u

/* One user of the interface. Each has a stack of its own, as the driver allows one thread at a time on a stack. */
struct rm_session {
	struct cgpu_km_rm rm;
	struct module *driver;
	void *stack;
};

KM_EXTERNAL(rm_get_ops, u32(void *ops));
KM_EXTERNAL(rm_alloc_stack, int(void **stack));
KM_EXTERNAL(rm_free_stack, void(void *stack));
KM_EXTERNAL(rm_enumerate_gpus, u32(void *records));
KM_EXTERNAL(rm_open_gpu, int(u32 gpu_id, void *stack, u8 reset_aware));
KM_EXTERNAL(rm_close_gpu, void(u32 gpu_id, void *stack, u8 reset_aware));
KM_EXTERNAL(rm_op, void(void *stack, void *message));
KM_EXTERNAL(rm_adapter_state, void *(u32 domain, u8 bus, u8 slot));
KM_EXTERNAL(rm_dev_minor, u32(void *state));

/* Whether they have the addresses of the loaded driver. They get them once, as a lookup takes milliseconds. */
static bool rm_found;

void km_rm_forget(void)
{
	WRITE_ONCE(rm_found, false);
}

static const struct rm_session *session_of(const struct cgpu_km_rm *rm)
{
	return container_of(rm, struct rm_session, rm);
}

/* Up to driver 590, open_gpu and close_gpu have no third parameter and ignore the argument (nv-modeset-interface.h). */
static int rm_open_gpu(const struct cgpu_km_rm *rm, u32 gpu_id)
{
	return km_call(rm_open_gpu)(gpu_id, session_of(rm)->stack, 0);
}

static void rm_close_gpu(const struct cgpu_km_rm *rm, u32 gpu_id)
{
	km_call(rm_close_gpu)(gpu_id, session_of(rm)->stack, 0);
}

static void rm_op(const struct cgpu_km_rm *rm, void *message)
{
	km_call(rm_op)(session_of(rm)->stack, message);
}

static u32 rm_list(const struct cgpu_km_rm *rm, u8 *records)
{
	return km_call(rm_enumerate_gpus)(records);
}

/*
 * Looks up the minor by the functions through which RM asks the kernel-open part of the driver for devices (nv.h; the
 * same in all public versions, 515.43.04 to 595.45.04). The card must be open, so that the driver does not free the
 * card's state meanwhile. The PCI function is left out: no two functions of a slot are two cards.
 */
static int rm_minor_at(u32 domain, u32 bus, u32 slot)
{
	unsigned long adapter_state = km_symbol("nvidia", "nv_get_adapter_state");
	unsigned long dev_minor = km_symbol("nvidia", "nv_get_dev_minor");
	void *state;
	u32 minor;

	if (!adapter_state || !dev_minor)
		return -ENOENT;
	km_set_external(rm_adapter_state, adapter_state);
	km_set_external(rm_dev_minor, dev_minor);
	state = km_call(rm_adapter_state)(domain, (u8)bus, (u8)slot);
	if (!state)
		return -ENODEV;
	minor = km_call(rm_dev_minor)(state);
	return minor > NV_GPU_MINOR_MAX ? -EPROTO : (int)minor;
}

static const struct cgpu_km_rm rm_interface = {
	.open = rm_open_gpu,
	.close = rm_close_gpu,
	.op = rm_op,
	.list = rm_list,
	.minor_at = rm_minor_at,
};

static void *rm_function_at(const u8 *ops, u32 offset)
{
	void *function;

	memcpy(&function, ops + offset, sizeof(function));
	return function;
}

/* Set the functions' addresses. ops: a zeroed table for the driver to fill. */
static int rm_set_functions(const struct nv_abi *abi, const char *version, u8 *ops)
{
	const struct nv_layout_nvidia_modeset_rm_ops_t *at = &abi->nvidia_modeset_rm_ops_t;
	unsigned long get_ops = km_symbol("nvidia", "nvidia_get_rm_ops");

	if (!get_ops || at->bytes > OPS_BYTES)
		return -ENOENT;
	km_set_external(rm_get_ops, get_ops);
	memcpy(ops + at->version_string, &version, sizeof(version));
	if (km_call(rm_get_ops)(ops) != NV_OK)
		return -EPROTO;
	km_set_external(rm_alloc_stack, rm_function_at(ops, at->alloc_stack));
	km_set_external(rm_free_stack, rm_function_at(ops, at->free_stack));
	km_set_external(rm_enumerate_gpus, rm_function_at(ops, at->enumerate_gpus));
	km_set_external(rm_open_gpu, rm_function_at(ops, at->open_gpu));
	km_set_external(rm_close_gpu, rm_function_at(ops, at->close_gpu));
	km_set_external(rm_op, rm_function_at(ops, at->op));
	WRITE_ONCE(rm_found, true);
	return 0;
}

static int rm_start(struct rm_session *session, const struct nv_abi *abi, const char *version)
{
	u8 *ops;
	int err;

	session->rm = rm_interface;
	if (!READ_ONCE(rm_found)) {
		ops = kzalloc(OPS_BYTES, GFP_KERNEL);
		err = ops ? rm_set_functions(abi, version, ops) : -ENOMEM;
		kfree(ops);
		if (err)
			return err;
	}
	return km_call(rm_alloc_stack)(&session->stack) ? -ENOMEM : 0;
}

const struct cgpu_km_rm *km_rm_begin(const struct km_engine *engine)
{
	char version[CGPU_KM_VERSION_BYTES];
	struct rm_session *session;
	struct module *driver = km_driver_hold(version);
	const struct nv_abi *abi;
	int err = -ENOMEM;

	if (!driver)
		return ERR_PTR(-ENODEV);
	/* Read only now: while the driver is held, the layouts are those of this driver. */
	abi = READ_ONCE(engine->core.abi);
	session = kzalloc(sizeof(*session), GFP_KERNEL);
	if (session && abi)
		err = rm_start(session, abi, version);
	if (session && err == 0) {
		session->driver = driver;
		return &session->rm;
	}
	kfree(session);
	module_put(driver);
	return ERR_PTR(abi ? err : -ENODEV);
}

void km_rm_end(const struct cgpu_km_rm *rm)
{
	struct rm_session *session = container_of(rm, struct rm_session, rm);
	struct module *driver = session->driver;

	km_call(rm_free_stack)(session->stack);
	kfree(session);
	module_put(driver);
}
