// SPDX-License-Identifier: GPL-2.0-only
/*
 * Functions for dma-bufs of the open half (src/nvidia/arch/nvalloc/unix/src/osapi.c): duplicates in a client of the
 * driver's own, one for each card. The driver always has this client; here it exists while it has anything.
 */
#include "driver.h"

#define MAPPING_TYPE_MAX 1 /* NV_DMABUF_EXPORT_MAPPING_TYPE_FORCE_PCIE */

/* A client of the kernel's own with a device in it. */
struct keeper {
	u32 client, device, users;
};

static struct keeper keepers[SIM_MAX_CARDS];

/* The lock is held. */
static u32 fill_keeper(struct keeper *keeper, u32 card)
{
	struct alloc_request request = { .class_id = NV01_ROOT };
	struct client *client;
	struct object *object;
	u32 status = client_create(nvidia_card, NULL, &request);

	if (status != NV_OK)
		return status;
	client = client_find(nvidia_card, request.handle);
	keeper->device = 0;
	status = object_create(nvidia_card, client, client->root, &keeper->device, NV01_DEVICE_0, &object);
	if (status != NV_OK) {
		client_free(nvidia_card, client);
		return status;
	}
	object->card = card;
	keeper->client = request.handle;
	return NV_OK;
}

noinline u32 rm_dma_buf_get_client_and_device(
	struct nvidia_stack *sp, struct nv_state *nv, u32 *client, u32 *device, u32 *subdevice, void **instance)
{
	struct keeper *keeper = &keepers[nv->card];
	u32 status = NV_OK;

	mutex_lock(&nvidia_card->lock);
	/* One that was left with something in it is there still. */
	if (keeper->users == 0 && !client_find(nvidia_card, keeper->client))
		status = fill_keeper(keeper, nv->card);
	if (status == NV_OK) {
		keeper->users++;
		*client = keeper->client;
		*device = keeper->device;
		*subdevice = 0;
		*instance = NULL;
	}
	mutex_unlock(&nvidia_card->lock);
	return status;
}

noinline void rm_dma_buf_put_client_and_device(
	struct nvidia_stack *sp, struct nv_state *nv, u32 client, u32 device, u32 subdevice, void *instance)
{
	struct keeper *keeper = &keepers[nv->card];
	struct client *own;

	mutex_lock(&nvidia_card->lock);
	own = client_find(nvidia_card, keeper->client);
	/* Free the client only when it is empty: nothing here frees its objects. */
	if (--keeper->users == 0 && own && !object_find(nvidia_card, own, keeper->device)->child)
		client_free(nvidia_card, own);
	mutex_unlock(&nvidia_card->lock);
}

/* RmDmabufVerifyMemHandle(): whose client it is, is not asked. */
static u32 verify(
	const struct nv_state *nv, u32 client_handle, u32 handle, u64 offset, u64 size, struct object **object)
{
	struct client *client = client_find(nvidia_card, client_handle);
	const struct memory *memory;

	if (!client)
		return NV_ERR_INVALID_CLIENT;
	*object = object_find(nvidia_card, client, handle);
	if (!*object)
		return NV_ERR_OBJECT_NOT_FOUND;
	memory = (*object)->memory;
	/* Memory of the host among others. */
	if (!memory)
		return NV_ERR_INVALID_ARGUMENT;
	if (memory->card != nv->card)
		return NV_ERR_INVALID_OBJECT_PARENT;
	if (offset % SIM_PAGE || size % SIM_PAGE || size == 0 || size > memory->size || offset > memory->size - size)
		return NV_ERR_INVALID_ARGUMENT;
	return NV_OK;
}

/*
 * rest: the kind of mapping, from 615.71.09 on; where the duplicate's handle goes; the memory, from 535.43.02 on; four more
 * places from 580.65.06 on.
 */
noinline u32 rm_dma_buf_dup_mem_handle(struct nvidia_stack *sp, struct nv_state *nv, u32 source, u32 target, u32 device,
	u32 subdevice, void *instance, u32 handle, u64 offset, u64 size, u64 rest1, u64 rest2, u64 rest3, u64 rest4,
	u64 rest5, u64 rest6, u64 rest7)
{
	u64 rest[] = { rest1, rest2, rest3, rest4, rest5, rest6, rest7 };
	const u64 *at = rest;
	struct object *object;
	u32 copy = 0, status;

	if (knob_fails(__func__))
		return NV_ERR_INSUFFICIENT_RESOURCES;
	if (version_at_least(nvidia_card, 615, 71, 9) && (u8)*at++ > MAPPING_TYPE_MAX)
		return NV_ERR_INVALID_ARGUMENT;
	mutex_lock(&nvidia_card->lock);
	status = verify(nv, source, handle, offset, size, &object);
	if (status == NV_OK)
		status = object_duplicate(
			nvidia_card, object, object_find(nvidia_card, client_find(nvidia_card, target), device), &copy);
	if (status == NV_OK && version_at_least(nvidia_card, 535, 43, 2))
		*(void **)at[1] = object->memory;
	mutex_unlock(&nvidia_card->lock);
	if (status != NV_OK)
		return status;
	*(u32 *)at[0] = copy;
	if (version_at_least(nvidia_card, 580, 65, 6)) {
		*(u8 *)at[2] = 0; /* may it be mapped */
		*(u32 *)at[3] = 0; /* how it is cached */
		*(u8 *)at[4] = 0; /* is it read only */
		*(u32 *)at[5] = 0; /* what memory */
	}
	return NV_OK;
}

noinline void rm_dma_buf_undup_mem_handle(struct nvidia_stack *sp, struct nv_state *nv, u32 client, u32 handle)
{
	struct client *own;
	struct object *object;

	mutex_lock(&nvidia_card->lock);
	own = client_find(nvidia_card, client);
	object = own ? object_find(nvidia_card, own, handle) : NULL;
	if (object)
		object_free(nvidia_card, object);
	mutex_unlock(&nvidia_card->lock);
}
