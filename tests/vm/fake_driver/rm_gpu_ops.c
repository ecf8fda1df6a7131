// SPDX-License-Identifier: GPL-2.0
/* What nvidia-uvm.ko asks of the card: devices, address spaces and memory (src/nvidia/src/kernel/rmapi/nv_gpu_ops.c). */
#include <linux/sched.h>
#include <linux/slab.h>

#include "rm_gpu_ops.h"

/* Addresses of memory that the kernel allocated for itself: the handle is in the low half. */
#define KERNEL_MEMORY_BASE (1ull << 40)

static u32 find_card(const NvProcessorUuid *uuid, u32 *card)
{
	u32 i;

	for (i = 0; i < nvidia_card->card_count; i++) {
		if (memcmp(nvidia_card->cards[i].uuid, uuid->uuid, sizeof(uuid->uuid)) == 0) {
			*card = i;
			return NV_OK;
		}
	}
	return NV_ERR_OBJECT_NOT_FOUND;
}

u32 rm_gpu_ops_fill_device(struct uvmGpuDevice *device)
{
	struct alloc_request request = { .class_id = NV01_ROOT };
	struct client *client;
	struct object *object;
	u32 status = client_create(nvidia_card, NULL, &request);

	if (status != NV_OK)
		return status;
	client = client_find(nvidia_card, request.handle);
	status = object_create(nvidia_card, client, client->root, &device->device, NV01_DEVICE_0, &object);
	if (status != NV_OK) {
		client_free(nvidia_card, client);
		return status;
	}
	object->card = device->card;
	device->client = request.handle;
	return NV_OK;
}

u32 rm_gpu_ops_create_device(const NvProcessorUuid *uuid, struct uvmGpuDevice **device)
{
	struct uvmGpuDevice *made;
	u32 card, status = find_card(uuid, &card);

	if (status != NV_OK)
		return status;
	made = kzalloc(sizeof(*made), GFP_KERNEL);
	if (!made)
		return NV_ERR_NO_MEMORY;
	made->card = card;
	mutex_lock(&nvidia_card->lock);
	status = rm_gpu_ops_fill_device(made);
	mutex_unlock(&nvidia_card->lock);
	if (status == NV_OK)
		*device = made;
	else
		kfree(made);
	return status;
}

void rm_gpu_ops_destroy_device(struct uvmGpuDevice *device)
{
	struct client *client;

	mutex_lock(&nvidia_card->lock);
	client = client_find(nvidia_card, device->client);
	if (client)
		client_free(nvidia_card, client);
	mutex_unlock(&nvidia_card->lock);
	kfree(device);
}

/*
 * An object of a user's client. client_resource.c:216-230: with its own rights given up, the kernel may copy what this very process
 * made.
 */
static u32 find_user_object(u32 client_handle, u32 handle, struct object **object)
{
	struct client *client = client_find(nvidia_card, client_handle);

	if (!client)
		return NV_ERR_INVALID_OBJECT_HANDLE;
	*object = object_find(nvidia_card, client, handle);
	if (!*object)
		return NV_ERR_OBJECT_NOT_FOUND;
	if (client->process != 0 && client->process != task_tgid_nr(current))
		return NV_ERR_INSUFFICIENT_PERMISSIONS;
	return NV_OK;
}

u32 rm_gpu_ops_dup_address_space(struct uvmGpuDevice *device, u32 client, u32 handle, struct uvmGpuAddressSpace **space)
{
	struct uvmGpuAddressSpace *made = kzalloc(sizeof(*made), GFP_KERNEL);
	struct object *source;
	u32 status;

	if (!made)
		return NV_ERR_NO_MEMORY;
	made->device = device;
	mutex_lock(&nvidia_card->lock);
	status = find_user_object(client, handle, &source);
	if (status == NV_OK && source->class_id != FERMI_VASPACE_A)
		status = NV_ERR_INVALID_ARGUMENT;
	/* nvGpuOpsDupAddressSpace() */
	if (status == NV_OK && !source->external)
		status = NV_ERR_INVALID_FLAGS;
	if (status == NV_OK)
		status = object_duplicate(nvidia_card, source,
			object_find(nvidia_card, client_find(nvidia_card, device->client), device->device),
			&made->handle);
	mutex_unlock(&nvidia_card->lock);
	if (status == NV_OK)
		*space = made;
	else
		kfree(made);
	return status;
}

void rm_gpu_ops_destroy_address_space(struct uvmGpuAddressSpace *space)
{
	rm_gpu_ops_free_duped_handle(space->device, space->handle);
	kfree(space);
}

/* The device object that new memory goes under; the lock is held. */
static struct object *parent_of(const struct uvmGpuDevice *device)
{
	return object_find(nvidia_card, client_find(nvidia_card, device->client), device->device);
}

static void describe(const struct object *object, UvmGpuMemoryInfo *info)
{
	const struct memory *memory = object->memory;

	*info = (UvmGpuMemoryInfo){ .sysmem = memory == NULL, .deviceDescendant = 1, .pageSize = SIM_PAGE };
	if (!memory)
		return;
	info->pageSize = memory->size % SIM_PAGE_HUGE == 0 ? SIM_PAGE_HUGE : SIM_PAGE_BIG;
	info->contig = 1;
	info->size = memory->size;
	memcpy(info->uuid.uuid, nvidia_card->cards[memory->card].uuid, sizeof(info->uuid.uuid));
}

u32 rm_gpu_ops_dup_memory(struct uvmGpuDevice *device, u32 client, u32 handle, u32 *copy, UvmGpuMemoryInfo *info)
{
	struct object *source;
	u32 status;

	*copy = 0;
	mutex_lock(&nvidia_card->lock);
	status = find_user_object(client, handle, &source);
	if (status == NV_OK && !class_is_memory_request(source->class_id))
		status = NV_ERR_INVALID_ARGUMENT;
	if (status == NV_OK)
		status = object_duplicate(nvidia_card, source, parent_of(device), copy);
	if (status == NV_OK)
		describe(source, info);
	mutex_unlock(&nvidia_card->lock);
	return status;
}

u32 rm_gpu_ops_free_duped_handle(struct uvmGpuDevice *device, u32 handle)
{
	struct object *object;

	mutex_lock(&nvidia_card->lock);
	object = object_find(nvidia_card, client_find(nvidia_card, device->client), handle);
	if (object)
		object_free(nvidia_card, object);
	mutex_unlock(&nvidia_card->lock);
	return object ? NV_OK : NV_ERR_OBJECT_NOT_FOUND;
}

u32 rm_gpu_ops_memory_alloc_fb(struct uvmGpuAddressSpace *space, u64 length, u64 *pointer, UvmGpuAllocInfo *info)
{
	struct memory_request request = { .owner = 1, .size = length };
	struct object *created;
	u32 status;

	mutex_lock(&nvidia_card->lock);
	status = class_create_video_memory(nvidia_card, parent_of(space->device), 0, &request, &created);
	if (status == NV_OK) {
		info->hPhysHandle = created->handle;
		info->gpuPhysOffset = request.offset;
		*pointer = KERNEL_MEMORY_BASE | created->handle;
	}
	mutex_unlock(&nvidia_card->lock);
	return status;
}

void rm_gpu_ops_memory_free(struct uvmGpuAddressSpace *space, u64 pointer)
{
	rm_gpu_ops_free_duped_handle(space->device, (u32)pointer);
}

u32 rm_gpu_ops_pma_alloc_pages(struct card *card, u64 count, u64 page_size, u64 *pages)
{
	u64 bytes, i;
	u32 status = NV_ERR_NO_MEMORY;

	if (page_size < SIM_PAGE_BIG || check_mul_overflow(count, page_size, &bytes))
		return NV_ERR_INVALID_ARGUMENT;
	mutex_lock(&nvidia_card->lock);
	if (bytes <= card->bytes - card->used) {
		for (i = 0; i < count; i++)
			pages[i] = card->next_offset + i * page_size;
		card->used += bytes;
		if (card->used > card->peak)
			card->peak = card->used;
		card->next_offset += bytes;
		status = NV_OK;
	}
	mutex_unlock(&nvidia_card->lock);
	return status;
}

void rm_gpu_ops_pma_free_pages(struct card *card, u64 count, u64 page_size)
{
	mutex_lock(&nvidia_card->lock);
	WARN_ON(card->used < count * page_size);
	card->used -= count * page_size;
	mutex_unlock(&nvidia_card->lock);
}
