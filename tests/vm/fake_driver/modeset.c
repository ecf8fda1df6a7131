// SPDX-License-Identifier: GPL-2.0
/* The fake nvidia-modeset.ko: a node of its own, and a client of the kernel. */
#include <linux/cdev.h>
#include <linux/fs.h>
#include <linux/module.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

#include "fields.h"
#include "nv_modeset_interface.h"
#include "nv_uvm_interface.h"

extern const char nvidia_version[];

/* nvkms-ioctl.h: the one command of the node, and what it points to. */
struct nvkms_request {
	u32 cmd;
	u32 size;
	u64 address;
};
#define NVKMS_IOCTL _IOWR('m', 0, struct nvkms_request)

static nvidia_modeset_rm_ops_t rm;
static struct cdev cdev;
static u32 client;

/* One operation with the RM as a kernel client does it: number, then parameters. */
static bool rm_op(u32 op, const void *params, size_t size, void *answer)
{
	const struct nv_layout_nvidia_kernel_rmapi_ops_t *at = &fake_abi()->nvidia_kernel_rmapi_ops_t;
	struct nvidia_stack *sp;
	u8 *data;

	if (size + at->params > at->bytes || rm.alloc_stack(&sp) != 0)
		return false;
	data = kzalloc(at->bytes, GFP_KERNEL);
	if (data) {
		put32(data, at->op, op);
		memcpy(data + at->params, params, size);
		rm.op(sp, data);
		memcpy(answer, data + at->params, size);
		kfree(data);
	}
	rm.free_stack(sp);
	return data != NULL;
}

static bool create_client(void)
{
	const struct nv_layout_NVOS64_PARAMETERS *at = &fake_abi()->NVOS64_PARAMETERS;
	u8 params[64] = { 0 };

	put32(params, at->hClass, NV01_ROOT);
	if (!rm_op(NV04_ALLOC, params, at->bytes, params))
		return false;
	client = get32(params, at->hObjectNew);
	return client != 0;
}

/* The cards by a control call of a kernel client: its parameters lie in the kernel. */
static bool cards_agree(void)
{
	const struct nv_abi *abi = fake_abi();
	const struct nv_layout_NVOS54_PARAMETERS *at = &abi->NVOS54_PARAMETERS;
	nv_gpu_info_t *cards = kcalloc(NV_MAX_GPUS, sizeof(*cards), GFP_KERNEL);
	u8 *ids = kzalloc(abi->NV0000_CTRL_GPU_GET_ATTACHED_IDS_PARAMS.bytes, GFP_KERNEL);
	u8 params[64] = { 0 };
	bool agree = false;

	if (!cards || !ids)
		goto done;
	put32(params, at->hClient, client);
	put32(params, at->hObject, client);
	put32(params, at->cmd, NV0000_CTRL_CMD_GPU_GET_ATTACHED_IDS);
	put64(params, at->params, (uintptr_t)ids);
	put32(params, at->paramsSize, abi->NV0000_CTRL_GPU_GET_ATTACHED_IDS_PARAMS.bytes);
	if (!rm_op(NV04_CONTROL, params, at->bytes, params) || get32(params, at->status) != NV_OK)
		goto done;
	agree = rm.enumerate_gpus(cards) > 0 &&
		cards[0].gpu_id == get32(ids, abi->NV0000_CTRL_GPU_GET_ATTACHED_IDS_PARAMS.gpuIds);
done:
	kfree(ids);
	kfree(cards);
	return agree;
}

static void free_client(void)
{
	const struct nv_layout_NVOS00_PARAMETERS *at = &fake_abi()->NVOS00_PARAMETERS;
	u8 params[16] = { 0 };

	put32(params, at->hRoot, client);
	put32(params, at->hObjectOld, client);
	rm_op(NV01_FREE, params, at->bytes, params);
}

static int nvkms_open(struct inode *inode, struct file *filp)
{
	return 0;
}

/* There is no display: every command is refused as the driver refuses one it does not know. */
static long nvkms_unlocked_ioctl(struct file *filp, unsigned int cmd, unsigned long arg)
{
	struct nvkms_request request;

	if (cmd != NVKMS_IOCTL)
		return -ENOTTY;
	if (copy_from_user(&request, (void __user *)arg, sizeof(request)))
		return -EFAULT;
	return -EPERM;
}

static const struct file_operations nvkms_fops = {
	.owner = THIS_MODULE,
	.open = nvkms_open,
	.unlocked_ioctl = nvkms_unlocked_ioctl,
	.compat_ioctl = nvkms_unlocked_ioctl,
};

/* Up to 535 its minor is one of those that nvidia.ko has registered, as nvidia-frontend. */
static bool has_own_region(void)
{
	unsigned int major = 0;

	return sscanf(nvidia_version, "%u.", &major) == 1 && major >= 545;
}

static int __init nvkms_init(void)
{
	dev_t node = MKDEV(NV_NVIDIA_MAJOR, NV_NVIDIA_MODESET_MINOR);
	int result = has_own_region() ? register_chrdev_region(node, 1, "nvidia-modeset") : 0;

	if (result != 0)
		return result;
	result = -EINVAL;
	rm.version_string = nvidia_version;
	if (nvidia_get_rm_ops(&rm) != NV_OK) {
		pr_err("nvidia-modeset: version %s, but nvidia.ko is %s\n", nvidia_version, rm.version_string);
		goto no_client;
	}
	if (!create_client())
		goto no_client;
	cdev_init(&cdev, &nvkms_fops);
	cdev.owner = THIS_MODULE;
	result = cards_agree() ? cdev_add(&cdev, node, 1) : -ENODEV;
	if (result == 0)
		return 0;
	free_client();
no_client:
	if (has_own_region())
		unregister_chrdev_region(node, 1);
	return result;
}

static void __exit nvkms_exit(void)
{
	cdev_del(&cdev);
	if (has_own_region())
		unregister_chrdev_region(MKDEV(NV_NVIDIA_MAJOR, NV_NVIDIA_MODESET_MINOR), 1);
	free_client();
}

module_init(nvkms_init);
module_exit(nvkms_exit);
