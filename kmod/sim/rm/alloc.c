// SPDX-License-Identifier: Apache-2.0
/* NV_ESC_RM_ALLOC in both its forms, and the older NV_ESC_RM_ALLOC_MEMORY. */
#include <errno.h>

#include "backing.h"
#include "sim.h"

/* Enough for every parameter structure that class_params_size() names. */
#define PARAMS_ROOM 1024u

static bool is_root_class(uint32_t class_id)
{
	return class_id == NV01_ROOT || class_id == NV01_ROOT_NON_PRIV || class_id == NV01_ROOT_CLIENT;
}

static bool is_event_class(uint32_t class_id)
{
	return class_id == NV01_EVENT || class_id == NV01_EVENT_OS_EVENT || class_id == NV01_EVENT_KERNEL_CALLBACK ||
		class_id == NV01_EVENT_KERNEL_CALLBACK_EX;
}

static uint32_t alloc_client(struct call *call, struct alloc_request *request)
{
	struct sim *sim = call->sim;
	uint32_t status;
	bool is_kernel = call_is_kernel(call);

	request->process = is_kernel ? 0 : caller_process(&call->caller);
	pthread_mutex_lock(&sim->lock);
	status = client_create(sim, is_kernel ? NULL : file_owner(sim, call->file), request);
	pthread_mutex_unlock(&sim->lock);
	return status;
}

static uint32_t alloc_object(struct call *call, struct alloc_request *request, uint8_t *params)
{
	struct sim *sim = call->sim;
	struct client *client;
	struct object *parent, *created;
	uint32_t status;

	pthread_mutex_lock(&sim->lock);
	status = client_for_call(call, request->client, &client);
	/* Before the parent is looked for (serverAllocResource() in rs_server.c). */
	if (status == NV_OK && !params && class_requires_params(request->class_id))
		status = NV_ERR_INVALID_ARGUMENT;
	if (status == NV_OK) {
		parent = object_find(sim, client, request->parent);
		status = parent ? class_make(sim, request, parent, params, &created) : NV_ERR_INVALID_OBJECT_PARENT;
	}
	if (status == NV_OK)
		request->handle = created->handle;
	pthread_mutex_unlock(&sim->lock);
	return status;
}

static void forget_object(struct call *call, const struct alloc_request *request)
{
	struct client *client;

	pthread_mutex_lock(&call->sim->lock);
	if (client_for_call(call, request->client, &client) == NV_OK)
		free_handle(call->sim, client, request->handle);
	pthread_mutex_unlock(&call->sim->lock);
}

static uint32_t alloc_any(struct call *call, struct alloc_request *request)
{
	uint8_t params[PARAMS_ROOM] = { 0 };
	uint32_t size = class_params_size(call->sim, request->class_id);
	uint32_t status = class_check(request);

	if (status != NV_OK)
		return status;
	if (is_root_class(request->class_id))
		return alloc_client(call, request);
	if (size > PARAMS_ROOM)
		return NV_ERR_INSUFFICIENT_RESOURCES;
	if (request->params == 0)
		return alloc_object(call, request, NULL);
	/* What it holds is not asked of the card here. */
	if (size == 0)
		return alloc_object(call, request, params);
	if (!user_read(&call->caller, request->params, params, size))
		return NV_ERR_INVALID_ADDRESS;
	status = alloc_object(call, request, params);
	if (status == NV_OK && class_is_memory_request(request->class_id) &&
		!user_write(&call->caller, request->params, params, size)) {
		forget_object(call, request);
		return NV_ERR_INVALID_ADDRESS;
	}
	return status;
}

int escape_alloc(struct call *call)
{
	const struct nv_layout_NVOS21_PARAMETERS *small = &call->sim->abi->NVOS21_PARAMETERS;
	const struct nv_layout_NVOS64_PARAMETERS *large = &call->sim->abi->NVOS64_PARAMETERS;
	struct alloc_request request = { 0 };
	uint32_t status;

	if (call->size != small->bytes && call->size != large->bytes)
		return -EINVAL;
	request.client = get32(call->data, small->hRoot);
	request.parent = get32(call->data, small->hObjectParent);
	request.handle = get32(call->data, small->hObjectNew);
	request.class_id = get32(call->data, small->hClass);
	request.params = get64(call->data, small->pAllocParms);
	if (!call_is_kernel(call) && call->file->card != SIM_NO_CARD && !is_event_class(request.class_id))
		return -EINVAL;
	/* escape.c: a client from user space is always of this class. */
	if (!call_is_kernel(call) && is_root_class(request.class_id)) {
		request.class_id = NV01_ROOT_CLIENT;
		put32(call->data, small->hClass, NV01_ROOT_CLIENT);
	}
	if (class_check(&request) == NV_ERR_INSUFFICIENT_PERMISSIONS)
		request.is_admin = caller_is_admin(&call->caller);
	status = alloc_any(call, &request);
	if (status == NV_OK)
		put32(call->data, small->hObjectNew, request.handle);
	put32(call->data, call->size == small->bytes ? small->status : large->status, status);
	return 0;
}

static uint32_t check_pinned(const struct call *call)
{
	const struct nv_layout_nv_ioctl_nvos02_parameters_with_fd *at =
		&call->sim->abi->nv_ioctl_nvos02_parameters_with_fd;
	uint32_t status = pinned_check_flags(get32(call->data, at->params_flags));

	if (status == NV_OK)
		status = pinned_check_range(get64(call->data, at->params_pMemory), get64(call->data, at->params_limit));
	return status;
}

/* Memory of the client's process. */
static void describe_process_memory(struct call *call, const struct alloc_request *request)
{
	const struct nv_layout_nv_ioctl_nvos02_parameters_with_fd *at =
		&call->sim->abi->nv_ioctl_nvos02_parameters_with_fd;
	struct client *client;
	struct object *object;

	pthread_mutex_lock(&call->sim->lock);
	if (client_for_call(call, request->client, &client) == NV_OK) {
		object = object_find(call->sim, client, request->handle);
		if (object && !object->backing)
			object->backing = backing_of_process(client->process, get64(call->data, at->params_pMemory),
				get64(call->data, at->params_limit) + 1);
	}
	pthread_mutex_unlock(&call->sim->lock);
}

/*
 * The old call. Class 0x40 means something else here: an object over the card's whole range that takes no memory, and
 * whose limit tells the size of the card (rmapi_deprecated_allocmemory.c:287-360).
 */
int escape_alloc_memory(struct call *call)
{
	const struct nv_layout_nv_ioctl_nvos02_parameters_with_fd *at =
		&call->sim->abi->nv_ioctl_nvos02_parameters_with_fd;
	struct alloc_request request = {
		.client = get32(call->data, at->params_hRoot),
		.parent = get32(call->data, at->params_hObjectParent),
		.handle = get32(call->data, at->params_hObjectNew),
	};
	uint32_t class_id = get32(call->data, at->params_hClass), status = NV_OK, card = SIM_NO_CARD;

	if (class_id == NV01_MEMORY_LOCAL_USER) {
		request.class_id = NV01_MEMORY_VIRTUAL;
	} else if (class_id == NV01_MEMORY_SYSTEM || class_id == NV01_MEMORY_SYSTEM_OS_DESCRIPTOR) {
		request.class_id = NV01_MEMORY_SYSTEM_OS_DESCRIPTOR;
	} else {
		put32(call->data, at->params_status, NV_ERR_INVALID_CLASS);
		return 0;
	}
	if (class_id == NV01_MEMORY_SYSTEM_OS_DESCRIPTOR)
		status = check_pinned(call);
	if (status == NV_OK)
		status = alloc_object(call, &request, NULL);
	card = call->file->card;
	if (status == NV_OK && request.class_id == NV01_MEMORY_SYSTEM_OS_DESCRIPTOR)
		describe_process_memory(call, &request);
	if (status == NV_OK)
		put32(call->data, at->params_hObjectNew, request.handle);
	if (status == NV_OK && class_id == NV01_MEMORY_LOCAL_USER)
		put64(call->data, at->params_limit, call->sim->cards[card].bytes - 1);
	put32(call->data, at->params_status, status);
	return 0;
}
