// SPDX-License-Identifier: Apache-2.0
/* Allocates and frees memory and other objects, by RM_ALLOC and VID_HEAP_CONTROL. */
#include <stdlib.h>

#include "rm_client.h"

uint32_t session_handle(struct session *session)
{
	return session->settings->own_handles ? session->next_handle++ : 0;
}

uint32_t memory_hold(struct session *session, uint32_t status, uint32_t handle, uint64_t size)
{
	if (status == NV_OK && session->count == session->room) {
		size_t room = session->room ? session->room * 2 : 64;
		struct held *grown = realloc(session->held, room * sizeof(*grown));

		if (!grown)
			return RM_ERRNO;
		session->held = grown;
		session->room = room;
	}
	if (status == NV_OK)
		session->held[session->count++] = (struct held){ handle, size };
	return status;
}

static uint32_t attr_of(const struct settings *settings, uint32_t location)
{
	/* A semaphore surface needs cached memory of the host. */
	uint32_t coherency = location == NVOS32_ATTR_LOCATION_PCI ? NVOS32_ATTR_COHERENCY_CACHED : 0;

	return settings->page << NVOS32_ATTR_PAGE_SIZE_SHIFT | location << NVOS32_ATTR_LOCATION_SHIFT |
		coherency << NVOS32_ATTR_COHERENCY_SHIFT;
}

static uint32_t alloc_object(
	struct session *session, uint32_t class_id, uint32_t location, uint64_t size, struct grant *grant)
{
	const struct nv_layout_NV_MEMORY_ALLOCATION_PARAMS *at = &session->settings->abi->NV_MEMORY_ALLOCATION_PARAMS;
	uint8_t params[160] = { 0 };
	uint32_t status;

	rm_memory_params(params, session->settings->abi, attr_of(session->settings, location), size);
	put32(params, at->attr2, session->settings->huge << NVOS32_ATTR2_PAGE_SIZE_HUGE_SHIFT);
	grant->handle = session_handle(session);
	status = session_alloc(session, session->device, class_id, params, at->bytes, &grant->handle);
	grant->size = get64(params, at->size);
	grant->offset = get64(params, at->offset);
	grant->limit = get64(params, at->limit);
	return status;
}

static uint32_t alloc_heap(struct session *session, uint64_t size, struct grant *grant)
{
	const struct settings *settings = session->settings;
	const struct rm_heap_form form = rm_heap_form(settings->abi, settings->via);
	struct rm_ioctl io = rm_heap_alloc_ioctl(settings->abi, settings->via, session->client, session->device,
		session_handle(session), attr_of(settings, NVOS32_ATTR_LOCATION_VIDMEM), size);
	uint32_t status;

	put32(io.data, form.attr2, settings->huge << NVOS32_ATTR2_PAGE_SIZE_HUGE_SHIFT);
	/* By height and pitch only the driver sets the size; after a refusal this one is still there. */
	put64(io.data, form.size, size);
	grant->handle = get32(io.data, io.handle);
	status = driver_make(settings, session->ctl, &io);
	if (status == RM_ERRNO)
		return status;
	grant->handle = get32(io.data, io.handle);
	grant->size = get64(io.data, form.size);
	grant->offset = get64(io.data, form.offset);
	grant->limit = get64(io.data, form.limit);
	return status;
}

uint32_t memory_alloc(struct session *session, uint64_t size, struct grant *grant)
{
	uint32_t status;

	*grant = (struct grant){ 0 };
	if (session->settings->via >= VIA_HEAP)
		status = alloc_heap(session, size, grant);
	else
		status = alloc_object(session, NV01_MEMORY_LOCAL_USER, NVOS32_ATTR_LOCATION_VIDMEM, size, grant);
	return memory_hold(session, status, grant->handle, grant->size);
}

uint32_t memory_alloc_host(struct session *session, uint64_t size, struct grant *grant)
{
	uint32_t status;

	*grant = (struct grant){ 0 };
	status = alloc_object(session, NV01_MEMORY_SYSTEM, NVOS32_ATTR_LOCATION_PCI, size, grant);
	return memory_hold(session, status, grant->handle, grant->size);
}

uint32_t memory_fill(struct session *session, uint64_t size, uint64_t *bytes, uint64_t *count)
{
	struct grant grant;
	uint32_t status;

	*bytes = 0;
	*count = 0;
	for (;;) {
		status = memory_alloc(session, size, &grant);
		if (status != NV_OK)
			return status;
		*bytes += grant.size;
		(*count)++;
	}
}

uint32_t group_alloc(struct session *session, uint32_t engine, uint32_t *handle)
{
	const struct nv_layout_NV_CHANNEL_GROUP_ALLOCATION_PARAMETERS *at =
		&session->settings->abi->NV_CHANNEL_GROUP_ALLOCATION_PARAMETERS;
	uint8_t params[64] = { 0 };
	uint32_t status;

	*handle = session_handle(session);
	put32(params, at->engineType, engine);
	status = session_alloc(session, session->device, KEPLER_CHANNEL_GROUP_A, params, at->bytes, handle);
	return memory_hold(session, status, *handle, 0);
}

uint32_t memory_dup_of(struct session *session, uint32_t client, uint32_t object, struct grant *grant)
{
	struct rm_ioctl io = rm_dup_ioctl(
		session->settings->abi, session->client, session->device, session_handle(session), client, object);
	uint32_t status = driver_make(session->settings, session->ctl, &io);

	grant->handle = get32(io.data, io.handle);
	return memory_hold(session, status, grant->handle, grant->size);
}

uint32_t memory_dup(struct session *session, struct grant *grant)
{
	*grant = (struct grant){ 0 };
	if (session->count == 0)
		return NV_ERR_INVALID_OBJECT_HANDLE;
	grant->size = session->held[session->count - 1].size;
	return memory_dup_of(session, session->client, session->held[session->count - 1].handle, grant);
}

uint32_t memory_surface(struct session *session, uint32_t *handle)
{
	const struct nv_layout_NV_SEMAPHORE_SURFACE_ALLOC_PARAMETERS *at =
		&session->settings->abi->NV_SEMAPHORE_SURFACE_ALLOC_PARAMETERS;
	uint8_t params[32] = { 0 };
	uint32_t memory, status;

	*handle = session_handle(session);
	if (session->count == 0 || at->hSemaphoreMem == NV_ABI_ABSENT)
		return NV_ERR_INVALID_OBJECT_HANDLE;
	memory = session->held[session->count - 1].handle;
	put32(params, at->hSemaphoreMem, memory);
	status = session_alloc(session, session->subdevice, NV_SEMAPHORE_SURFACE, params, at->bytes, handle);
	if (status != NV_ERR_OBJECT_NOT_FOUND)
		return status;
	/* Where semaphores have 32 bits, the highest value submitted has to be kept too, in the same memory or in another
	 * (sem_surf.c, semsurfConstruct_IMPL()). */
	put32(params, at->hMaxSubmittedMem, memory);
	return session_alloc(session, session->subdevice, NV_SEMAPHORE_SURFACE, params, at->bytes, handle);
}

static uint32_t free_heap(struct session *session, uint32_t handle)
{
	struct rm_ioctl io = rm_heap_free_ioctl(session->settings->abi, session->client, session->device, handle);

	return driver_make(session->settings, session->ctl, &io);
}

/* The entry goes, also where the driver refuses. */
uint32_t memory_free_at(struct session *session, size_t index)
{
	uint32_t handle = session->held[index].handle;

	memmove(&session->held[index], &session->held[index + 1],
		(session->count - index - 1) * sizeof(session->held[0]));
	session->count--;
	return session->settings->via >= VIA_HEAP ? free_heap(session, handle) : session_free(session, handle);
}
