// SPDX-License-Identifier: GPL-2.0
/* Calls of nvidia-uvm: bare numbers, and a structure of known size for each, which also takes the status. */
#include <linux/errno.h>
#include <linux/file.h>
#include <linux/fs.h>
#include <linux/mm.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

#include "uvm.h"

struct route {
	u32 cmd;
	size_t bytes_at;
	size_t status_at;
	u32 (*run)(struct uvm_va_space *space, u8 *params);
};

#define ROUTE(cmd, params, run)                                                                           \
	{                                                                                                 \
		cmd, offsetof(struct nv_abi, params.bytes), offsetof(struct nv_abi, params.rmStatus), run \
	}

static u32 pageable_mem_access(struct uvm_va_space *space, u8 *params)
{
	params[fake_abi()->UVM_PAGEABLE_MEM_ACCESS_PARAMS.pageableMemAccess] = uvm_hmm_is_enabled(space);
	return NV_OK;
}

/* No card here can give its memory to other devices. */
static u32 alloc_device_p2p(struct uvm_va_space *space, u8 *params)
{
	return NV_ERR_NOT_SUPPORTED;
}

/* The first two need no address space, and have functions of another kind. */
static const struct route routes[] = {
	ROUTE(UVM_INITIALIZE, UVM_INITIALIZE_PARAMS, NULL),
	ROUTE(UVM_MM_INITIALIZE, UVM_MM_INITIALIZE_PARAMS, NULL),
	ROUTE(UVM_REGISTER_GPU, UVM_REGISTER_GPU_PARAMS, uvm_api_register_gpu),
	ROUTE(UVM_PAGEABLE_MEM_ACCESS, UVM_PAGEABLE_MEM_ACCESS_PARAMS, pageable_mem_access),
	ROUTE(UVM_UNREGISTER_GPU, UVM_UNREGISTER_GPU_PARAMS, uvm_api_unregister_gpu),
	ROUTE(UVM_REGISTER_GPU_VASPACE, UVM_REGISTER_GPU_VASPACE_PARAMS, uvm_api_register_gpu_va_space),
	ROUTE(UVM_UNREGISTER_GPU_VASPACE, UVM_UNREGISTER_GPU_VASPACE_PARAMS, uvm_api_unregister_gpu_va_space),
	ROUTE(UVM_CREATE_EXTERNAL_RANGE, UVM_CREATE_EXTERNAL_RANGE_PARAMS, uvm_api_create_external_range),
	ROUTE(UVM_MAP_EXTERNAL_ALLOCATION, UVM_MAP_EXTERNAL_ALLOCATION_PARAMS, uvm_api_map_external_allocation),
	ROUTE(UVM_UNMAP_EXTERNAL, UVM_UNMAP_EXTERNAL_PARAMS, uvm_api_unmap_external),
	ROUTE(UVM_FREE, UVM_FREE_PARAMS, uvm_api_free),
	ROUTE(UVM_ALLOC_SEMAPHORE_POOL, UVM_ALLOC_SEMAPHORE_POOL_PARAMS, uvm_api_alloc_semaphore_pool),
	ROUTE(UVM_ALLOC_DEVICE_P2P, UVM_ALLOC_DEVICE_P2P_PARAMS, alloc_device_p2p),
	ROUTE(UVM_VALIDATE_VA_RANGE, UVM_VALIDATE_VA_RANGE_PARAMS, uvm_api_validate_va_range),
};

static u16 abi_word(size_t at)
{
	return *(const u16 *)((const u8 *)fake_abi() + at);
}

static u32 make_space(struct uvm_file *file, struct file *filp, u64 flags)
{
	u32 status;

	if (uvm_creates_at_once()) {
		status = uvm_va_space_create(filp->f_mapping, &file->space, flags);
	} else {
		file->space = uvm_va_space_open();
		status = file->space ? uvm_va_space_initialize(file->space, flags) : NV_ERR_NO_MEMORY;
		if (status != NV_OK)
			kfree(file->space);
	}
	if (status == NV_OK)
		smp_store_release(&file->type, UVM_FD_VA_SPACE);
	return status;
}

static u32 initialize(struct uvm_file *file, struct file *filp, const u8 *params)
{
	u64 flags = get64(params, fake_abi()->UVM_INITIALIZE_PARAMS.flags);
	u32 status;

	/* uvm_va_space_create(), UVM_INIT_FLAGS_MASK */
	if (flags & ~(u64)(UVM_INIT_FLAGS_DISABLE_HMM | UVM_INIT_FLAGS_MULTI_PROCESS_SHARING_MODE))
		return NV_ERR_INVALID_ARGUMENT;
	mutex_lock(&file->lock);
	if (file->type == UVM_FD_MM)
		status = NV_ERR_INVALID_ARGUMENT;
	else if (file->type != UVM_FD_VA_SPACE)
		status = make_space(file, filp, flags);
	else if (uvm_creates_at_once())
		status = flags == file->space->flags ? NV_OK : NV_ERR_INVALID_ARGUMENT;
	else
		status = uvm_va_space_initialize(file->space, flags);
	mutex_unlock(&file->lock);
	return status;
}

/* A second file that belongs to the address space of the first; here only its reference counts. */
static u32 take_target(struct uvm_file *file, struct file *target)
{
	struct uvm_file *other = uvm_file_of(target);
	u32 status = NV_OK;

	if (!other || smp_load_acquire(&other->type) != UVM_FD_VA_SPACE)
		return NV_ERR_INVALID_ARGUMENT;
	if (!other->space->mm)
		return NV_WARN_NOTHING_TO_DO;
	mutex_lock(&file->lock);
	mutex_lock(&other->space->lock);
	if (file->type != UVM_FD_UNINITIALIZED) {
		status = NV_ERR_IN_USE;
	} else if (other->space->mm_file) {
		status = NV_ERR_INVALID_STATE;
	} else {
		other->space->mm_file = true;
		file->target = target;
		file->type = UVM_FD_MM;
	}
	mutex_unlock(&other->space->lock);
	mutex_unlock(&file->lock);
	return status;
}

static u32 mm_initialize(struct uvm_file *file, const u8 *params)
{
	struct file *target = fget((int)get32(params, fake_abi()->UVM_MM_INITIALIZE_PARAMS.uvmFd));
	u32 status;

	if (!target)
		return NV_ERR_INVALID_ARGUMENT;
	status = take_target(file, target);
	if (status != NV_OK)
		fput(target);
	return status;
}

static u32 run(const struct route *route, struct file *filp, u8 *params)
{
	struct uvm_file *file = filp->private_data;
	u32 status;

	if (route->cmd == UVM_INITIALIZE)
		return initialize(file, filp, params);
	if (route->cmd == UVM_MM_INITIALIZE)
		return mm_initialize(file, params);
	if (smp_load_acquire(&file->type) != UVM_FD_VA_SPACE)
		return NV_ERR_ILLEGAL_ACTION;
	mutex_lock(&file->space->lock);
	status = route->run(file->space, params);
	mutex_unlock(&file->space->lock);
	return status;
}

static long run_copy(const struct route *route, struct file *filp, unsigned long arg)
{
	size_t bytes = abi_word(route->bytes_at);
	void __user *address = (void __user *)arg;
	long result = 0;
	u8 *params;

	/* A call that this version of the driver does not have yet. */
	if (bytes == 0)
		return -EINVAL;
	params = kmalloc(bytes, GFP_KERNEL);
	if (!params)
		return -ENOMEM;
	if (copy_from_user(params, address, bytes)) {
		result = -EFAULT;
	} else {
		put32(params, abi_word(route->status_at), run(route, filp, params));
		if (copy_to_user(address, params, bytes))
			result = -EFAULT;
	}
	kfree(params);
	return result;
}

noinline long uvm_ioctl(struct file *file, unsigned int cmd, unsigned long arg)
{
	size_t i;

	if (cmd == UVM_DEINITIALIZE)
		return 0;
	for (i = 0; i < ARRAY_SIZE(routes); i++) {
		if (routes[i].cmd == cmd)
			return run_copy(&routes[i], file, arg);
	}
	return -EINVAL;
}
