// SPDX-License-Identifier: GPL-2.0-only
/*
 * A stub of nvidia-uvm.ko: its node, and the functions that the engine probes. The stub registers cards, says whether
 * HMM is on, and maps managed memory that takes nothing of a card and that no program can touch. The tests of all else
 * that UVM does run on NVIDIA's own driver.
 */
#include <linux/cdev.h>
#include <linux/errno.h>
#include <linux/fs.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/rbtree.h>
#include <linux/slab.h>
#include <linux/uaccess.h>
#include <linux/version.h>

#include "fields.h"
#include "nv_uvm_interface.h"

#define UVM_NAME "nvidia-uvm"
#define UVM_MINORS 2u
#define UVM_MAX_CARDS 32u
#define PARAMS_MAX 64u

/* The compiler learns nothing of such a function for its callers: the engine may run in its place. */
#define probed noinline __attribute__((__noipa__))

/* file->private_data, once the file is initialized. */
struct uvm_va_space {
	u64 flags;
	NvProcessorUuid cards[UVM_MAX_CARDS];
	unsigned int count;
};

/* Begins as the driver's: uvm_va_range.h, uvm_range_tree.h. */
struct uvm_va_range {
	struct uvm_va_space *va_space;
	struct {
		u64 start;
		u64 end; /* the last byte */
		struct rb_node rb_node;
	} node;
};

struct uvm_vma_wrapper {
	const struct vm_area_struct *vma;
};

extern const char nvidia_version[];

static dev_t base_dev;
static struct cdev uvm_cdev, uvm_tools_cdev;
/* One lock for all address spaces; the driver has one for each. */
static DEFINE_MUTEX(uvm_lock);

/* Up to 525 (uvm_va_space.c). */
static probed u32 uvm_va_space_initialize(struct uvm_va_space *va_space, u64 flags)
{
	va_space->flags = flags;
	return NV_OK;
}

/* Since 530. */
static probed u32 uvm_va_space_create(struct address_space *mapping, struct uvm_va_space **va_space_ptr, u64 flags)
{
	*va_space_ptr = kzalloc(sizeof(**va_space_ptr), GFP_KERNEL);
	if (!*va_space_ptr)
		return NV_ERR_NO_MEMORY;
	(*va_space_ptr)->flags = flags;
	return NV_OK;
}

/* Every mapping holds the file open, so no range is left. */
static probed void uvm_va_space_destroy(struct uvm_va_space *space)
{
	while (space->count > 0)
		nvUvmInterfaceUnregisterGpu(&space->cards[--space->count]);
	kfree(space);
}

static probed u32 uvm_gpu_retain_by_uuid(
	const NvProcessorUuid *gpu_uuid, const void *user_rm_device, void **parent_gpu_out)
{
	return nvUvmInterfaceRegisterGpu(gpu_uuid, NULL);
}

static probed u32 uvm_va_range_create_mmap(struct uvm_va_space *va_space, struct mm_struct *mm,
	struct uvm_vma_wrapper *vma_wrapper, struct uvm_va_range **out_va_range)
{
	struct uvm_va_range *range = kzalloc(sizeof(*range), GFP_KERNEL);

	if (!range)
		return NV_ERR_NO_MEMORY;
	range->va_space = va_space;
	range->node.start = vma_wrapper->vma->vm_start;
	range->node.end = vma_wrapper->vma->vm_end - 1;
	*out_va_range = range;
	return NV_OK;
}

static probed void uvm_va_range_destroy(struct uvm_va_range *range, struct list_head *deferred_free_list)
{
	kfree(range);
}

/* The copy of a mapping, for mremap() or a child, has no range. */
static void uvm_vm_open_managed_entry(struct vm_area_struct *vma)
{
	vma->vm_private_data = NULL;
}

static void uvm_vm_close_managed_entry(struct vm_area_struct *vma)
{
	if (!vma->vm_private_data)
		return;
	mutex_lock(&uvm_lock);
	uvm_va_range_destroy(vma->vm_private_data, NULL);
	mutex_unlock(&uvm_lock);
}

/* The driver splits the range. */
static int refuse_split(struct vm_area_struct *vma, unsigned long address)
{
	return -EINVAL;
}

static const struct vm_operations_struct uvm_vm_ops_managed = {
	.open = uvm_vm_open_managed_entry,
	.close = uvm_vm_close_managed_entry,
	.may_split = refuse_split,
};

static void set_flags(struct vm_area_struct *vma)
{
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 3, 0)
	vm_flags_set(vma, VM_DONTEXPAND | VM_DONTCOPY);
#else
	vma->vm_flags |= VM_DONTEXPAND | VM_DONTCOPY;
#endif
}

static probed int uvm_mmap_entry(struct file *filp, struct vm_area_struct *vma)
{
	struct uvm_va_space *space = smp_load_acquire(&filp->private_data);
	struct uvm_vma_wrapper wrapper = { .vma = vma };
	struct uvm_va_range *range = NULL;
	u32 status;

	if (!space)
		return -EBADFD;
	if (vma->vm_start != vma->vm_pgoff << PAGE_SHIFT || !(vma->vm_flags & VM_SHARED))
		return -EINVAL;
	mutex_lock(&uvm_lock);
	status = uvm_va_range_create_mmap(space, current->mm, &wrapper, &range);
	mutex_unlock(&uvm_lock);
	if (status != NV_OK)
		return status == NV_ERR_NO_MEMORY ? -ENOMEM : -EPERM;
	set_flags(vma);
	vma->vm_ops = &uvm_vm_ops_managed;
	vma->vm_private_data = range;
	return 0;
}

static u32 make_space(struct file *filp, u64 flags)
{
	struct uvm_va_space *space = NULL;
	unsigned int major = 0;
	u32 status;

	sscanf(nvidia_version, "%u", &major);
	if (major >= 530) {
		status = uvm_va_space_create(filp->f_mapping, &space, flags);
	} else {
		space = kzalloc(sizeof(*space), GFP_KERNEL);
		status = space ? uvm_va_space_initialize(space, flags) : NV_ERR_NO_MEMORY;
	}
	if (status == NV_OK)
		smp_store_release(&filp->private_data, space);
	else
		kfree(space);
	return status;
}

static u32 initialize(struct file *filp, u64 flags)
{
	const struct uvm_va_space *space = filp->private_data;

	if (!space)
		return make_space(filp, flags);
	return flags == space->flags ? NV_OK : NV_ERR_INVALID_ARGUMENT;
}

static u32 register_gpu(struct uvm_va_space *space, const u8 *uuid)
{
	u32 status;

	if (space->count == UVM_MAX_CARDS)
		return NV_ERR_INVALID_DEVICE;
	memcpy(&space->cards[space->count], uuid, sizeof(space->cards[0]));
	status = uvm_gpu_retain_by_uuid(&space->cards[space->count], NULL, NULL);
	space->count += status == NV_OK;
	return status;
}

static u32 run(struct file *filp, unsigned int cmd, u8 *params)
{
	const struct nv_abi *abi = fake_abi();
	struct uvm_va_space *space = filp->private_data;

	if (cmd == UVM_INITIALIZE)
		return initialize(filp, get64(params, abi->UVM_INITIALIZE_PARAMS.flags));
	if (cmd == UVM_MM_INITIALIZE)
		return NV_OK;
	if (!space)
		return NV_ERR_ILLEGAL_ACTION;
	if (cmd == UVM_REGISTER_GPU)
		return register_gpu(space, params + abi->UVM_REGISTER_GPU_PARAMS.gpu_uuid);
	params[abi->UVM_PAGEABLE_MEM_ACCESS_PARAMS.pageableMemAccess] = !(space->flags & UVM_INIT_FLAGS_DISABLE_HMM);
	return NV_OK;
}

/* A structure of known size for each call, which also takes the status. */
static long run_copy(struct file *filp, unsigned int cmd, void __user *address, u16 bytes, u16 status_at)
{
	u8 params[PARAMS_MAX] = { 0 };
	u32 status;

	/* A call that this version of the driver does not have yet has no size. */
	if (bytes == 0 || WARN_ON(bytes > sizeof(params)))
		return -EINVAL;
	if (copy_from_user(params, address, bytes))
		return -EFAULT;
	mutex_lock(&uvm_lock);
	status = run(filp, cmd, params);
	mutex_unlock(&uvm_lock);
	put32(params, status_at, status);
	return copy_to_user(address, params, bytes) ? -EFAULT : 0;
}

#define RUN(call) \
	run_copy(filp, cmd, (void __user *)arg, fake_abi()->call##_PARAMS.bytes, fake_abi()->call##_PARAMS.rmStatus)

static probed long uvm_unlocked_ioctl_entry(struct file *filp, unsigned int cmd, unsigned long arg)
{
	switch (cmd) {
	case UVM_INITIALIZE:
		return RUN(UVM_INITIALIZE);
	case UVM_MM_INITIALIZE:
		return RUN(UVM_MM_INITIALIZE);
	case UVM_REGISTER_GPU:
		return RUN(UVM_REGISTER_GPU);
	case UVM_PAGEABLE_MEM_ACCESS:
		return RUN(UVM_PAGEABLE_MEM_ACCESS);
	default:
		return -EINVAL;
	}
}

/* The tools need address spaces that do more. */
static probed long uvm_tools_unlocked_ioctl_entry(struct file *filp, unsigned int cmd, unsigned long arg)
{
	return -EINVAL;
}

static probed int uvm_open_entry(struct inode *inode, struct file *filp)
{
	filp->private_data = NULL;
	return 0;
}

static probed int uvm_release_entry(struct inode *inode, struct file *filp)
{
	if (filp->private_data)
		uvm_va_space_destroy(filp->private_data);
	return 0;
}

static const struct file_operations uvm_fops = {
	.owner = THIS_MODULE,
	.open = uvm_open_entry,
	.release = uvm_release_entry,
	.mmap = uvm_mmap_entry,
	.unlocked_ioctl = uvm_unlocked_ioctl_entry,
	.compat_ioctl = uvm_unlocked_ioctl_entry,
};

static const struct file_operations uvm_tools_fops = {
	.owner = THIS_MODULE,
	.unlocked_ioctl = uvm_tools_unlocked_ioctl_entry,
	.compat_ioctl = uvm_tools_unlocked_ioctl_entry,
};

static int add_node(struct cdev *cdev, const struct file_operations *fops, unsigned int minor)
{
	cdev_init(cdev, fops);
	cdev->owner = THIS_MODULE;
	return cdev_add(cdev, base_dev + minor, 1);
}

static int __init uvm_init_entry(void)
{
	int result = alloc_chrdev_region(&base_dev, 0, UVM_MINORS, UVM_NAME);

	if (result != 0)
		return result;
	result = add_node(&uvm_cdev, &uvm_fops, 0);
	if (result != 0)
		goto region;
	result = add_node(&uvm_tools_cdev, &uvm_tools_fops, 1);
	if (result == 0)
		return 0;
	cdev_del(&uvm_cdev);
region:
	unregister_chrdev_region(base_dev, UVM_MINORS);
	return result;
}

static void __exit uvm_exit_entry(void)
{
	cdev_del(&uvm_tools_cdev);
	cdev_del(&uvm_cdev);
	unregister_chrdev_region(base_dev, UVM_MINORS);
}

module_init(uvm_init_entry);
module_exit(uvm_exit_entry);
