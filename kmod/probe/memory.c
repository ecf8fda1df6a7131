// SPDX-License-Identifier: Apache-2.0
/* Getting and giving back memory, by all three ways. */
#include <stdlib.h>

#include "probe.h"

#define OWNER 0xcafe0001u

static uint32_t pick_handle(struct session *session)
{
	return session->settings->own_handles ? session->next_handle++ : 0;
}

bool memory_hold(struct session *session, uint32_t handle, uint64_t size)
{
	if (session->count == session->room) {
		size_t room = session->room ? session->room * 2 : 64;
		struct held *grown = realloc(session->held, room * sizeof(*grown));

		if (!grown)
			return false;
		session->held = grown;
		session->room = room;
	}
	session->held[session->count++] = (struct held){ handle, size };
	return true;
}

static uint32_t attr_of(const struct settings *settings, uint32_t location)
{
	/* Memory of the host's as a semaphore surface wants it. */
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

	put32(params, at->owner, OWNER);
	put32(params, at->type, NVOS32_TYPE_IMAGE);
	put32(params, at->attr, attr_of(session->settings, location));
	put32(params, at->attr2, session->settings->huge << NVOS32_ATTR2_PAGE_SIZE_HUGE_SHIFT);
	put64(params, at->size, size);
	grant->handle = pick_handle(session);
	status = session_alloc(session, session->device, class_id, params, at->bytes, &grant->handle);
	grant->size = get64(params, at->size);
	grant->offset = get64(params, at->offset);
	grant->limit = get64(params, at->limit);
	return status;
}

/* The heap's functions have their fields in places of their own, but these four: owner, hMemory, type and flags. */
struct heap_form {
	uint32_t function;
	uint16_t attr, attr2, size, offset, limit;
};

static struct heap_form heap_form_of(const struct settings *settings)
{
	const struct nv_layout_NVOS32_PARAMETERS *at = &settings->abi->NVOS32_PARAMETERS;

	if (settings->via == VIA_RANGE)
		return (struct heap_form){ NVOS32_FUNCTION_ALLOC_SIZE_RANGE, at->data_AllocSizeRange_attr,
			at->data_AllocSizeRange_attr2, at->data_AllocSizeRange_size, at->data_AllocSizeRange_offset,
			at->data_AllocSizeRange_limit };
	if (settings->via == VIA_TILED)
		return (struct heap_form){ NVOS32_FUNCTION_ALLOC_TILED_PITCH_HEIGHT,
			at->data_AllocTiledPitchHeight_attr, at->data_AllocTiledPitchHeight_attr2,
			at->data_AllocTiledPitchHeight_size, at->data_AllocTiledPitchHeight_offset,
			at->data_AllocTiledPitchHeight_limit };
	return (struct heap_form){ NVOS32_FUNCTION_ALLOC_SIZE, at->data_AllocSize_attr, at->data_AllocSize_attr2,
		at->data_AllocSize_size, at->data_AllocSize_offset, at->data_AllocSize_limit };
}

/* By height and pitch only whole lines can be had. */
static void put_size(const struct session *session, uint8_t *data, const struct heap_form *form, uint64_t size)
{
	const struct nv_layout_NVOS32_PARAMETERS *at = &session->settings->abi->NVOS32_PARAMETERS;
	uint32_t line = 4096;

	put64(data, form->size, size);
	if (session->settings->via != VIA_TILED)
		return;
	put32(data, at->data_AllocTiledPitchHeight_height, (uint32_t)((size + line - 1) / line));
	put32(data, at->data_AllocTiledPitchHeight_pitch, line);
}

static uint32_t alloc_heap(struct session *session, uint64_t size, struct grant *grant)
{
	const struct nv_layout_NVOS32_PARAMETERS *at = &session->settings->abi->NVOS32_PARAMETERS;
	const struct heap_form form = heap_form_of(session->settings);
	uint8_t data[256] = { 0 };
	uint32_t status;

	grant->handle = pick_handle(session);
	put32(data, at->hRoot, session->client);
	put32(data, at->hObjectParent, session->device);
	put32(data, at->function, form.function);
	put32(data, at->data_AllocSize_owner, OWNER);
	put32(data, at->data_AllocSize_hMemory, grant->handle);
	put32(data, at->data_AllocSize_flags, grant->handle ? NVOS32_ALLOC_FLAGS_MEMORY_HANDLE_PROVIDED : 0);
	put32(data, form.attr, attr_of(session->settings, NVOS32_ATTR_LOCATION_VIDMEM));
	put32(data, form.attr2, session->settings->huge << NVOS32_ATTR2_PAGE_SIZE_HUGE_SHIFT);
	put_size(session, data, &form, size);
	status = driver_call(session->settings, session->ctl, NV_ESC_RM_VID_HEAP_CONTROL, data, at->bytes);
	if (status != NV_OK)
		return status;
	grant->handle = get32(data, at->data_AllocSize_hMemory);
	grant->size = get64(data, form.size);
	grant->offset = get64(data, form.offset);
	grant->limit = get64(data, form.limit);
	return get32(data, at->status);
}

uint32_t memory_alloc(struct session *session, uint64_t size, struct grant *grant)
{
	uint32_t status;

	*grant = (struct grant){ 0 };
	if (session->settings->via >= VIA_HEAP)
		status = alloc_heap(session, size, grant);
	else
		status = alloc_object(session, NV01_MEMORY_LOCAL_USER, NVOS32_ATTR_LOCATION_VIDMEM, size, grant);
	if (status == NV_OK && !memory_hold(session, grant->handle, grant->size))
		return PROBE_ERRNO;
	return status;
}

uint32_t memory_alloc_host(struct session *session, uint64_t size, struct grant *grant)
{
	uint32_t status;

	*grant = (struct grant){ 0 };
	status = alloc_object(session, NV01_MEMORY_SYSTEM, NVOS32_ATTR_LOCATION_PCI, size, grant);
	if (status == NV_OK && !memory_hold(session, grant->handle, grant->size))
		return PROBE_ERRNO;
	return status;
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

uint32_t memory_context(struct session *session)
{
	const struct nv_layout_NV_CHANNEL_GROUP_ALLOCATION_PARAMETERS *at =
		&session->settings->abi->NV_CHANNEL_GROUP_ALLOCATION_PARAMETERS;
	uint32_t handle = pick_handle(session), status;
	uint8_t params[32] = { 0 };

	put32(params, at->engineType, NV2080_ENGINE_TYPE_GR0);
	status = session_alloc(session, session->device, KEPLER_CHANNEL_GROUP_A, params, at->bytes, &handle);
	if (status == NV_OK && !memory_hold(session, handle, 0))
		return PROBE_ERRNO;
	return status;
}

uint32_t memory_dup_of(struct session *session, uint32_t client, uint32_t object, struct grant *grant)
{
	const struct nv_layout_NVOS55_PARAMETERS *at = &session->settings->abi->NVOS55_PARAMETERS;
	uint8_t data[64] = { 0 };
	uint32_t status;

	put32(data, at->hClient, session->client);
	put32(data, at->hParent, session->device);
	put32(data, at->hObject, pick_handle(session));
	put32(data, at->hClientSrc, client);
	put32(data, at->hObjectSrc, object);
	status = driver_call(session->settings, session->ctl, NV_ESC_RM_DUP_OBJECT, data, at->bytes);
	if (status == NV_OK)
		status = get32(data, at->status);
	grant->handle = get32(data, at->hObject);
	if (status == NV_OK && !memory_hold(session, grant->handle, grant->size))
		return PROBE_ERRNO;
	return status;
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

	*handle = pick_handle(session);
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
	const struct nv_layout_NVOS32_PARAMETERS *at = &session->settings->abi->NVOS32_PARAMETERS;
	uint8_t data[256] = { 0 };
	uint32_t status;

	put32(data, at->hRoot, session->client);
	put32(data, at->hObjectParent, session->device);
	put32(data, at->function, NVOS32_FUNCTION_FREE);
	put32(data, at->data_Free_owner, OWNER);
	put32(data, at->data_Free_hMemory, handle);
	put32(data, at->data_Free_flags, NVOS32_FREE_FLAGS_MEMORY_HANDLE_PROVIDED);
	status = driver_call(session->settings, session->ctl, NV_ESC_RM_VID_HEAP_CONTROL, data, at->bytes);
	return status != NV_OK ? status : get32(data, at->status);
}

/* Whatever the answer, the entry is not held any more. */
uint32_t memory_free_at(struct session *session, size_t index)
{
	uint32_t handle = session->held[index].handle;

	memmove(&session->held[index], &session->held[index + 1],
		(session->count - index - 1) * sizeof(session->held[0]));
	session->count--;
	return session->settings->via >= VIA_HEAP ? free_heap(session, handle) : session_free(session, handle);
}
