// SPDX-License-Identifier: GPL-2.0
/* Nodes, open files and address spaces (kernel-open/nvidia-uvm/uvm.c). */
#include <linux/cdev.h>
#include <linux/file.h>
#include <linux/fs.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/sched/mm.h>
#include <linux/slab.h>

#include "uvm.h"

#define UVM_NAME "nvidia-uvm"
#define UVM_MINORS 2u

static dev_t base_dev;
static struct cdev uvm_cdev;

extern const char nvidia_version[];

static bool uvm_disable_hmm;
module_param(uvm_disable_hmm, bool, 0444);
MODULE_PARM_DESC(uvm_disable_hmm, "no HMM: processes' ordinary memory stays off the cards");

bool uvm_creates_at_once(void)
{
	unsigned int major = 0;

	return sscanf(nvidia_version, "%u", &major) == 1 && major >= 530;
}

struct uvm_va_space *uvm_va_space_open(void)
{
	struct uvm_va_space *space = kzalloc(sizeof(*space), GFP_KERNEL);

	if (!space)
		return NULL;
	mutex_init(&space->lock);
	space->ranges = RB_ROOT;
	return space;
}

static void take_flags(struct uvm_va_space *space, u64 flags)
{
	space->flags = flags;
	if (!(flags & UVM_INIT_FLAGS_MULTI_PROCESS_SHARING_MODE)) {
		space->mm = current->mm;
		mmgrab(space->mm);
	}
	space->initialized = true;
}

/* uvm_va_space.c, up to 525 */
u32 uvm_va_space_initialize(struct uvm_va_space *va_space, u64 flags)
{
	if (va_space->initialized)
		return flags == va_space->flags ? NV_OK : NV_ERR_INVALID_ARGUMENT;
	take_flags(va_space, flags);
	return NV_OK;
}

/* uvm_va_space.c, since 530 */
u32 uvm_va_space_create(struct address_space *mapping, struct uvm_va_space **va_space_ptr, u64 flags)
{
	struct uvm_va_space *space = uvm_va_space_open();

	if (!space)
		return NV_ERR_NO_MEMORY;
	take_flags(space, flags);
	*va_space_ptr = space;
	return NV_OK;
}

/* The driver asks for CONFIG_DEVICE_PRIVATE too, and up to 525 it has HMM for its own tests only. */
bool uvm_hmm_is_enabled(const struct uvm_va_space *va_space)
{
	return !uvm_disable_hmm && va_space->mm && !(va_space->flags & UVM_INIT_FLAGS_DISABLE_HMM);
}

/* uvm_va_space.c */
noinline void uvm_va_space_destroy(struct uvm_va_space *space)
{
	struct uvm_va_range *range;
	unsigned int i;

	mutex_lock(&space->lock);
	while ((range = uvm_va_range_first(space)) != NULL) {
		/* A mapping holds the file open, so none is left. */
		WARN_ON(range->type == UVM_VA_RANGE_TYPE_MANAGED);
		uvm_va_range_destroy(range, NULL);
	}
	for (i = 0; i < UVM_MAX_CARDS; i++)
		uvm_space_drop_gpu(space, i);
	mutex_unlock(&space->lock);
	if (space->mm)
		mmdrop(space->mm);
	kfree(space);
}

static noinline __noclone int uvm_open(struct inode *inode, struct file *filp)
{
	struct uvm_file *file = kzalloc(sizeof(*file), GFP_KERNEL);

	if (!file)
		return -ENOMEM;
	mutex_init(&file->lock);
	filp->private_data = file;
	return 0;
}

static noinline __noclone int uvm_open_entry(struct inode *inode, struct file *filp)
{
	return uvm_open(inode, filp);
}

static noinline __noclone int uvm_release(struct inode *inode, struct file *filp)
{
	struct uvm_file *file = filp->private_data;

	if (file->type == UVM_FD_VA_SPACE)
		uvm_va_space_destroy(file->space);
	if (file->type == UVM_FD_MM)
		fput(file->target);
	kfree(file);
	return 0;
}

static noinline __noclone int uvm_release_entry(struct inode *inode, struct file *filp)
{
	return uvm_release(inode, filp);
}

/* Without clones: tests redirect the function by its plain name. */
static noinline __noclone int uvm_mmap(struct file *filp, struct vm_area_struct *vma)
{
	struct uvm_file *file = filp->private_data;

	if (READ_ONCE(file->type) != UVM_FD_VA_SPACE)
		return -EBADFD;
	if (file->space->mm && file->space->mm != current->mm)
		return -EOPNOTSUPP;
	if (vma->vm_start != vma->vm_pgoff << PAGE_SHIFT)
		return -EINVAL;
	if ((vma->vm_flags & (VM_SHARED | VM_READ | VM_WRITE)) != (VM_SHARED | VM_READ | VM_WRITE))
		return -EINVAL;
	return uvm_managed_mmap(file->space, vma);
}

static noinline __noclone int uvm_mmap_entry(struct file *filp, struct vm_area_struct *vma)
{
	return uvm_mmap(filp, vma);
}

static noinline __noclone long uvm_unlocked_ioctl(struct file *filp, unsigned int cmd, unsigned long arg)
{
	return uvm_ioctl(filp, cmd, arg);
}

static noinline __noclone long uvm_unlocked_ioctl_entry(struct file *filp, unsigned int cmd, unsigned long arg)
{
	return uvm_unlocked_ioctl(filp, cmd, arg);
}

static const struct file_operations uvm_fops = {
	.owner = THIS_MODULE,
	.open = uvm_open_entry,
	.release = uvm_release_entry,
	.mmap = uvm_mmap_entry,
	.unlocked_ioctl = uvm_unlocked_ioctl_entry,
	.compat_ioctl = uvm_unlocked_ioctl_entry,
};

struct uvm_file *uvm_file_of(struct file *file)
{
	return file->f_op == &uvm_fops ? file->private_data : NULL;
}

static int __init uvm_init_entry(void)
{
	int result = alloc_chrdev_region(&base_dev, 0, UVM_MINORS, UVM_NAME);

	if (result != 0)
		return result;
	cdev_init(&uvm_cdev, &uvm_fops);
	uvm_cdev.owner = THIS_MODULE;
	/* The second node is for tools, and has no use here. */
	result = cdev_add(&uvm_cdev, base_dev, UVM_MINORS);
	if (result != 0)
		unregister_chrdev_region(base_dev, UVM_MINORS);
	return result;
}

static void __exit uvm_exit_entry(void)
{
	cdev_del(&uvm_cdev);
	unregister_chrdev_region(base_dev, UVM_MINORS);
}

module_init(uvm_init_entry);
module_exit(uvm_exit_entry);
