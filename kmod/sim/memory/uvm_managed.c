// SPDX-License-Identifier: Apache-2.0
/*
 * Programs group ranges of managed memory, say where it shall lie, and have it migrate (uvm_range_group.c,
 * uvm_policy.c, uvm_migrate.c). A simulated card's managed memory stays in the process in any case, where the card
 * reads it. FUSE does not report mappings, so no call knows whether an address has one.
 */
#include "uvm.h"

/* Groups have the numbers from 1 to the last one. None is taken from the count again when it is destroyed. */
static bool is_group(const struct uvm_file *file, uint64_t id)
{
	return id != 0 && id <= file->last_group;
}

uint32_t uvm_create_range_group(struct uvm_call *call)
{
	put64(call->params, call->sim->card_abi->UVM_CREATE_RANGE_GROUP_PARAMS.rangeGroupId, ++call->file->last_group);
	return NV_OK;
}

uint32_t uvm_destroy_range_group(struct uvm_call *call)
{
	uint64_t id = get64(call->params, call->sim->card_abi->UVM_DESTROY_RANGE_GROUP_PARAMS.rangeGroupId);

	return is_group(call->file, id) ? NV_OK : NV_ERR_OBJECT_NOT_FOUND;
}

static uint32_t span_at(const struct uvm_call *call, uint16_t base, uint16_t length)
{
	return uvm_is_span(get64(call->params, base), get64(call->params, length)) ? NV_OK : NV_ERR_INVALID_ADDRESS;
}

/* No number: out of its group. */
uint32_t uvm_set_range_group(struct uvm_call *call)
{
	const struct card_layout_UVM_SET_RANGE_GROUP_PARAMS *at = &call->sim->card_abi->UVM_SET_RANGE_GROUP_PARAMS;
	uint64_t id = get64(call->params, at->rangeGroupId);
	uint32_t status = span_at(call, at->requestedBase, at->length);

	if (status != NV_OK)
		return status;
	return id == 0 || is_group(call->file, id) ? NV_OK : NV_ERR_OBJECT_NOT_FOUND;
}

/* The processor, or a card that is registered. */
static uint32_t place_at(const struct uvm_call *call, uint16_t uuid)
{
	uint32_t card = card_of_uuid(call->sim, call->params + uuid);

	return card == SIM_NO_CARD || call->file->registered[card] ? NV_OK : NV_ERR_INVALID_DEVICE;
}

/* Checks policies on memory's place, its readers and duplicates, which have no effect here. */
uint32_t uvm_policy(struct uvm_call *call)
{
	const struct uvm_route *route = call->route;
	uint32_t status = span_at(
		call, layout_word(call->sim, true, route->base_at), layout_word(call->sim, true, route->length_at));

	if (status != NV_OK || route->place_at == 0)
		return status;
	return place_at(call, layout_word(call->sim, true, route->place_at));
}

/* A whole range of these; managed ones are not known. */
uint32_t uvm_validate_va_range(struct uvm_call *call)
{
	const struct nv_layout_UVM_VALIDATE_VA_RANGE_PARAMS *at = &call->sim->abi->UVM_VALIDATE_VA_RANGE_PARAMS;
	uint64_t base = get64(call->params, at->base), length = get64(call->params, at->length);
	const struct uvm_range *range;

	if (!uvm_is_span(base, length))
		return NV_ERR_INVALID_ADDRESS;
	for (range = call->file->ranges; range; range = range->next) {
		if (base <= range->end && range->start <= base + length - 1)
			return range->start == base && range->end == base + length - 1 ? NV_OK : NV_ERR_INVALID_ADDRESS;
	}
	return NV_OK;
}

/* Only cards that use the processor's tables (ATS) have this, and no simulated card does. */
uint32_t uvm_pageable_access_on_gpu(struct uvm_call *call)
{
	const __auto_type at = &call->sim->card_abi->UVM_PAGEABLE_MEM_ACCESS_ON_GPU_PARAMS;

	call->params[at->pageableMemAccess] = 0;
	return uvm_card(call, call->params + at->gpu_uuid) == SIM_NO_CARD ? NV_ERR_INVALID_DEVICE : NV_OK;
}

static uint32_t migrate_check(struct uvm_call *call, const struct nv_layout_UVM_MIGRATE_PARAMS *at)
{
	uint64_t length = get64(call->params, at->length), semaphore = get64(call->params, at->semaphoreAddress);
	bool waits = !(get32(call->params, at->flags) & UVM_MIGRATE_FLAG_ASYNC);

	if ((length > 0 || waits || semaphore == 0) && !uvm_is_span(get64(call->params, at->base), length))
		return NV_ERR_INVALID_ADDRESS;
	if (waits ? semaphore != 0 : semaphore == 0 && get32(call->params, at->semaphorePayload) != 0)
		return NV_ERR_INVALID_ARGUMENT;
	return place_at(call, at->destinationUuid);
}

/* Takes the lock by itself: the semaphore lies in the caller's memory, where the migration ends at once. */
uint32_t uvm_migrate(struct uvm_call *call)
{
	const struct nv_layout_UVM_MIGRATE_PARAMS *at = &call->sim->abi->UVM_MIGRATE_PARAMS;
	uint64_t semaphore = get64(call->params, at->semaphoreAddress);
	uint32_t status = NV_ERR_ILLEGAL_ACTION;

	pthread_mutex_lock(&call->sim->lock);
	if (call->file->type == UVM_VA_SPACE)
		status = migrate_check(call, at);
	if (status == NV_OK && semaphore != 0 && !uvm_is_pool(call->file, semaphore))
		status = NV_ERR_INVALID_ADDRESS;
	pthread_mutex_unlock(&call->sim->lock);
	if (status == NV_OK && semaphore != 0 &&
		!user_write(&call->caller, semaphore, call->params + at->semaphorePayload, sizeof(uint32_t)))
		status = NV_ERR_INVALID_ADDRESS;
	return status;
}
