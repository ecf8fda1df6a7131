// SPDX-License-Identifier: GPL-2.0-only
/* One ioctl of a node, as nvidia_ioctl in nv.c takes it: number and size count, and nothing else of the command. */
#include <linux/fs.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

#include "driver.h"

struct request {
	unsigned int nr;
	size_t size;
	void __user *address;
	void *copy;
};

static int open_wrapper(struct request *request)
{
	const struct nv_layout_nv_ioctl_xfer_t *at = &nvidia_card->abi->nv_ioctl_xfer_t;
	u8 wrapper[16];

	if (request->size != sizeof(wrapper) || at->bytes != sizeof(wrapper))
		return -EINVAL;
	if (copy_from_user(wrapper, request->address, sizeof(wrapper)))
		return -EFAULT;
	request->nr = get32(wrapper, at->cmd);
	request->size = get32(wrapper, at->size);
	request->address = u64_to_user_ptr(get64(wrapper, at->ptr));
	return request->size > NV_MAX_IOCTL_XFER_SIZE ? -EINVAL : 0;
}

static int attach_gpus(struct nv_linux_file_private *nvlfp, const struct request *request, struct nvidia_stack *sp)
{
	size_t count = request->size / sizeof(u32), i;
	u32 *ids;

	if (!(nvlfp->nvptr->flags & NV_FLAG_CONTROL) || count == 0 || request->size % sizeof(u32) != 0)
		return -EINVAL;
	ids = kmemdup(request->copy, request->size, GFP_KERNEL);
	if (!ids)
		return -ENOMEM;
	for (i = 0; i < count; i++) {
		if (ids[i] != 0 && nvidia_dev_get(ids[i], sp) != 0)
			goto undo;
	}
	/* Once in a file's life. */
	if (cmpxchg(&nvlfp->attached_gpus, NULL, ids) != NULL)
		goto undo;
	nvlfp->num_attached_gpus = count;
	return 0;
undo:
	while (i-- > 0) {
		if (ids[i] != 0)
			nvidia_dev_put(ids[i], sp);
	}
	kfree(ids);
	return -EINVAL;
}

static int export_dma_buf(struct nv_linux_file_private *nvlfp, const struct request *request)
{
	const struct nv_layout_nv_ioctl_export_to_dma_buf_fd_t *at = &nvidia_card->abi->nv_ioctl_export_to_dma_buf_fd_t;

	if (request->size != at->bytes || nvlfp->nvptr->flags & NV_FLAG_CONTROL)
		return -EINVAL;
	put32(request->copy, at->status, nv_dma_buf_export(nvlfp->nvptr, request->copy));
	return 0;
}

/* Calls that the open half answers by itself. */
static int answer_here(struct nv_linux_file_private *nvlfp, const struct request *request)
{
	struct call call = {
		.sim = nvidia_card,
		.file = nvlfp->nvfp.file,
		.nr = request->nr,
		.data = request->copy,
		.size = request->size,
	};

	return escape_dispatch(&call);
}

static int answer(struct nv_linux_file_private *nvlfp, struct request *request, struct nvidia_stack *sp)
{
	u32 status;

	switch (request->nr) {
	case NV_ESC_WAIT_OPEN_COMPLETE:
	case NV_ESC_CARD_INFO:
	case NV_ESC_CHECK_VERSION_STR:
	case NV_ESC_SYS_PARAMS:
		return answer_here(nvlfp, request);
	case NV_ESC_ATTACH_GPUS_TO_FD:
		return attach_gpus(nvlfp, request, sp);
	case NV_ESC_EXPORT_TO_DMABUF_FD:
		return export_dma_buf(nvlfp, request);
	default:
		status = rm_ioctl(sp, nvlfp->nvptr, &nvlfp->nvfp, request->nr, request->copy, (u32)request->size);
		return status == NV_OK ? 0 : -EINVAL;
	}
}

/* The structure is copied in once and out once, after an error too, but not after a fault. */
static int answer_copy(struct nv_linux_file_private *nvlfp, struct request *request)
{
	struct nvidia_stack *sp;
	int result;

	if (copy_from_user(request->copy, request->address, request->size))
		return -EFAULT;
	result = nv_kmem_cache_alloc_stack(&sp);
	if (result == 0) {
		result = answer(nvlfp, request, sp);
		nv_kmem_cache_free_stack(sp);
	}
	if (result != -EFAULT && copy_to_user(request->address, request->copy, request->size))
		result = -EFAULT;
	return result;
}

long nvidia_unlocked_ioctl(struct file *file, unsigned int cmd, unsigned long i_arg)
{
	struct request request = {
		.nr = _IOC_NR(cmd),
		.size = _IOC_SIZE(cmd),
		.address = (void __user *)i_arg,
	};
	int result = 0;

	if (request.nr == NV_ESC_IOCTL_XFER_CMD)
		result = open_wrapper(&request);
	if (result != 0)
		return result;
	request.copy = kmalloc(request.size, GFP_KERNEL);
	if (!request.copy)
		return -ENOMEM;
	result = answer_copy(file->private_data, &request);
	kfree(request.copy);
	return result;
}
