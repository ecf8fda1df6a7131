// SPDX-License-Identifier: GPL-2.0
/* The driver's interface for other kernel modules, by which the modeset module asks it too. */
#include <linux/fs.h>
#include <linux/slab.h>

#include "km.h"

#define OPS_BYTES 128u
#define INFORMATION_BYTES 4096u

static struct {
	int (*alloc_stack)(void **stack);
	void (*free_stack)(void *stack);
	u32 (*enumerate_gpus)(void *records);
	int (*open_gpu)(u32 gpu_id, void *stack, u8 reset_aware);
	void (*close_gpu)(u32 gpu_id, void *stack, u8 reset_aware);
	void (*op)(void *stack, void *message);
	void *stack;
} driver;
/* The driver wants one thread at a time on a stack. */
static DEFINE_MUTEX(rm_lock);

/* Up to 590 the two take no third argument, and ignore it (nv-modeset-interface.h). */
static int open_gpu(u32 gpu_id)
{
	return driver.open_gpu(gpu_id, driver.stack, 0);
}

static void close_gpu(u32 gpu_id)
{
	driver.close_gpu(gpu_id, driver.stack, 0);
}

static void op(void *message)
{
	driver.op(driver.stack, message);
}

static u32 list(u8 *records)
{
	return driver.enumerate_gpus(records);
}

static int parse_minor(const char *text)
{
	const char *at = strstr(text, "Device Minor:");
	unsigned int minor;

	if (!at || sscanf(at, "Device Minor: %u", &minor) != 1 || minor > NV_GPU_MINOR_MAX)
		return -EPROTO;
	return (int)minor;
}

/* The driver tells a card's minor nowhere but in its proc files (kernel-open/nvidia/nv-procfs.c). */
static int minor_at(u32 domain, u32 bus, u32 slot, u32 function)
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
	minor = n < 0 ? (int)n : parse_minor(text);
	kfree(text);
	return minor;
}

static const struct cgpu_km_rm rm = {
	.open = open_gpu,
	.close = close_gpu,
	.op = op,
	.list = list,
	.minor_at = minor_at,
};

static void *function_at(const u8 *ops, u32 offset)
{
	void *function;

	memcpy(&function, ops + offset, sizeof(function));
	return function;
}

static int take_functions(const struct nv_abi *abi, const char *version)
{
	const struct nv_layout_nvidia_modeset_rm_ops_t *at = &abi->nvidia_modeset_rm_ops_t;
	u32 (*get_rm_ops)(void *ops) = (void *)km_symbol("nvidia", "nvidia_get_rm_ops");
	u8 ops[OPS_BYTES] = { 0 };

	if (!get_rm_ops || at->bytes > sizeof(ops))
		return -ENOENT;
	memcpy(ops + at->version_string, &version, sizeof(version));
	if (get_rm_ops(ops) != NV_OK)
		return -EPROTO;
	driver.alloc_stack = function_at(ops, at->alloc_stack);
	driver.free_stack = function_at(ops, at->free_stack);
	driver.enumerate_gpus = function_at(ops, at->enumerate_gpus);
	driver.open_gpu = function_at(ops, at->open_gpu);
	driver.close_gpu = function_at(ops, at->close_gpu);
	driver.op = function_at(ops, at->op);
	return driver.alloc_stack(&driver.stack) ? -ENOMEM : 0;
}

const struct cgpu_km_rm *km_rm_begin(const struct nv_abi *abi, const char *version)
{
	int err;

	mutex_lock(&rm_lock);
	err = take_functions(abi, version);
	if (err == 0)
		return &rm;
	mutex_unlock(&rm_lock);
	return ERR_PTR(err);
}

void km_rm_end(void)
{
	driver.free_stack(driver.stack);
	mutex_unlock(&rm_lock);
}
