// SPDX-License-Identifier: GPL-2.0-only
/* Export of video memory as a dma-buf (kernel-open/nvidia/nv-dmabuf.c): it holds the memory until it is closed. */
#include <linux/dma-buf.h>
#include <linux/err.h>
#include <linux/fcntl.h>
#include <linux/file.h>
#include <linux/module.h>
#include <linux/slab.h>
#include <linux/version.h>

#include "driver.h"

#define MAX_HANDLES 128u

struct exported {
	struct nv_state *nv;
	u32 client, device, subdevice;
	void *instance;
	u8 mapping; /* its kind, as asked for */
	struct mutex lock;
	u32 total, count; /* places, and how many are filled */
	u64 size, attached;
	struct place {
		u32 handle;
		u64 size;
	} place[];
};

/* Places without anything are passed over, and count. */
static void undup(struct exported *exported, u32 first, u32 count)
{
	u32 i;

	for (i = first; i < first + count; i++) {
		struct place *place = &exported->place[i];

		if (place->handle == 0)
			continue;
		rm_dma_buf_undup_mem_handle(NULL, exported->nv, exported->client, place->handle);
		exported->attached -= place->size;
		*place = (struct place){ 0 };
		exported->count--;
	}
}

static void drop(struct exported *exported)
{
	rm_dma_buf_put_client_and_device(
		NULL, exported->nv, exported->client, exported->device, exported->subdevice, exported->instance);
	nvidia_dev_put(exported->nv->gpu_id, NULL);
	kfree(exported);
}

static void release(struct dma_buf *buffer)
{
	struct exported *exported = buffer->priv;

	/* As the driver has it: with a gap before them the last ones stay for ever. */
	undup(exported, 0, exported->count);
	drop(exported);
}

/* There is no bus between a simulated card and a real importer. */
static struct sg_table *map(struct dma_buf_attachment *attachment, enum dma_data_direction direction)
{
	return ERR_PTR(-EOPNOTSUPP);
}

static void unmap(struct dma_buf_attachment *attachment, struct sg_table *table, enum dma_data_direction direction)
{
}

static const struct dma_buf_ops operations = {
	.map_dma_buf = map,
	.unmap_dma_buf = unmap,
	.release = release,
};

/* With as many arguments as the version has (nv.h). */
static u32 dup_one(struct exported *exported, u32 client, u32 handle, u64 offset, u64 size, u32 *duplicate)
{
	u32 (*first)(struct nvidia_stack *, struct nv_state *, u32, u32, u32, u32, void *, u32, u64, u64, u32 *) =
		(void *)rm_dma_buf_dup_mem_handle;
	u32 (*second)(struct nvidia_stack *, struct nv_state *, u32, u32, u32, u32, void *, u32, u64, u64, u32 *,
		void **) = (void *)rm_dma_buf_dup_mem_handle;
	u32 (*third)(struct nvidia_stack *, struct nv_state *, u32, u32, u32, u32, void *, u32, u64, u64, u32 *,
		void **, u8 *, u32 *, u8 *, u32 *) = (void *)rm_dma_buf_dup_mem_handle;
	u32 (*fourth)(struct nvidia_stack *, struct nv_state *, u32, u32, u32, u32, void *, u32, u64, u64, u8, u32 *,
		void **, u8 *, u32 *, u8 *, u32 *) = (void *)rm_dma_buf_dup_mem_handle;
	void *info;
	u8 can_mmap, read_only;
	u32 cache_type, memory_type;

	if (version_at_least(nvidia_card, 615, 71, 9))
		return fourth(NULL, exported->nv, client, exported->client, exported->device, exported->subdevice,
			exported->instance, handle, offset, size, exported->mapping, duplicate, &info, &can_mmap,
			&cache_type, &read_only, &memory_type);
	if (version_at_least(nvidia_card, 580, 65, 6))
		return third(NULL, exported->nv, client, exported->client, exported->device, exported->subdevice,
			exported->instance, handle, offset, size, duplicate, &info, &can_mmap, &cache_type, &read_only,
			&memory_type);
	if (version_at_least(nvidia_card, 535, 43, 2))
		return second(NULL, exported->nv, client, exported->client, exported->device, exported->subdevice,
			exported->instance, handle, offset, size, duplicate, &info);
	return first(NULL, exported->nv, client, exported->client, exported->device, exported->subdevice,
		exported->instance, handle, offset, size, duplicate);
}

static u32 dup_at(struct exported *exported, const u8 *data, u32 i, struct place *place)
{
	const struct nv_layout_nv_ioctl_export_to_dma_buf_fd_t *at = &nvidia_card->abi->nv_ioctl_export_to_dma_buf_fd_t;
	u64 size = get64(data + 8 * i, at->sizes);
	u32 status;

	if (place->handle)
		return NV_ERR_IN_USE;
	if (size > exported->size - exported->attached)
		return NV_ERR_INVALID_ARGUMENT;
	status = dup_one(exported, get32(data, at->hClient), get32(data + 4 * i, at->handles),
		get64(data + 8 * i, at->offsets), size, &place->handle);
	if (status != NV_OK)
		return status;
	place->size = size;
	exported->attached += size;
	exported->count++;
	return NV_OK;
}

/* All of the call or none. */
static u32 dup_all(struct exported *exported, const u8 *data)
{
	const struct nv_layout_nv_ioctl_export_to_dma_buf_fd_t *at = &nvidia_card->abi->nv_ioctl_export_to_dma_buf_fd_t;
	u32 index = get32(data, at->index), count = get32(data, at->numObjects), i, status = NV_OK;

	for (i = 0; i < count && status == NV_OK; i++)
		status = dup_at(exported, data, i, &exported->place[index + i]);
	if (status != NV_OK)
		i--;
	else if (exported->count == exported->total && exported->attached != exported->size)
		status = NV_ERR_INVALID_ARGUMENT;
	if (status != NV_OK)
		undup(exported, index, i);
	return status;
}

static u32 give_out(struct exported *exported, u8 *data)
{
	const struct nv_layout_nv_ioctl_export_to_dma_buf_fd_t *at = &nvidia_card->abi->nv_ioctl_export_to_dma_buf_fd_t;
	DEFINE_DMA_BUF_EXPORT_INFO(info);
	struct dma_buf *buffer;
	int fd;

	info.ops = &operations;
	info.size = PAGE_ALIGN(exported->size);
	info.flags = O_RDWR | O_CLOEXEC;
	info.priv = exported;
	buffer = knob_fails("dma_buf_export") ? ERR_PTR(-ENOMEM) : dma_buf_export(&info);
	if (IS_ERR(buffer)) {
		undup(exported, get32(data, at->index), get32(data, at->numObjects));
		drop(exported);
		return NV_ERR_OPERATING_SYSTEM;
	}
	fd = knob_fails("dma_buf_fd") ? -EMFILE : dma_buf_fd(buffer, O_RDWR | O_CLOEXEC);
	/* The buffer's release frees the duplicates. */
	if (fd < 0) {
		dma_buf_put(buffer);
		return NV_ERR_OPERATING_SYSTEM;
	}
	put32(data, at->fd, (u32)fd);
	return NV_OK;
}

static u32 create(struct nv_state *nv, u8 *data, u32 total)
{
	const struct nv_layout_nv_ioctl_export_to_dma_buf_fd_t *at = &nvidia_card->abi->nv_ioctl_export_to_dma_buf_fd_t;
	struct exported *exported;
	u32 status;

	if (get32(data, at->index) > total - get32(data, at->numObjects))
		return NV_ERR_INVALID_ARGUMENT;
	exported = kzalloc(struct_size(exported, place, total), GFP_KERNEL);
	if (!exported)
		return NV_ERR_NO_MEMORY;
	mutex_init(&exported->lock);
	exported->nv = nv;
	exported->total = total;
	exported->size = get64(data, at->totalSize);
	if (at->mappingType != NV_ABI_ABSENT)
		exported->mapping = data[at->mappingType];
	if (nvidia_dev_get(nv->gpu_id, NULL)) {
		kfree(exported);
		return NV_ERR_OPERATING_SYSTEM;
	}
	status = rm_dma_buf_get_client_and_device(
		NULL, nv, &exported->client, &exported->device, &exported->subdevice, &exported->instance);
	if (status != NV_OK) {
		nvidia_dev_put(nv->gpu_id, NULL);
		kfree(exported);
		return status;
	}
	status = dup_all(exported, data);
	if (status == NV_OK)
		return give_out(exported, data);
	drop(exported);
	return status;
}

static u32 reuse(const u8 *data, int fd)
{
	const struct nv_layout_nv_ioctl_export_to_dma_buf_fd_t *at = &nvidia_card->abi->nv_ioctl_export_to_dma_buf_fd_t;
	struct dma_buf *buffer = dma_buf_get(fd);
	u32 count = get32(data, at->numObjects), status = NV_ERR_INVALID_ARGUMENT;
	struct exported *exported;

	if (IS_ERR(buffer))
		return NV_ERR_OPERATING_SYSTEM;
	exported = buffer->priv;
	if (buffer->ops == &operations) {
		mutex_lock(&exported->lock);
		if (count <= exported->total && get32(data, at->index) <= exported->total - count)
			status = dup_all(exported, data);
		mutex_unlock(&exported->lock);
	}
	dma_buf_put(buffer);
	return status;
}

noinline u32 nv_dma_buf_export(struct nv_state *nv, void *params)
{
	const struct nv_layout_nv_ioctl_export_to_dma_buf_fd_t *at = &nvidia_card->abi->nv_ioctl_export_to_dma_buf_fd_t;
	u32 count = get32(params, at->numObjects), total = get32(params, at->totalObjects);
	int fd = (int)get32(params, at->fd);

	if (knob_fails(__func__))
		return NV_ERR_INSUFFICIENT_RESOURCES;
	if (get64(params, at->totalSize) == 0 || count == 0 || count > MAX_HANDLES || count > total || fd < -1)
		return NV_ERR_INVALID_ARGUMENT;
	/* As many as a card can have. */
	if (total > SIM_MAX_OBJECTS)
		return NV_ERR_INSUFFICIENT_RESOURCES;
	return fd == -1 ? create(nv, params, total) : reuse(params, fd);
}

/* 6.13: the name of a namespace is a string. */
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 13, 0)
MODULE_IMPORT_NS("DMA_BUF");
#else
MODULE_IMPORT_NS(DMA_BUF);
#endif
