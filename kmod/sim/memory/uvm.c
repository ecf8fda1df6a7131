// SPDX-License-Identifier: Apache-2.0
/*
 * The node nvidia-uvm (kernel-open/nvidia-uvm/uvm.c, uvm_va_space.c), as far as a program can tell that never touches what
 * it maps. FUSE does not tell of mappings, so nothing takes memory of a card for them.
 */
#include <errno.h>
#include <stdlib.h>

#include "uvm.h"

#define PARAMS_MAX 9280u

#define LAYOUT(abi, params) \
	.bytes_at = offsetof(struct abi, params.bytes), .status_at = offsetof(struct abi, params.rmStatus)
#define ROUTE(number, function) .command = number, LAYOUT(nv_abi, number##_PARAMS), .run = function
#define CARD_ROUTE(number, function) \
	.command = number, .of_card = true, LAYOUT(card_abi, number##_PARAMS), .run = function
#define SPAN(params)                                                \
	.base_at = offsetof(struct card_abi, params.requestedBase), \
	.length_at = offsetof(struct card_abi, params.length)
#define PLACE(params, field) .place_at = offsetof(struct card_abi, params.field)

/* The channels of a simulated card may touch UVM's memory in any case (uvm_user_channel.c). */
static uint32_t register_channel(struct uvm_call *call)
{
	const struct nv_layout_UVM_REGISTER_CHANNEL_PARAMS *at = &call->sim->abi->UVM_REGISTER_CHANNEL_PARAMS;
	uint32_t card = uvm_card(call, call->params + at->gpuUuid), status;
	struct object *object;

	if (card == SIM_NO_CARD || !call->file->has_va_space[card])
		return NV_ERR_INVALID_DEVICE;
	status = uvm_find_object(call, get32(call->params, at->hClient), get32(call->params, at->hChannel), &object);
	if (status != NV_OK)
		return status;
	return class_is_channel(object->class_id) && object->card == card ? NV_OK : NV_ERR_INVALID_CHANNEL;
}

/* Nothing is recorded of it. */
static uint32_t unregister_channel(struct uvm_call *call)
{
	(void)call;
	return NV_OK;
}

struct uvm_file *uvm_open(struct sim *sim)
{
	struct uvm_file *file = calloc(1, sizeof(*file));

	if (!file)
		return NULL;
	pthread_mutex_lock(&sim->lock);
	file->id = ++sim->next_file;
	file->next = sim->uvm_files;
	sim->uvm_files = file;
	pthread_mutex_unlock(&sim->lock);
	return file;
}

void uvm_release(struct sim *sim, struct uvm_file *file)
{
	struct uvm_file **at = &sim->uvm_files;

	pthread_mutex_lock(&sim->lock);
	uvm_drop_all(sim, file);
	while (*at != file)
		at = &(*at)->next;
	*at = file->next;
	pthread_mutex_unlock(&sim->lock);
	if (file->type == UVM_MM)
		file_let_go(file->target);
	free(file);
}

static uint32_t initialize(struct uvm_call *call)
{
	uint64_t flags = get64(call->params, call->sim->abi->UVM_INITIALIZE_PARAMS.flags);

	if (call->file->type == UVM_MM)
		return NV_ERR_INVALID_ARGUMENT;
	/* uvm_va_space_create(), UVM_INIT_FLAGS_MASK */
	if (flags & ~(uint64_t)(UVM_INIT_FLAGS_DISABLE_HMM | UVM_INIT_FLAGS_MULTI_PROCESS_SHARING_MODE))
		return NV_ERR_INVALID_ARGUMENT;
	if (call->file->type == UVM_VA_SPACE)
		return call->file->flags == flags ? NV_OK : NV_ERR_INVALID_ARGUMENT;
	call->file->type = UVM_VA_SPACE;
	call->file->flags = flags;
	return NV_OK;
}

/* A second file that belongs to the address space of the first, and keeps that open. Without the lock. */
static uint32_t mm_initialize(struct uvm_call *call)
{
	struct call resolving = { .sim = call->sim, .caller = call->caller };
	int fd = (int)get32(call->params, call->sim->abi->UVM_MM_INITIALIZE_PARAMS.uvmFd);
	uint32_t status = NV_ERR_INVALID_ARGUMENT;
	struct uvm_file *at;
	intptr_t hold = -1;
	uint64_t id = file_resolve(&resolving, fd, &hold);

	if (id == 0)
		return status;
	pthread_mutex_lock(&call->sim->lock);
	for (at = call->sim->uvm_files; at && at->id != id; at = at->next)
		;
	if (at && at->type == UVM_VA_SPACE)
		status = call->file->type == UVM_UNINITIALIZED ? NV_OK : NV_ERR_IN_USE;
	if (status == NV_OK && (at->flags & UVM_INIT_FLAGS_MULTI_PROCESS_SHARING_MODE))
		status = NV_WARN_NOTHING_TO_DO;
	if (status == NV_OK) {
		call->file->type = UVM_MM;
		call->file->target = hold;
	}
	pthread_mutex_unlock(&call->sim->lock);
	if (status != NV_OK)
		file_let_go(hold);
	return status;
}

static uint32_t register_gpu(struct uvm_call *call)
{
	const struct nv_layout_UVM_REGISTER_GPU_PARAMS *at = &call->sim->abi->UVM_REGISTER_GPU_PARAMS;
	uint32_t card = card_of_uuid(call->sim, call->params + at->gpu_uuid);

	call->params[at->numaEnabled] = 0;
	put32(call->params, at->numaNodeId, UINT32_MAX);
	if (card == SIM_NO_CARD)
		return NV_ERR_INVALID_DEVICE;
	call->file->registered[card] = true;
	return NV_OK;
}

static uint32_t unregister_gpu(struct uvm_call *call)
{
	uint32_t card = uvm_card(call, call->params + call->sim->abi->UVM_UNREGISTER_GPU_PARAMS.gpu_uuid);

	if (card == SIM_NO_CARD)
		return NV_ERR_INVALID_DEVICE;
	uvm_drop_card(call->sim, call->file, card);
	call->file->registered[card] = call->file->has_va_space[card] = false;
	return NV_OK;
}

static uint32_t register_gpu_va_space(struct uvm_call *call)
{
	const struct nv_layout_UVM_REGISTER_GPU_VASPACE_PARAMS *at = &call->sim->abi->UVM_REGISTER_GPU_VASPACE_PARAMS;
	uint32_t card = uvm_card(call, call->params + at->gpuUuid), status;
	struct object *object;

	if (card == SIM_NO_CARD || call->file->has_va_space[card])
		return NV_ERR_INVALID_DEVICE;
	status = uvm_find_object(call, get32(call->params, at->hClient), get32(call->params, at->hVaSpace), &object);
	if (status == NV_OK && object->class_id != FERMI_VASPACE_A)
		status = NV_ERR_INVALID_ARGUMENT;
	/* nvGpuOpsDupAddressSpace() */
	if (status == NV_OK && !object->external)
		status = NV_ERR_INVALID_FLAGS;
	if (status == NV_OK) {
		call->file->has_va_space[card] = true;
		call->file->va_space_client[card] = object->client->number;
		call->file->va_space[card] = object->handle;
	}
	return status;
}

static uint32_t unregister_gpu_va_space(struct uvm_call *call)
{
	uint32_t card = uvm_card(call, call->params + call->sim->abi->UVM_UNREGISTER_GPU_VASPACE_PARAMS.gpuUuid);

	if (card == SIM_NO_CARD || !call->file->has_va_space[card])
		return NV_ERR_INVALID_DEVICE;
	uvm_drop_card(call->sim, call->file, card);
	call->file->has_va_space[card] = false;
	return NV_OK;
}

/* Memory that is not the driver's is out of the cards' reach: no HMM, no ATS. */
static uint32_t pageable_access(struct uvm_call *call)
{
	call->params[call->sim->abi->UVM_PAGEABLE_MEM_ACCESS_PARAMS.pageableMemAccess] = 0;
	return NV_OK;
}

static const struct uvm_route routes[] = {
	{ ROUTE(UVM_INITIALIZE, initialize) },
	{ ROUTE(UVM_MM_INITIALIZE, mm_initialize) },
	{ ROUTE(UVM_REGISTER_GPU, register_gpu) },
	{ ROUTE(UVM_UNREGISTER_GPU, unregister_gpu) },
	{ ROUTE(UVM_REGISTER_GPU_VASPACE, register_gpu_va_space) },
	{ ROUTE(UVM_UNREGISTER_GPU_VASPACE, unregister_gpu_va_space) },
	{ ROUTE(UVM_REGISTER_CHANNEL, register_channel) },
	{ ROUTE(UVM_UNREGISTER_CHANNEL, unregister_channel) },
	{ ROUTE(UVM_PAGEABLE_MEM_ACCESS, pageable_access) },
	{ ROUTE(UVM_CREATE_EXTERNAL_RANGE, uvm_create_external_range) },
	{ ROUTE(UVM_MAP_EXTERNAL_ALLOCATION, uvm_map_external_allocation) },
	{ ROUTE(UVM_UNMAP_EXTERNAL, uvm_unmap_external) },
	{ ROUTE(UVM_FREE, uvm_free) },
	{ ROUTE(UVM_ALLOC_SEMAPHORE_POOL, uvm_alloc_semaphore_pool) },
	{ ROUTE(UVM_ALLOC_DEVICE_P2P, uvm_alloc_device_p2p) },
	{ ROUTE(UVM_VALIDATE_VA_RANGE, uvm_validate_va_range) },
	{ ROUTE(UVM_MIGRATE, uvm_migrate) },
	{ CARD_ROUTE(UVM_MAP_DYNAMIC_PARALLELISM_REGION, uvm_map_window) },
	{ CARD_ROUTE(UVM_PAGEABLE_MEM_ACCESS_ON_GPU, uvm_pageable_access_on_gpu) },
	{ CARD_ROUTE(UVM_CREATE_RANGE_GROUP, uvm_create_range_group) },
	{ CARD_ROUTE(UVM_DESTROY_RANGE_GROUP, uvm_destroy_range_group) },
	{ CARD_ROUTE(UVM_SET_RANGE_GROUP, uvm_set_range_group) },
	{ CARD_ROUTE(UVM_SET_PREFERRED_LOCATION, uvm_policy), SPAN(UVM_SET_PREFERRED_LOCATION_PARAMS),
		PLACE(UVM_SET_PREFERRED_LOCATION_PARAMS, preferredLocation) },
	{ CARD_ROUTE(UVM_UNSET_PREFERRED_LOCATION, uvm_policy), SPAN(UVM_UNSET_PREFERRED_LOCATION_PARAMS) },
	{ CARD_ROUTE(UVM_ENABLE_READ_DUPLICATION, uvm_policy), SPAN(UVM_ENABLE_READ_DUPLICATION_PARAMS) },
	{ CARD_ROUTE(UVM_DISABLE_READ_DUPLICATION, uvm_policy), SPAN(UVM_DISABLE_READ_DUPLICATION_PARAMS) },
	{ CARD_ROUTE(UVM_SET_ACCESSED_BY, uvm_policy), SPAN(UVM_SET_ACCESSED_BY_PARAMS),
		PLACE(UVM_SET_ACCESSED_BY_PARAMS, accessedByUuid) },
	{ CARD_ROUTE(UVM_UNSET_ACCESSED_BY, uvm_policy), SPAN(UVM_UNSET_ACCESSED_BY_PARAMS),
		PLACE(UVM_UNSET_ACCESSED_BY_PARAMS, accessedByUuid) },
};

static uint32_t run(struct uvm_call *call)
{
	uint32_t (*function)(struct uvm_call * call) = call->route->run, status = NV_ERR_ILLEGAL_ACTION;

	if (function == mm_initialize || function == uvm_migrate)
		return function(call);
	pthread_mutex_lock(&call->sim->lock);
	if (function == initialize || call->file->type == UVM_VA_SPACE)
		status = function(call);
	pthread_mutex_unlock(&call->sim->lock);
	return status;
}

static int run_copy(struct uvm_call *call, uint64_t argument)
{
	const struct uvm_route *route = call->route;
	uint16_t bytes = layout_word(call->sim, route->of_card, route->bytes_at);
	uint8_t params[PARAMS_MAX];

	/* A call that this version of the driver does not have. */
	if (bytes == 0 || bytes > sizeof(params))
		return -EINVAL;
	call->params = params;
	call->process = caller_process(&call->caller);
	if (!user_read(&call->caller, argument, params, bytes))
		return -EFAULT;
	put32(params, layout_word(call->sim, route->of_card, route->status_at), run(call));
	return user_write(&call->caller, argument, params, bytes) ? 0 : -EFAULT;
}

int uvm_ioctl(struct sim *sim, struct uvm_file *file, pid_t thread, uint32_t command, uint64_t argument)
{
	struct uvm_call call = { .sim = sim, .file = file, .caller = { .thread = thread } };
	size_t i;

	if (command == UVM_DEINITIALIZE)
		return 0;
	for (i = 0; i < sizeof(routes) / sizeof(routes[0]); i++) {
		call.route = &routes[i];
		if (call.route->command == command)
			return run_copy(&call, argument);
	}
	return -EINVAL;
}
