// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
/*
 * NV_ESC_RM_MAP_MEMORY_DMA and its undoing. The driver fills its pool of page tables by the length that the call says, whatever the
 * memory's, and takes tables for what no reservation has them for (ledger/tables.h). It ends mappings with the memory, and with
 * the addresses.
 */
#include "call/call.h"
#include "ledger/tables.h"

/* The handle of all mappings, which are found by their addresses. */
#define MAPPING_HANDLE 1u

/* A mapping lies in the reservation that the call names as hDma. A reservation without a record, as NV_ESC_RM_ALLOC_CONTEXT_DMA2
 * makes them, is in the device's own VA space (rmapi_deprecated_misc.c): then it is the device. CORE_NONE: there is none. */
static u32 place_of(const struct core_call_context *context, u32 client, u32 device, u32 dma)
{
	u32 named = core_own_object(context, client, dma);
	u32 below = named == CORE_NONE ? core_own_object(context, client, device) : CORE_NONE;

	if (named != CORE_NONE)
		return context->state->object[named].kind == CORE_OBJECT_VIRTUAL ? named : CORE_NONE;
	return below == CORE_NONE ? CORE_NONE : core_device_of(context->state, below);
}

static u32 place_of_map(const struct core_call_context *context)
{
	const struct nv_layout_NVOS46_PARAMETERS *at = &context->abi->NVOS46_PARAMETERS;
	const u8 *top = context->call->top;

	return place_of(context, get32(top, at->hClient), get32(top, at->hDevice), get32(top, at->hDma));
}

static u32 space_of(const struct cgpu_state *state, u32 place)
{
	if (place == CORE_NONE)
		return CORE_NONE;
	return state->object[place].kind == CORE_OBJECT_DEVICE ? place : core_tables_space(state, place);
}

/* The driver fills the pool of hDevice's card. */
static int is_of_device(const struct core_call_context *context, u32 place)
{
	const struct nv_layout_NVOS46_PARAMETERS *at = &context->abi->NVOS46_PARAMETERS;
	const u8 *top = context->call->top;
	u32 device = core_own_object(context, get32(top, at->hClient), get32(top, at->hDevice));

	return device != CORE_NONE && core_device_of(context->state, device) == core_device_of(context->state, place);
}

enum cgpu_verdict core_begin_map(struct core_call_context *context)
{
	const struct nv_layout_NVOS46_PARAMETERS *at = &context->abi->NVOS46_PARAMETERS;
	struct core_handles handles = { .client = get32(context->call->top, at->hClient) };
	struct cgpu_state *state = context->state;
	u32 place = place_of_map(context), space = space_of(state, place);
	enum cgpu_verdict verdict;

	if (space == CORE_NONE)
		return core_answer(context, NV_ERR_OBJECT_NOT_FOUND);
	if (!is_of_device(context, place))
		return core_answer(context, NV_ERR_INVALID_DEVICE);
	/* The driver has no page tables to map in. */
	if (core_tables_external(state, space))
		return core_execute(context, CORE_OP_PLAIN);
	verdict = core_tables_take(
		context, space, core_tables_set_aside(get64(context->call->top, at->length), CORE_TABLES_SMALL));
	if (verdict != CGPU_EXECUTE)
		return verdict;
	if (core_reserve(context, &handles, CORE_OBJECT_MAPPING, state->object[space].gpu))
		return core_no_records(context);
	return core_execute(context, CORE_OP_MAP);
}

/* The driver has mapped the memory; the mapping's record was made when the call began. */
static void mapping_made(struct core_call_context *context, u32 object, u32 place)
{
	const struct nv_layout_NVOS46_PARAMETERS *at = &context->abi->NVOS46_PARAMETERS;
	struct core_object *record = &context->state->object[object];
	const u8 *top = context->call->top;
	u32 old = core_mapping_find(context->state, place, get64(top, at->dmaOffset));

	if (old != CORE_NONE)
		core_object_drop(context->state, old);
	record->tables = core_tables_of(get64(top, at->length), CORE_TABLES_SMALL);
	record->address = get64(top, at->dmaOffset);
	record->mapped = core_own_object(context, get32(top, at->hClient), get32(top, at->hMemory));
	core_object_confirm(context->state, object, MAPPING_HANDLE, place);
	core_tables_link(context->state, object);
}

int core_end_map(struct core_call_context *context)
{
	const struct nv_layout_NVOS46_PARAMETERS *at = &context->abi->NVOS46_PARAMETERS;
	u32 object = core_pending(context), place = place_of_map(context);
	u32 space = space_of(context->state, place);

	if (object == CORE_NONE)
		return 0;
	if (!context->done || space == CORE_NONE) {
		core_settle_failed(context);
		return 0;
	}
	/* The handle may mean other addresses by now. */
	core_tables_taken(
		context, space, core_tables_set_aside(get64(context->call->top, at->length), CORE_TABLES_SMALL));
	if (context->state->object[place].pinned || core_tables_external(context->state, space))
		core_settle_failed(context);
	else
		mapping_made(context, object, place);
	return 0;
}

static u32 place_of_unmap(const struct core_call_context *context)
{
	const struct nv_layout_NVOS47_PARAMETERS *at = &context->abi->NVOS47_PARAMETERS;
	const u8 *top = context->call->top;

	return place_of(context, get32(top, at->hClient), get32(top, at->hDevice), get32(top, at->hDma));
}

/* The driver alone judges an unmap that has no mapping on record. */
enum cgpu_verdict core_begin_unmap(struct core_call_context *context)
{
	return place_of_unmap(context) == CORE_NONE ? CGPU_CONTINUE : core_execute(context, CORE_OP_UNMAP);
}

int core_end_unmap(struct core_call_context *context)
{
	const struct nv_layout_NVOS47_PARAMETERS *at = &context->abi->NVOS47_PARAMETERS;
	const u8 *top = context->call->top;
	u64 bytes = at->size == NV_ABI_ABSENT ? 0 : get64(top, at->size);
	u32 place = context->done ? place_of_unmap(context) : CORE_NONE, mapping;

	if (place == CORE_NONE)
		return 0;
	mapping = core_mapping_find(context->state, place, get64(top, at->dmaOffset));
	/* The record stays where a part alone is unmapped: at most too much is counted. */
	if (mapping != CORE_NONE &&
		(bytes == 0 || core_tables_of(bytes, CORE_TABLES_SMALL) >= context->state->object[mapping].tables))
		core_object_drop(context->state, mapping);
	return 0;
}
