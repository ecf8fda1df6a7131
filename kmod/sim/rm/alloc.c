// SPDX-License-Identifier: Apache-2.0
/*
 * How objects of each class come and go: NV_ESC_RM_ALLOC in both its forms, the older NV_ESC_RM_ALLOC_MEMORY,
 * NV_ESC_RM_DUP_OBJECT and NV_ESC_RM_FREE.
 */
#include <errno.h>

#include "backing.h"
#include "sim.h"

/* Enough for every parameter structure that class_params_size() names. */
#define PARAMS_ROOM 1024u

static uint32_t create_device(struct sim *sim, const struct alloc_request *request, struct object *parent,
	const uint8_t *params, struct object **created)
{
	uint32_t handle = request->handle, status, card;

	if (!params)
		return NV_ERR_INVALID_ARGUMENT;
	card = card_at(sim, get32(params, sim->abi->NV0080_ALLOC_PARAMETERS.deviceId));
	/* device.c, deviceConstruct_IMPL() */
	if (card == SIM_NO_CARD)
		return NV_ERR_INVALID_CLASS;
	status = object_create(sim, parent->client, parent, &handle, request->class_id, created);
	if (status == NV_OK)
		(*created)->card = card;
	return status;
}

uint32_t class_create_video_memory(struct sim *sim, struct object *parent, uint32_t handle,
	struct memory_request *request, struct object **created)
{
	struct memory *memory;
	uint32_t status;

	/* The processor on the card is told of each object, and cannot be (kernel_gsp.c:316). */
	if (parent->card != SIM_NO_CARD && sim->cards[parent->card].lost)
		return NV_ERR_GPU_IS_LOST;
	/* video_mem.c:432: there is no heap for it. */
	if (mig_denies(sim, parent))
		return NV_ERR_INVALID_STATE;
	status = object_create(sim, parent->client, parent, &handle, NV01_MEMORY_LOCAL_USER, created);
	if (status != NV_OK)
		return status;
	status = memory_create(sim, parent->card, request, &memory);
	if (status != NV_OK) {
		object_free(sim, *created);
		return status;
	}
	(*created)->memory = memory;
	(*created)->memory_owner = true;
	return NV_OK;
}

/* sem_surf.c _semsurfDupMemory(): the memory is there as long as the surface. */
static uint32_t create_surface(struct sim *sim, const struct alloc_request *request, struct object *parent,
	const uint8_t *params, struct object **created)
{
	const struct object *memory;
	uint32_t handle = request->handle, status;

	if (!params)
		return NV_ERR_INVALID_ARGUMENT;
	memory = object_find(
		sim, parent->client, get32(params, sim->abi->NV_SEMAPHORE_SURFACE_ALLOC_PARAMETERS.hSemaphoreMem));
	if (!memory || !class_is_memory_request(memory->class_id))
		return NV_ERR_INVALID_OBJECT_HANDLE;
	status = object_create(sim, parent->client, parent, &handle, request->class_id, created);
	if (status != NV_OK || !memory->memory)
		return status;
	(*created)->memory = memory->memory;
	memory->memory->refs++;
	return NV_OK;
}

static void read_request(const struct sim *sim, const uint8_t *params, struct memory_request *request)
{
	const struct nv_layout_NV_MEMORY_ALLOCATION_PARAMS *at = &sim->abi->NV_MEMORY_ALLOCATION_PARAMS;

	*request = (struct memory_request){
		.owner = get32(params, at->owner),
		.type = get32(params, at->type),
		.flags = get32(params, at->flags),
		.attr = get32(params, at->attr),
		.attr2 = get32(params, at->attr2),
		.va_space = get32(params, at->hVASpace),
		.internal_flags = get32(params, at->internalflags),
		.range_low = get64(params, at->rangeLo),
		.range_high = get64(params, at->rangeHi),
		.size = get64(params, at->size),
		.alignment = get64(params, at->alignment),
		.offset = get64(params, at->offset),
	};
}

static void write_request(const struct sim *sim, uint8_t *params, const struct memory_request *request)
{
	const struct nv_layout_NV_MEMORY_ALLOCATION_PARAMS *at = &sim->abi->NV_MEMORY_ALLOCATION_PARAMS;

	put32(params, at->flags, request->flags);
	put32(params, at->attr, request->attr);
	put32(params, at->attr2, request->attr2);
	put64(params, at->size, request->size);
	put64(params, at->alignment, request->alignment);
	put64(params, at->offset, request->offset);
	put64(params, at->limit, request->limit);
	put64(params, at->address, 0);
}

static uint32_t take_tables(struct sim *sim, struct object *object, const struct memory_request *request)
{
	const struct object *space = object_find(sim, object->client, request->va_space);

	if (request->va_space == 0)
		return tables_of_addresses(sim, object, NULL, request);
	if (!space || space->class_id != FERMI_VASPACE_A)
		return space ? NV_ERR_INVALID_OBJECT_HANDLE : NV_ERR_OBJECT_NOT_FOUND;
	return tables_of_addresses(sim, object, space, request);
}

uint32_t memory_describe(struct sim *sim, struct object *object, struct memory_request *request)
{
	if (object->class_id == NV50_MEMORY_VIRTUAL) {
		uint32_t status = take_tables(sim, object, request);

		if (status != NV_OK) {
			object_free(sim, object);
			return status;
		}
		object->va_space = request->va_space;
		if (!(request->flags & NVOS32_ALLOC_FLAGS_FIXED_ADDRESS_ALLOCATE)) {
			/* Addresses from the middle of a space on; libraries choose their own below. */
			request->offset = SIM_VIRTUAL_BASE + sim->next_virtual;
			sim->next_virtual += (request->size + SIM_PAGE_HUGE - 1) / SIM_PAGE_HUGE * SIM_PAGE_HUGE;
		}
		return NV_OK;
	}
	object->backing = backing_make(request->size);
	if (object->backing)
		return NV_OK;
	object_free(sim, object);
	return NV_ERR_NO_MEMORY;
}

/* Host and virtual memory: an object that takes nothing from the card. */
static uint32_t create_other_memory(struct sim *sim, const struct alloc_request *request, struct object *parent,
	struct memory_request *memory, struct object **created)
{
	uint32_t handle = request->handle, status;
	uint32_t place = memory->attr >> NVOS32_ATTR_LOCATION_SHIFT & NVOS32_ATTR_LOCATION_MASK;

	if (memory->size == 0 || memory->size > UINT64_MAX - SIM_PAGE || memory->internal_flags != 0)
		return NV_ERR_INVALID_ARGUMENT;
	if (memory->owner == 0 || memory->owner == UINT32_MAX)
		return NV_ERR_INVALID_OWNER;
	/* system_mem.c:194 */
	if (request->class_id == NV01_MEMORY_SYSTEM && place == NVOS32_ATTR_LOCATION_VIDMEM)
		return NV_ERR_INVALID_ARGUMENT;
	memory->size = (memory->size + SIM_PAGE - 1) / SIM_PAGE * SIM_PAGE;
	memory->limit = memory->size - 1;
	status = object_create(sim, parent->client, parent, &handle, request->class_id, created);
	return status == NV_OK ? memory_describe(sim, *created, memory) : status;
}

static uint32_t create_va_space(struct sim *sim, const struct alloc_request *request, struct object *parent,
	const uint8_t *params, struct object **created)
{
	uint32_t handle = request->handle;
	uint32_t status = object_create(sim, parent->client, parent, &handle, request->class_id, created);

	if (status != NV_OK)
		return status;
	(*created)->external = get32(params, sim->abi->NV_VASPACE_ALLOCATION_PARAMETERS.flags) &
		NV_VASPACE_ALLOCATION_FLAGS_IS_EXTERNALLY_OWNED;
	status = tables_of_space(sim, *created);
	if (status != NV_OK)
		object_free(sim, *created);
	return status;
}

/* Makes an object of any class but a client; params is a copy of the parameters, or NULL. */
static uint32_t class_make(struct sim *sim, const struct alloc_request *request, struct object *parent, uint8_t *params,
	struct object **created)
{
	struct memory_request memory;
	uint32_t handle = request->handle, status;

	if (!class_fits_parent(request->class_id, parent))
		return NV_ERR_INVALID_OBJECT_PARENT;
	status = mig_check(sim, request->class_id, parent);
	if (status != NV_OK)
		return status;
	if (request->class_id == NV01_DEVICE_0)
		return create_device(sim, request, parent, params, created);
	if (request->class_id == NV20_SUBDEVICE_0 && params &&
		get32(params, sim->abi->NV2080_ALLOC_PARAMETERS.subDeviceId) != 0)
		return NV_ERR_INVALID_ARGUMENT;
	if (class_is_channel_or_group(request->class_id))
		return channel_create(sim, request, parent, params, created);
	if (request->class_id == FERMI_VASPACE_A)
		return create_va_space(sim, request, parent, params, created);
	if (request->class_id == NV_SEMAPHORE_SURFACE)
		return create_surface(sim, request, parent, params, created);
	if (!class_is_memory_request(request->class_id)) {
		status = object_create(sim, parent->client, parent, &handle, request->class_id, created);
		if (status == NV_OK && request->class_id == FERMI_CONTEXT_SHARE_A && params)
			(*created)->virtual_space =
				get32(params, sim->card_abi->NV_CTXSHARE_ALLOCATION_PARAMETERS.hVASpace);
		return status;
	}
	if (!params)
		return NV_ERR_INVALID_ARGUMENT;
	read_request(sim, params, &memory);
	if (request->class_id == NV01_MEMORY_LOCAL_USER)
		status = class_create_video_memory(sim, parent, handle, &memory, created);
	else
		status = create_other_memory(sim, request, parent, &memory, created);
	if (status == NV_OK)
		write_request(sim, params, &memory);
	return status;
}

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

/* A handle that is not there counts as freed (rs_server.c:1163, built with RS_COMPATABILITY_MODE). */
uint32_t free_handle(struct sim *sim, struct client *client, uint32_t handle)
{
	struct object *object;

	if (handle == client->handle) {
		client_free(sim, client);
		return NV_OK;
	}
	object = object_find(sim, client, handle);
	if (object)
		object_free(sim, object);
	return NV_OK;
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
	/* The simulation does not read parameters of this class. */
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
	const __auto_type at = &call->sim->abi->nv_ioctl_nvos02_parameters_with_fd;
	uint32_t status = pinned_check_flags(get32(call->data, at->params_flags));

	if (status == NV_OK)
		status = pinned_check_range(get64(call->data, at->params_pMemory), get64(call->data, at->params_limit));
	return status;
}

/* Memory of the client's process. */
static void describe_process_memory(struct call *call, const struct alloc_request *request)
{
	const __auto_type at = &call->sim->abi->nv_ioctl_nvos02_parameters_with_fd;
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
	const __auto_type at = &call->sim->abi->nv_ioctl_nvos02_parameters_with_fd;
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

int escape_free(struct call *call)
{
	const struct nv_layout_NVOS00_PARAMETERS *at = &call->sim->abi->NVOS00_PARAMETERS;
	struct client *client;
	uint32_t status;

	pthread_mutex_lock(&call->sim->lock);
	status = client_for_call(call, get32(call->data, at->hRoot), &client);
	if (status == NV_OK)
		status = free_handle(call->sim, client, get32(call->data, at->hObjectOld));
	pthread_mutex_unlock(&call->sim->lock);
	put32(call->data, at->status, status);
	return 0;
}

static uint32_t duplicate(struct call *call, uint32_t *handle)
{
	const struct nv_layout_NVOS55_PARAMETERS *at = &call->sim->abi->NVOS55_PARAMETERS;
	struct sim *sim = call->sim;
	struct object *parent, *source;
	struct client *client, *from;
	uint32_t status;

	from = client_find(sim, get32(call->data, at->hClientSrc));
	if (!from)
		return NV_ERR_INVALID_OBJECT_HANDLE;
	status = client_for_call(call, get32(call->data, at->hClient), &client);
	if (status != NV_OK)
		return status;
	source = object_find(sim, from, get32(call->data, at->hObjectSrc));
	parent = object_find(sim, client, get32(call->data, at->hParent));
	if (!source)
		return NV_ERR_OBJECT_NOT_FOUND;
	if (!parent)
		return object_without_parent(sim);
	if (!class_may_be_duplicated(source->class_id))
		return NV_ERR_INVALID_ARGUMENT;
	if (!call_is_kernel(call) && !share_lets_dup(source, client))
		return NV_ERR_INSUFFICIENT_PERMISSIONS;
	return object_duplicate(sim, source, parent, handle);
}

int escape_dup(struct call *call)
{
	const struct nv_layout_NVOS55_PARAMETERS *at = &call->sim->abi->NVOS55_PARAMETERS;
	uint32_t handle = get32(call->data, at->hObject), status;

	pthread_mutex_lock(&call->sim->lock);
	status = duplicate(call, &handle);
	pthread_mutex_unlock(&call->sim->lock);
	if (status == NV_OK)
		put32(call->data, at->hObject, handle);
	put32(call->data, at->status, status);
	return 0;
}
