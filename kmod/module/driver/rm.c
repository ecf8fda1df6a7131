// SPDX-License-Identifier: GPL-2.0
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
	int (*alloc_stack)(void **stack);
	void (*free_stack)(void *stack);
	u32 (*enumerate_gpus)(void *records);
	int (*open_gpu)(u32 gpu_id, void *stack, u8 reset_aware);
	void (*close_gpu)(u32 gpu_id, void *stack, u8 reset_aware);
	void (*op)(void *stack, void *message);
	void *stack;
};

/* The address of nvidia_get_rm_ops(). Looked up once for each load of the driver, as a lookup takes milliseconds. */
static unsigned long rm_get_ops;

void km_rm_forget(void)
{
	WRITE_ONCE(rm_get_ops, 0);
}

static const struct rm_session *session_of(const struct cgpu_km_rm *rm)
{
	return container_of(rm, struct rm_session, rm);
}

/* Up to driver 590, open_gpu and close_gpu have no third parameter and ignore the argument (nv-modeset-interface.h). */
static __nocfi int rm_open_gpu(const struct cgpu_km_rm *rm, u32 gpu_id)
{
	return session_of(rm)->open_gpu(gpu_id, session_of(rm)->stack, 0);
}

static __nocfi void rm_close_gpu(const struct cgpu_km_rm *rm, u32 gpu_id)
{
	session_of(rm)->close_gpu(gpu_id, session_of(rm)->stack, 0);
}

static __nocfi void rm_op(const struct cgpu_km_rm *rm, void *message)
{
	session_of(rm)->op(session_of(rm)->stack, message);
}

static __nocfi u32 rm_list(const struct cgpu_km_rm *rm, u8 *records)
{
	return session_of(rm)->enumerate_gpus(records);
}

/*
 * Looks up the minor by the functions through which RM asks the kernel-open part of the driver for devices (nv.h; the
 * same in all public versions, 515.43.04 to 595.45.04). The card must be open, so that the driver does not free the
 * card's state meanwhile. The PCI function is left out: no two functions of a slot are two cards.
 */
static __nocfi int rm_minor_at(u32 domain, u32 bus, u32 slot)
{
	void *(*get_state)(u32 domain, u8 bus, u8 slot) = (void *)km_symbol("nvidia", "nv_get_adapter_state");
	u32 (*get_minor)(void *state) = (void *)km_symbol("nvidia", "nv_get_dev_minor");
	void *state;
	u32 minor;

	if (!get_state || !get_minor)
		return -ENOENT;
	state = get_state(domain, (u8)bus, (u8)slot);
	if (!state)
		return -ENODEV;
	minor = get_minor(state);
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

static __nocfi int rm_get_functions(struct rm_session *session, const struct nv_abi *abi, const char *version, u8 *ops)
{
	const struct nv_layout_nvidia_modeset_rm_ops_t *at = &abi->nvidia_modeset_rm_ops_t;
	u32 (*get_rm_ops)(void *ops) = (void *)READ_ONCE(rm_get_ops);

	if (!get_rm_ops) {
		get_rm_ops = (void *)km_symbol("nvidia", "nvidia_get_rm_ops");
		WRITE_ONCE(rm_get_ops, (unsigned long)get_rm_ops);
	}
	if (!get_rm_ops || at->bytes > OPS_BYTES)
		return -ENOENT;
	memcpy(ops + at->version_string, &version, sizeof(version));
	if (get_rm_ops(ops) != NV_OK)
		return -EPROTO;
	session->alloc_stack = rm_function_at(ops, at->alloc_stack);
	session->free_stack = rm_function_at(ops, at->free_stack);
	session->enumerate_gpus = rm_function_at(ops, at->enumerate_gpus);
	session->open_gpu = rm_function_at(ops, at->open_gpu);
	session->close_gpu = rm_function_at(ops, at->close_gpu);
	session->op = rm_function_at(ops, at->op);
	return session->alloc_stack(&session->stack) ? -ENOMEM : 0;
}

static int rm_start(struct rm_session *session, const struct nv_abi *abi, const char *version)
{
	u8 *ops = kzalloc(OPS_BYTES, GFP_KERNEL);
	int err;

	if (!ops)
		return -ENOMEM;
	session->rm = rm_interface;
	err = rm_get_functions(session, abi, version, ops);
	kfree(ops);
	return err;
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

__nocfi void km_rm_end(const struct cgpu_km_rm *rm)
{
	struct rm_session *session = container_of(rm, struct rm_session, rm);
	struct module *driver = session->driver;

	session->free_stack(session->stack);
	kfree(session);
	module_put(driver);
}
