// SPDX-License-Identifier: GPL-2.0-only
/* Devices, nodes and open files (kernel-open/nvidia/nv.c). */
#include <linux/cdev.h>
#include <linux/file.h>
#include <linux/fs.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/poll.h>
#include <linux/slab.h>

#include "driver.h"

struct nv_state nv_ctl_device;
static struct nv_state devices[SIM_MAX_CARDS];
static struct cdev regular_cdev, ctl_cdev;
static struct workqueue_struct *deferred_close;

int nv_kmem_cache_alloc_stack(struct nvidia_stack **sp)
{
	*sp = kzalloc(sizeof(**sp), GFP_KERNEL);
	return *sp ? 0 : -ENOMEM;
}

void nv_kmem_cache_free_stack(struct nvidia_stack *sp)
{
	kfree(sp);
}

struct nv_state *nv_device(u32 card)
{
	return &devices[card];
}

struct nv_state *nv_find_device(u32 gpu_id)
{
	u32 i;

	for (i = 0; i < nvidia_card->card_count; i++) {
		if (devices[i].gpu_id == gpu_id)
			return &devices[i];
	}
	return NULL;
}

/* For the binary half (nv.h). */
noinline struct nv_state *nv_get_adapter_state(u32 domain, u8 bus, u8 slot)
{
	u32 i;

	for (i = 0; i < nvidia_card->card_count; i++) {
		const struct nv_state *nv = &devices[i];

		if (nv->pci_info.domain == domain && nv->pci_info.bus == bus && nv->pci_info.slot == slot)
			return &devices[i];
	}
	return NULL;
}

noinline u32 nv_get_dev_minor(struct nv_state *nv)
{
	return (u32)((struct nv_state *)nv->os_state - devices);
}

static struct nv_state *find_uuid(const u8 *uuid)
{
	u32 i;

	for (i = 0; i < nvidia_card->card_count; i++) {
		if (memcmp(nvidia_card->cards[i].uuid, uuid, sizeof(nvidia_card->cards[i].uuid)) == 0)
			return &devices[i];
	}
	return NULL;
}

static int open_device(struct nv_state *nv)
{
	if (!nv)
		return -ENODEV;
	atomic_inc(&nv->kernel_opens);
	atomic_inc(&nv->kernel_opened);
	return 0;
}

static void close_device(struct nv_state *nv)
{
	if (nv)
		atomic_dec(&nv->kernel_opens);
}

/* Open a card as a process does by its node (nvidia_dev_get in nv.c). */
int nvidia_dev_get(u32 gpu_id, struct nvidia_stack *sp)
{
	return open_device(nv_find_device(gpu_id));
}

void nvidia_dev_put(u32 gpu_id, struct nvidia_stack *sp)
{
	close_device(nv_find_device(gpu_id));
}

/* For nvidia-uvm.ko. */
int nvidia_dev_get_uuid(const u8 *uuid, struct nvidia_stack *sp)
{
	return open_device(find_uuid(uuid));
}

void nvidia_dev_put_uuid(const u8 *uuid, struct nvidia_stack *sp)
{
	close_device(find_uuid(uuid));
}

static int nvidia_open(struct inode *inode, struct file *file)
{
	unsigned int minor = iminor(inode);
	bool is_ctl = minor == NV_NVIDIACTL_MINOR;
	struct nv_linux_file_private *nvlfp;

	if (!is_ctl && minor >= nvidia_card->card_count)
		return -ENODEV;
	nvlfp = kzalloc(sizeof(*nvlfp), GFP_KERNEL);
	if (!nvlfp)
		return -ENOMEM;
	nvlfp->nvptr = is_ctl ? &nv_ctl_device : &devices[minor];
	mutex_lock(&nvidia_card->lock);
	nvlfp->nvfp.file = file_open(nvidia_card, is_ctl ? SIM_NO_CARD : minor);
	mutex_unlock(&nvidia_card->lock);
	if (!nvlfp->nvfp.file) {
		kfree(nvlfp);
		return -ENFILE;
	}
	file->private_data = nvlfp;
	return 0;
}

static void put_attached_gpus(struct nv_linux_file_private *nvlfp, struct nvidia_stack *sp)
{
	size_t i;

	for (i = 0; i < nvlfp->num_attached_gpus; i++) {
		if (nvlfp->attached_gpus[i] != 0)
			nvidia_dev_put(nvlfp->attached_gpus[i], sp);
	}
	kfree(nvlfp->attached_gpus);
}

static void close_callback(struct work_struct *work)
{
	struct nv_linux_file_private *nvlfp = container_of(work, struct nv_linux_file_private, close_work);
	struct nvidia_stack *sp = NULL;

	nv_kmem_cache_alloc_stack(&sp);
	rm_cleanup_file_private(sp, nvlfp->nvptr, &nvlfp->nvfp);
	put_attached_gpus(nvlfp, sp);
	nv_kmem_cache_free_stack(sp);
	kfree(nvlfp);
}

static int nvidia_close(struct inode *inode, struct file *file)
{
	struct nv_linux_file_private *nvlfp = file->private_data;

	file->private_data = NULL;
	INIT_WORK(&nvlfp->close_work, close_callback);
	if (knob_defer_close())
		queue_work(deferred_close, &nvlfp->close_work);
	else
		close_callback(&nvlfp->close_work);
	return 0;
}

/* No events come. */
static __poll_t nvidia_poll(struct file *file, poll_table *wait)
{
	return 0;
}

static const struct file_operations nvidia_fops = {
	.owner = THIS_MODULE,
	.open = nvidia_open,
	.release = nvidia_close,
	.read = nvidia_read,
	.write = nvidia_write,
	.unlocked_ioctl = nvidia_unlocked_ioctl,
	.compat_ioctl = nvidia_unlocked_ioctl,
	.mmap = nvidia_mmap,
	.poll = nvidia_poll,
};

struct nv_file_private *nv_get_file_private(int fd, bool ctl, void **os_private)
{
	struct file *file = fget(fd);
	struct nv_linux_file_private *nvlfp;

	if (!file)
		return NULL;
	if (file->f_op != &nvidia_fops || (iminor(file_inode(file)) == NV_NVIDIACTL_MINOR) != ctl) {
		fput(file);
		return NULL;
	}
	nvlfp = file->private_data;
	*os_private = file;
	return &nvlfp->nvfp;
}

void nv_put_file_private(void *os_private)
{
	fput(os_private);
}

static int register_nodes(struct cdev *cdev, unsigned int minor, unsigned int count, const char *name)
{
	dev_t first = MKDEV(NV_NVIDIA_MAJOR, minor);
	int result = register_chrdev_region(first, count, name);

	if (result != 0)
		return result;
	cdev_init(cdev, &nvidia_fops);
	cdev->owner = THIS_MODULE;
	result = cdev_add(cdev, first, count);
	if (result != 0)
		unregister_chrdev_region(first, count);
	return result;
}

static void unregister_nodes(struct cdev *cdev, unsigned int minor, unsigned int count)
{
	cdev_del(cdev);
	unregister_chrdev_region(MKDEV(NV_NVIDIA_MAJOR, minor), count);
}

/* Up to 535 all minors were one device's, nv-frontend.c; then each kind has its own. */
static bool has_frontend(void)
{
	return !version_at_least(nvidia_card, 545, 0, 0);
}

static int register_all_nodes(void)
{
	int result;

	if (has_frontend())
		return register_nodes(&regular_cdev, 0, NV_NVIDIACTL_MINOR + 1, "nvidia-frontend");
	result = register_nodes(&regular_cdev, 0, NV_GPU_MINOR_MAX + 1, "nvidia");
	if (result != 0)
		return result;
	result = register_nodes(&ctl_cdev, NV_NVIDIACTL_MINOR, 1, "nvidiactl");
	if (result != 0)
		unregister_nodes(&regular_cdev, 0, NV_GPU_MINOR_MAX + 1);
	return result;
}

static void unregister_all_nodes(void)
{
	if (has_frontend()) {
		unregister_nodes(&regular_cdev, 0, NV_NVIDIACTL_MINOR + 1);
		return;
	}
	unregister_nodes(&ctl_cdev, NV_NVIDIACTL_MINOR, 1);
	unregister_nodes(&regular_cdev, 0, NV_GPU_MINOR_MAX + 1);
}

static void init_devices(void)
{
	u32 i;

	nv_ctl_device.flags = NV_FLAG_CONTROL;
	nv_ctl_device.os_state = &nv_ctl_device;
	nv_ctl_device.card = SIM_NO_CARD;
	for (i = 0; i < nvidia_card->card_count; i++) {
		struct nv_state *nv = &devices[i];

		nv->os_state = nv;
		nv->pci_info.bus = (u8)(i + 1);
		nv->pci_info.vendor_id = 0x10de;
		nv->pci_info.device_id = nvidia_card->cards[i].model->pci_device;
		nv->gpu_id = nvidia_card->cards[i].gpu_id;
		nv->card = i;
	}
}

static int __init nvidia_init_module(void)
{
	int result = card_create();

	if (result != 0)
		return result;
	init_devices();
	result = -ENOMEM;
	/* From 6.17 on the kernel warns of a queue that is neither unbound nor of one CPU each. */
	deferred_close = alloc_workqueue("nvidia_close", WQ_UNBOUND, 0);
	if (!deferred_close)
		goto no_queue;
	result = nv_procfs_init();
	if (result != 0)
		goto no_procfs;
	result = register_all_nodes();
	if (result == 0)
		return 0;
	nv_procfs_exit();
no_procfs:
	destroy_workqueue(deferred_close);
no_queue:
	card_destroy();
	return result;
}

static void __exit nvidia_exit_module(void)
{
	unregister_all_nodes();
	destroy_workqueue(deferred_close);
	nv_procfs_exit();
	card_destroy();
}

module_init(nvidia_init_module);
module_exit(nvidia_exit_module);
