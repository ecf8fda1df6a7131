// SPDX-License-Identifier: Apache-2.0
/* NV_ESC_RM_MAP_MEMORY and the calls on such a mapping, where cards have a folder for their memory. */
#include <errno.h>

#include "sim.h"
#include "backing.h"
#include "gpu.h"
#include "mapping.h"

static uint32_t ready(struct call *call, uint64_t id)
{
	const __auto_type at = &call->sim->abi->nv_ioctl_nvos33_parameters_with_fd;
	uint64_t offset = get64(call->data, at->params_offset), length = get64(call->data, at->params_length);
	struct open_file *file = file_find(call->sim, id);
	struct backing *backing;
	struct client *client;
	struct object *object;
	uint32_t status = client_for_call(call, get32(call->data, at->params_hClient), &client);

	if (status != NV_OK)
		return status;
	object = object_find(call->sim, client, get32(call->data, at->params_hMemory));
	if (!object)
		return NV_ERR_OBJECT_NOT_FOUND;
	backing = backing_of(call->sim, object);
	if (!backing || backing->process || !file || !backing_need(call->sim, backing))
		return NV_ERR_NOT_SUPPORTED;
	if (length == 0 || offset > backing->size || length > backing->size - offset)
		return NV_ERR_INVALID_LIMIT;
	file->mapping = (struct mapping){ .number = backing->number, .offset = offset, .length = length };
	/* This is no address of the machine's: the file knows the mapping. */
	put64(call->data, at->params_pLinearAddress, 0);
	return NV_OK;
}

static int escape_map_memory(struct call *call)
{
	const __auto_type at = &call->sim->abi->nv_ioctl_nvos33_parameters_with_fd;
	intptr_t hold = -1;
	uint64_t id;

	id = file_resolve(call, (int)get32(call->data, at->fd), &hold);
	if (id == 0)
		return -EINVAL;
	pthread_mutex_lock(&call->sim->lock);
	put32(call->data, at->params_status, ready(call, id));
	pthread_mutex_unlock(&call->sim->lock);
	file_let_go(hold);
	return 0;
}

/* The process unmaps; the simulation has no record of the mapping. */
static int escape_unmap_memory(struct call *call)
{
	const struct nv_layout_NVOS34_PARAMETERS *at = &call->sim->abi->NVOS34_PARAMETERS;

	put32(call->data, at->status, NV_OK);
	return 0;
}

/* The process has moved the mapping, of which the simulation has no record (rmapi/mapping_cpu.c). */
static int escape_move_mapping(struct call *call)
{
	const struct nv_layout_NVOS56_PARAMETERS *at = &call->sim->abi->NVOS56_PARAMETERS;
	struct client *client;
	uint32_t status;

	pthread_mutex_lock(&call->sim->lock);
	status = client_for_call(call, get32(call->data, at->hClient), &client);
	if (status == NV_OK && !object_find(call->sim, client, get32(call->data, at->hMemory)))
		status = NV_ERR_OBJECT_NOT_FOUND;
	put32(call->data, at->status, status);
	pthread_mutex_unlock(&call->sim->lock);
	return 0;
}

int mapping_read(struct sim *sim, struct open_file *file, void *out, size_t size)
{
	int result = -EINVAL;

	pthread_mutex_lock(&sim->lock);
	if (size >= sizeof(file->mapping) && file->mapping.length != 0) {
		memcpy(out, &file->mapping, sizeof(file->mapping));
		result = sizeof(file->mapping);
	}
	pthread_mutex_unlock(&sim->lock);
	return result;
}

static const struct escape_entry escapes[] = {
	{ NV_ESC_RM_MAP_MEMORY, ON_CTL, BYTES(nv_ioctl_nvos33_parameters_with_fd), escape_map_memory },
	{ NV_ESC_RM_UNMAP_MEMORY, ON_CTL, BYTES(NVOS34_PARAMETERS), escape_unmap_memory },
	{ NV_ESC_RM_UPDATE_DEVICE_MAPPING_INFO, ON_CTL, BYTES(NVOS56_PARAMETERS), escape_move_mapping },
	{ 0 },
};

const struct contents gpu_contents = {
	.forget_work = gpu_channel_forget,
	.add_work = gpu_channel_add,
	.escapes = escapes,
};
