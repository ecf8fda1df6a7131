// SPDX-License-Identifier: GPL-2.0
/* Devices and address spaces of nvidia-uvm.ko (src/nvidia/src/kernel/rmapi/nv_gpu_ops.c). */
#include <linux/sched.h>
#include <linux/slab.h>

#include "rm_gpu_ops.h"

u32 rm_gpu_ops_find(const NvProcessorUuid *uuid, u32 *card)
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

/* The lock is held. */
static u32 fill_device(struct uvmGpuDevice *device)
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
	u32 card, status = rm_gpu_ops_find(uuid, &card);

	if (status != NV_OK)
		return status;
	made = kzalloc(sizeof(*made), GFP_KERNEL);
	if (!made)
		return NV_ERR_NO_MEMORY;
	made->card = card;
	mutex_lock(&nvidia_card->lock);
	status = fill_device(made);
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

/* client_resource.c:216-230: with its own rights given up, the kernel may copy what this very process made. */
u32 rm_find_user_object(u32 client_handle, u32 handle, struct object **object)
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
	status = rm_find_user_object(client, handle, &source);
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
