// SPDX-License-Identifier: Apache-2.0
/*
 * Ranges of addresses, and memory of clients that is mapped into them (uvm_map_external.c, uvm_va_range.c). A mapping
 * holds a duplicate of its memory, and outlives the handle. Only these calls and the end of the file remove it: not
 * munmap(), and not the end of the process while another one has the file.
 */
#include <stdlib.h>

#include "backing.h"
#include "uvm.h"

uint32_t uvm_card(const struct uvm_call *call, const uint8_t *uuid)
{
	uint32_t card = card_of_uuid(call->sim, uuid);

	return card != SIM_NO_CARD && call->file->registered[card] ? card : SIM_NO_CARD;
}

uint32_t uvm_find_object(struct uvm_call *call, uint32_t client_handle, uint32_t handle, struct object **object)
{
	struct client *client = client_find(call->sim, client_handle);

	if (!client)
		return NV_ERR_INVALID_OBJECT_HANDLE;
	*object = object_find(call->sim, client, handle);
	if (!*object)
		return NV_ERR_OBJECT_NOT_FOUND;
	/* UVM serves only the client's own process. */
	return client->process == call->process ? NV_OK : NV_ERR_INSUFFICIENT_PERMISSIONS;
}

static void hold_put(struct sim *sim, struct uvm_hold *hold)
{
	if (--hold->refs > 0)
		return;
	backing_put(sim, hold->backing);
	if (hold->memory)
		memory_release(sim, hold->memory);
	free(hold);
}

/* nvUvmInterfaceDupMemory() */
static uint32_t hold_make(struct uvm_call *call, uint32_t client, uint32_t handle, struct uvm_hold **hold)
{
	struct object *object;
	uint32_t status = uvm_find_object(call, client, handle, &object);

	if (status != NV_OK)
		return status;
	if (!class_is_memory_request(object->class_id) && object->class_id != NV01_MEMORY_SYSTEM_OS_DESCRIPTOR)
		return NV_ERR_INVALID_ARGUMENT;
	*hold = calloc(1, sizeof(**hold));
	if (!*hold)
		return NV_ERR_NO_MEMORY;
	**hold = (struct uvm_hold){ .refs = 1, .memory = object->memory };
	if (object->memory)
		object->memory->refs++;
	(*hold)->backing = backing_of(call->sim, object);
	if ((*hold)->backing)
		(*hold)->backing->refs++;
	return NV_OK;
}

bool uvm_is_span(uint64_t base, uint64_t length)
{
	return base != 0 && length != 0 && base % SIM_PAGE == 0 && length % SIM_PAGE == 0 && base + length > base;
}

static struct uvm_range **range_at(struct uvm_file *file, uint64_t address)
{
	struct uvm_range **at = &file->ranges;

	while (*at && (address < (*at)->start || address > (*at)->end))
		at = &(*at)->next;
	return at;
}

static uint32_t range_add(
	struct uvm_file *file, enum uvm_kind kind, uint64_t base, uint64_t length, struct uvm_range **made)
{
	struct uvm_range *at;

	for (at = file->ranges; at; at = at->next) {
		if (base <= at->end && at->start <= base + length - 1)
			return NV_ERR_UVM_ADDRESS_IN_USE;
	}
	at = calloc(1, sizeof(*at));
	if (!at)
		return NV_ERR_NO_MEMORY;
	at->start = base;
	at->end = base + length - 1;
	at->kind = kind;
	at->next = file->ranges;
	file->ranges = at;
	*made = at;
	return NV_OK;
}

static uint32_t range_make(struct uvm_call *call, enum uvm_kind kind, uint16_t base_at, uint16_t length_at)
{
	uint64_t base = get64(call->params, base_at), length = get64(call->params, length_at);
	struct uvm_range *made;

	return uvm_is_span(base, length) ? range_add(call->file, kind, base, length, &made) : NV_ERR_INVALID_ADDRESS;
}

uint32_t uvm_create_external_range(struct uvm_call *call)
{
	const struct nv_layout_UVM_CREATE_EXTERNAL_RANGE_PARAMS *at = &call->sim->abi->UVM_CREATE_EXTERNAL_RANGE_PARAMS;

	return range_make(call, UVM_EXTERNAL, at->base, at->length);
}

/* Memory of the host, below a mapping that the caller has made; attributes of cards change nothing here. */
uint32_t uvm_alloc_semaphore_pool(struct uvm_call *call)
{
	const struct nv_layout_UVM_ALLOC_SEMAPHORE_POOL_PARAMS *at = &call->sim->abi->UVM_ALLOC_SEMAPHORE_POOL_PARAMS;

	return range_make(call, UVM_POOL, at->base, at->length);
}

/* UVM_MAP_DYNAMIC_PARALLELISM_REGION: where a card's kernels launch others. */
uint32_t uvm_map_window(struct uvm_call *call)
{
	const __auto_type at = &call->sim->card_abi->UVM_MAP_DYNAMIC_PARALLELISM_REGION_PARAMS;
	uint64_t base = get64(call->params, at->base), length = get64(call->params, at->length);
	uint32_t card = uvm_card(call, call->params + at->gpuUuid);
	struct uvm_range *made;

	if (!uvm_is_span(base, length))
		return NV_ERR_INVALID_ADDRESS;
	if (card == SIM_NO_CARD || !call->file->has_va_space[card])
		return NV_ERR_INVALID_DEVICE;
	return range_add(call->file, UVM_WINDOW, base, length, &made);
}

bool uvm_is_pool(struct uvm_file *file, uint64_t address)
{
	const struct uvm_range *at = *range_at(file, address);

	return at && at->kind == UVM_POOL;
}

static void mapping_drop(struct sim *sim, struct uvm_mapping **at)
{
	struct uvm_mapping *gone = *at;

	*at = gone->next;
	hold_put(sim, gone->hold);
	free(gone);
}

/* The rest of a mapping behind a hole becomes a mapping of its own, with the same duplicate. */
static uint32_t split(struct uvm_mapping *mapping, uint64_t start)
{
	struct uvm_mapping *rest = malloc(sizeof(*rest));

	if (!rest)
		return NV_ERR_NO_MEMORY;
	*rest = *mapping;
	rest->start = start;
	rest->offset += start - mapping->start;
	mapping->end = start - 1;
	mapping->next = rest;
	rest->hold->refs++;
	return NV_OK;
}

/* uvm_unmap_external_in_range(); every card: SIM_NO_CARD */
static uint32_t unmap(struct sim *sim, struct uvm_range *range, uint32_t card, uint64_t start, uint64_t end)
{
	struct uvm_mapping **at = &range->mappings;
	uint32_t status = NV_OK;

	while (*at && status == NV_OK) {
		struct uvm_mapping *one = *at;

		if ((card != SIM_NO_CARD && one->card != card) || one->end < start || one->start > end) {
			at = &one->next;
		} else if (one->start < start) {
			status = split(one, start);
			at = &one->next;
		} else if (one->end > end) {
			status = split(one, end + 1);
		} else {
			mapping_drop(sim, at);
		}
	}
	return status;
}

static uint32_t map_on(struct uvm_call *call, struct uvm_range *range, uint32_t card)
{
	const __auto_type at = &call->sim->abi->UVM_MAP_EXTERNAL_ALLOCATION_PARAMS;
	uint64_t base = get64(call->params, at->base), length = get64(call->params, at->length);
	uint64_t offset = get64(call->params, at->offset);
	struct uvm_mapping *made;
	uint32_t status = unmap(call->sim, range, card, base, base + length - 1);

	if (status != NV_OK)
		return status;
	made = calloc(1, sizeof(*made));
	if (!made)
		return NV_ERR_NO_MEMORY;
	status = hold_make(call, get32(call->params, at->hClient), get32(call->params, at->hMemory), &made->hold);
	if (status != NV_OK) {
		free(made);
		return status;
	}
	made->start = base;
	made->end = base + length - 1;
	made->offset = offset;
	made->card = card;
	made->next = range->mappings;
	range->mappings = made;
	/* uvm_va_range_map_rm_allocation() */
	if (made->hold->memory && (offset > made->hold->memory->size || length > made->hold->memory->size - offset)) {
		mapping_drop(call->sim, &range->mappings);
		return NV_ERR_INVALID_ARGUMENT;
	}
	return NV_OK;
}

/* Undoes the mappings of this call; the mappings that it replaced do not come back. */
static void take_back(struct uvm_call *call, struct uvm_range *range, const uint8_t *attributes, uint64_t count)
{
	const struct nv_abi *abi = call->sim->abi;
	const struct nv_layout_UVM_MAP_EXTERNAL_ALLOCATION_PARAMS *at = &abi->UVM_MAP_EXTERNAL_ALLOCATION_PARAMS;
	uint64_t base = get64(call->params, at->base), length = get64(call->params, at->length);

	for (; count > 0; count--, attributes += abi->UvmGpuMappingAttributes.bytes)
		unmap(call->sim, range, uvm_card(call, attributes + abi->UvmGpuMappingAttributes.gpuUuid), base,
			base + length - 1);
}

uint32_t uvm_map_external_allocation(struct uvm_call *call)
{
	const struct nv_abi *abi = call->sim->abi;
	const struct nv_layout_UVM_MAP_EXTERNAL_ALLOCATION_PARAMS *at = &abi->UVM_MAP_EXTERNAL_ALLOCATION_PARAMS;
	uint64_t base = get64(call->params, at->base), length = get64(call->params, at->length);
	uint64_t count = get64(call->params, at->gpuAttributesCount), i;
	uint32_t each = abi->UvmGpuMappingAttributes.bytes, card, status = NV_OK;
	const uint8_t *attributes = call->params + at->perGpuAttributes;
	struct uvm_range *range;

	if (!uvm_is_span(base, length))
		return NV_ERR_INVALID_ADDRESS;
	if (count == 0 || count > (uint64_t)(at->gpuAttributesCount - at->perGpuAttributes) / each)
		return NV_ERR_INVALID_ARGUMENT;
	range = *range_at(call->file, base);
	if (!range || range->kind != UVM_EXTERNAL || range->end < base + length - 1)
		return NV_ERR_INVALID_ADDRESS;
	for (i = 0; i < count && status == NV_OK; i++) {
		card = uvm_card(call, attributes + i * each + abi->UvmGpuMappingAttributes.gpuUuid);
		if (card == SIM_NO_CARD || !call->file->has_va_space[card])
			status = NV_ERR_INVALID_DEVICE;
		else
			status = map_on(call, range, card);
	}
	if (status != NV_OK)
		take_back(call, range, attributes, i - 1);
	return status;
}

uint32_t uvm_unmap_external(struct uvm_call *call)
{
	const struct nv_layout_UVM_UNMAP_EXTERNAL_PARAMS *at = &call->sim->abi->UVM_UNMAP_EXTERNAL_PARAMS;
	uint64_t base = get64(call->params, at->base), length = get64(call->params, at->length);
	uint32_t card = uvm_card(call, call->params + at->gpuUuid);
	struct uvm_range *range;

	if (!uvm_is_span(base, length))
		return NV_ERR_INVALID_ADDRESS;
	range = *range_at(call->file, base);
	if (!range || range->kind != UVM_EXTERNAL || range->end < base + length - 1)
		return NV_ERR_INVALID_ADDRESS;
	if (card == SIM_NO_CARD)
		return NV_ERR_INVALID_DEVICE;
	return unmap(call->sim, range, card, base, base + length - 1);
}

static void range_drop(struct sim *sim, struct uvm_range **at)
{
	struct uvm_range *gone = *at;

	*at = gone->next;
	while (gone->mappings)
		mapping_drop(sim, &gone->mappings);
	if (gone->p2p)
		hold_put(sim, gone->p2p);
	free(gone);
}

/* Whole ranges only; the length is not looked at from 590 on. */
uint32_t uvm_free(struct uvm_call *call)
{
	const struct nv_layout_UVM_FREE_PARAMS *at = &call->sim->abi->UVM_FREE_PARAMS;
	uint64_t base = get64(call->params, at->base);
	struct uvm_range **range = range_at(call->file, base);

	if (!*range || (*range)->start != base)
		return NV_ERR_INVALID_ADDRESS;
	if (at->length != NV_ABI_ABSENT && base + get64(call->params, at->length) - 1 != (*range)->end)
		return NV_ERR_INVALID_ADDRESS;
	range_drop(call->sim, range);
	return NV_OK;
}

/* uvm_va_range_device_p2p.c */
uint32_t uvm_alloc_device_p2p(struct uvm_call *call)
{
	const struct nv_layout_UVM_ALLOC_DEVICE_P2P_PARAMS *at = &call->sim->abi->UVM_ALLOC_DEVICE_P2P_PARAMS;
	uint64_t base = get64(call->params, at->base), length = get64(call->params, at->length);
	uint64_t offset = get64(call->params, at->offset);
	struct uvm_range *made;
	struct uvm_hold *hold;
	uint32_t status;

	if (!uvm_is_span(base + offset, length))
		return NV_ERR_INVALID_ARGUMENT;
	if (uvm_card(call, call->params + at->gpuUuid) == SIM_NO_CARD)
		return NV_ERR_INVALID_DEVICE;
	status = hold_make(call, get32(call->params, at->hClient), get32(call->params, at->hMemory), &hold);
	if (status != NV_OK)
		return status;
	if (!hold->memory || offset + length > hold->memory->size)
		status = NV_ERR_INVALID_ARGUMENT;
	else
		status = range_add(call->file, UVM_P2P, base, length, &made);
	if (status == NV_OK)
		made->p2p = hold;
	else
		hold_put(call->sim, hold);
	return status;
}

void uvm_drop_card(struct sim *sim, struct uvm_file *file, uint32_t card)
{
	struct uvm_range *at;

	for (at = file->ranges; at; at = at->next)
		unmap(sim, at, card, 0, UINT64_MAX);
}

void uvm_drop_all(struct sim *sim, struct uvm_file *file)
{
	while (file->ranges)
		range_drop(sim, &file->ranges);
}
