// SPDX-License-Identifier: GPL-2.0
/* Export of video memory as a dma-buf (kernel-open/nvidia/nv-dmabuf.c): it holds the memory until it is closed. */
#include <linux/dma-buf.h>
#include <linux/err.h>
#include <linux/file.h>
#include <linux/fcntl.h>
#include <linux/module.h>
#include <linux/slab.h>

#include "rm_gpu_ops.h"

#define MAX_HANDLES 128u

struct exported {
	u32 card;
	u32 count;
	u32 room;
	struct memory *memory[];
};

static void drop(struct exported *exported)
{
	u32 i;

	mutex_lock(&nvidia_card->lock);
	for (i = 0; i < exported->count; i++)
		memory_release(nvidia_card, exported->memory[i]);
	mutex_unlock(&nvidia_card->lock);
	kfree(exported);
}

static void release(struct dma_buf *buffer)
{
	drop(buffer->priv);
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

/* All handles or none; the lock is held. */
static u32 take_locked(struct exported *exported, const u8 *data, u32 count)
{
	const struct nv_layout_nv_ioctl_export_to_dma_buf_fd_t *at = &nvidia_card->abi->nv_ioctl_export_to_dma_buf_fd_t;
	u32 before = exported->count, i, status = NV_OK;
	struct object *object;

	for (i = 0; i < count && status == NV_OK; i++) {
		status = rm_find_user_object(get32(data, at->hClient), get32(data + 4 * i, at->handles), &object);
		if (status == NV_OK && (!object->memory || object->memory->card != exported->card))
			status = NV_ERR_INVALID_ARGUMENT;
		if (status != NV_OK)
			break;
		object->memory->refs++;
		exported->memory[exported->count++] = object->memory;
	}
	while (status != NV_OK && exported->count > before)
		memory_release(nvidia_card, exported->memory[--exported->count]);
	return status;
}

static u32 take(struct exported *exported, const u8 *data, u32 count)
{
	u32 status = NV_ERR_INVALID_ARGUMENT;

	mutex_lock(&nvidia_card->lock);
	if (count <= exported->room - exported->count)
		status = take_locked(exported, data, count);
	mutex_unlock(&nvidia_card->lock);
	return status;
}

static u32 create(struct nv_state *nv, u8 *data, u32 count, u32 total)
{
	const struct nv_layout_nv_ioctl_export_to_dma_buf_fd_t *at = &nvidia_card->abi->nv_ioctl_export_to_dma_buf_fd_t;
	struct exported *exported = kzalloc(struct_size(exported, memory, total), GFP_KERNEL);
	DEFINE_DMA_BUF_EXPORT_INFO(info);
	struct dma_buf *buffer;
	u32 status;
	int fd;

	if (!exported)
		return NV_ERR_NO_MEMORY;
	exported->card = nv->card;
	exported->room = total;
	status = take(exported, data, count);
	if (status != NV_OK) {
		kfree(exported);
		return status;
	}
	info.ops = &operations;
	info.size = PAGE_ALIGN(get64(data, at->totalSize));
	info.flags = O_RDWR | O_CLOEXEC;
	info.priv = exported;
	buffer = dma_buf_export(&info);
	if (IS_ERR(buffer)) {
		drop(exported);
		return NV_ERR_OPERATING_SYSTEM;
	}
	fd = dma_buf_fd(buffer, O_CLOEXEC);
	if (fd < 0) {
		dma_buf_put(buffer);
		return NV_ERR_OPERATING_SYSTEM;
	}
	put32(data, at->fd, (u32)fd);
	return NV_OK;
}

static u32 reuse(struct nv_state *nv, const u8 *data, u32 count, int fd)
{
	struct dma_buf *buffer = dma_buf_get(fd);
	struct exported *exported;
	u32 status = NV_ERR_INVALID_ARGUMENT;

	if (IS_ERR(buffer))
		return NV_ERR_OPERATING_SYSTEM;
	exported = buffer->priv;
	if (buffer->ops == &operations && exported->card == nv->card)
		status = take(exported, data, count);
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
	return fd == -1 ? create(nv, params, count, total) : reuse(nv, params, count, fd);
}

MODULE_IMPORT_NS(DMA_BUF);
