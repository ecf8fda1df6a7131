// SPDX-License-Identifier: GPL-2.0
/* The driver's interface for other kernel modules, by which the modeset module asks it too. */
#include <linux/fs.h>
#include <linux/slab.h>

#include "km.h"

/* The driver writes its whole structure; that of an unknown version may be longer than the layout says. */
#define OPS_BYTES 512u
#define INFORMATION_BYTES 4096u

static struct {
	int (*alloc_stack)(void **stack);
	void (*free_stack)(void *stack);
	u32 (*enumerate_gpus)(void *records);
	int (*open_gpu)(u32 gpu_id, void *stack, u8 reset_aware);
	void (*close_gpu)(u32 gpu_id, void *stack, u8 reset_aware);
	void (*op)(void *stack, void *message);
	void *stack;
} rm_ops;
/* The driver wants one thread at a time on a stack. */
static DEFINE_MUTEX(rm_lock);

/* Up to 590 the two take no third argument, and ignore it (nv-modeset-interface.h). */
static __nocfi int rm_open_gpu(u32 gpu_id)
{
	return rm_ops.open_gpu(gpu_id, rm_ops.stack, 0);
}

static __nocfi void rm_close_gpu(u32 gpu_id)
{
	rm_ops.close_gpu(gpu_id, rm_ops.stack, 0);
}

static __nocfi void rm_op(void *message)
{
	rm_ops.op(rm_ops.stack, message);
}

static __nocfi u32 rm_list(u8 *records)
{
	return rm_ops.enumerate_gpus(records);
}

static int rm_parse_minor(const char *text)
{
	const char *at = strstr(text, "Device Minor:");
	unsigned int minor;

	if (!at || sscanf(at, "Device Minor: %u", &minor) != 1 || minor > NV_GPU_MINOR_MAX)
		return -EPROTO;
	return (int)minor;
}

/* The driver tells a card's minor nowhere but in its proc files (kernel-open/nvidia/nv-procfs.c). */
static int rm_minor_at(u32 domain, u32 bus, u32 slot, u32 function)
{
	char path[80], *text = kzalloc(INFORMATION_BYTES, GFP_KERNEL);
	struct file *file;
	loff_t at = 0;
	ssize_t n;
	int minor;

	if (!text)
		return -ENOMEM;
	snprintf(path, sizeof(path), "/proc/driver/nvidia/gpus/%04x:%02x:%02x.%x/information", domain, bus, slot,
		function);
	file = filp_open(path, O_RDONLY, 0);
	if (IS_ERR(file)) {
		kfree(text);
		return PTR_ERR(file);
	}
	n = kernel_read(file, text, INFORMATION_BYTES - 1, &at);
	filp_close(file, NULL);
	minor = n < 0 ? (int)n : rm_parse_minor(text);
	kfree(text);
	return minor;
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

static __nocfi int rm_take_functions(const struct nv_abi *abi, const char *version, u8 *ops)
{
	const struct nv_layout_nvidia_modeset_rm_ops_t *at = &abi->nvidia_modeset_rm_ops_t;
	u32 (*get_rm_ops)(void *ops) = (void *)km_symbol("nvidia", "nvidia_get_rm_ops");

	if (!get_rm_ops || at->bytes > OPS_BYTES)
		return -ENOENT;
	memcpy(ops + at->version_string, &version, sizeof(version));
	if (get_rm_ops(ops) != NV_OK)
		return -EPROTO;
	rm_ops.alloc_stack = rm_function_at(ops, at->alloc_stack);
	rm_ops.free_stack = rm_function_at(ops, at->free_stack);
	rm_ops.enumerate_gpus = rm_function_at(ops, at->enumerate_gpus);
	rm_ops.open_gpu = rm_function_at(ops, at->open_gpu);
	rm_ops.close_gpu = rm_function_at(ops, at->close_gpu);
	rm_ops.op = rm_function_at(ops, at->op);
	return rm_ops.alloc_stack(&rm_ops.stack) ? -ENOMEM : 0;
}

const struct cgpu_km_rm *km_rm_begin(const struct nv_abi *abi, const char *version)
{
	u8 *ops = kzalloc(OPS_BYTES, GFP_KERNEL);
	int err;

	if (!ops)
		return ERR_PTR(-ENOMEM);
	mutex_lock(&rm_lock);
	err = rm_take_functions(abi, version, ops);
	kfree(ops);
	if (err == 0)
		return &rm_interface;
	mutex_unlock(&rm_lock);
	return ERR_PTR(err);
}

__nocfi void km_rm_end(void)
{
	rm_ops.free_stack(rm_ops.stack);
	mutex_unlock(&rm_lock);
}
