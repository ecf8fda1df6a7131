// SPDX-License-Identifier: Apache-2.0
/*
 * Channel groups and channels. With a group of the graphics engine the driver sets memory aside for the buffers of a
 * context (src/nvidia/src/kernel/gpu/fifo/kernel_channel_group_api.c, ctxBufPoolReserve); for a channel outside of any
 * group it makes one (kernel_channel.c:366). A group ends with the address space that it was made for
 * (kernel_channel_group_api.c:287).
 */
#include "engines.h"

static bool is_graphics(uint32_t engine)
{
	return engine >= NV2080_ENGINE_TYPE_GR0 && engine <= NV2080_ENGINE_TYPE_GR7;
}

/* Checks parameters of a group, or of a channel for which the driver makes a group. */
static uint32_t check(const struct sim *sim, const struct object *parent, uint32_t engine, uint32_t va_space)
{
	const struct object *named = va_space ? object_find((struct sim *)sim, parent->client, va_space) : NULL;

	/* Cards from Ampere on have channels for each runlist, and need the engine. */
	if (engine == NV2080_ENGINE_TYPE_NULL && sim->cards[parent->card].model->pages_512m)
		return NV_ERR_INVALID_ARGUMENT;
	/* A card without instances has only the first graphics engine. */
	if (is_graphics(engine) && engine != NV2080_ENGINE_TYPE_GR0)
		return NV_ERR_INVALID_ARGUMENT;
	/* serverutilGetResourceRefWithType(); for a space of another card gvaspaceGetGpuState() asserts. */
	if (va_space && !named)
		return NV_ERR_OBJECT_NOT_FOUND;
	if (va_space && named->class_id != FERMI_VASPACE_A)
		return NV_ERR_INVALID_OBJECT_HANDLE;
	return va_space && named->card != parent->card ? NV_ERR_INVALID_DEVICE : NV_OK;
}

static uint32_t create_with_context(struct sim *sim, const struct alloc_request *request, struct object *parent,
	uint32_t engine, uint32_t va_space, uint32_t entries, struct object **created)
{
	uint32_t handle = request->handle, status = check(sim, parent, engine, va_space);

	if (status == NV_OK)
		status = object_create(sim, parent->client, parent, &handle, request->class_id, created);
	if (status != NV_OK)
		return status;
	(*created)->va_space = va_space;
	if (engine == NV2080_ENGINE_TYPE_NULL || is_graphics(engine))
		status = memory_set_aside(sim, parent->card, sim->cards[parent->card].context, &(*created)->memory);
	if (status == NV_OK)
		status = request->class_id == KEPLER_CHANNEL_GROUP_A ?
			engines_group_add(sim, *created, engine) :
			engines_channel_add(sim, *created, NULL, engine, entries);
	if (status != NV_OK)
		object_free(sim, *created);
	return status;
}

static uint32_t create_in_group(struct sim *sim, const struct alloc_request *request, struct object *parent,
	uint32_t entries, struct object **created)
{
	uint32_t handle = request->handle, status;

	status = object_create(sim, parent->client, parent, &handle, request->class_id, created);
	if (status != NV_OK)
		return status;
	status = engines_channel_add(sim, *created, parent->group, NV2080_ENGINE_TYPE_NULL, entries);
	if (status != NV_OK)
		object_free(sim, *created);
	return status;
}

static uint32_t channel_make(struct sim *sim, const struct alloc_request *request, struct object *parent,
	const uint8_t *params, struct object **created)
{
	const __auto_type group = &sim->abi->NV_CHANNEL_GROUP_ALLOCATION_PARAMETERS;
	const __auto_type channel = &sim->abi->NV_CHANNELGPFIFO_ALLOCATION_PARAMETERS;

	if (!params)
		return NV_ERR_INVALID_ARGUMENT;
	if (request->class_id == KEPLER_CHANNEL_GROUP_A)
		return create_with_context(sim, request, parent, get32(params, group->engineType),
			get32(params, group->hVASpace), 0, created);
	if (parent->class_id == KEPLER_CHANNEL_GROUP_A)
		return create_in_group(sim, request, parent, get32(params, channel->gpFifoEntries), created);
	return create_with_context(sim, request, parent, get32(params, channel->engineType),
		get32(params, channel->hVASpace), get32(params, channel->gpFifoEntries), created);
}

uint32_t channel_create(struct sim *sim, const struct alloc_request *request, struct object *parent,
	const uint8_t *params, struct object **created)
{
	uint32_t status = channel_make(sim, request, parent, params, created);

	if (status == NV_OK && sim->contents && request->class_id != KEPLER_CHANNEL_GROUP_A) {
		status = sim->contents->add_work(sim, *created, params);
		if (status != NV_OK)
			object_free(sim, *created);
	}
	return status;
}
