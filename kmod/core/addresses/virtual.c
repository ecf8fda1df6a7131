// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
/*
 * Reservations of addresses in a VA space: NV50_MEMORY_VIRTUAL, the same through the heap, and NV01_MEMORY_VIRTUAL, which takes
 * addresses only when memory is mapped. The driver takes page tables of the card for them (ledger/tables.h).
 */
#include "call/call.h"
#include "ledger/tables.h"

/*
 * The driver takes page tables from a pool of the card, whose pages count for the container that filled it. The ledger knows
 * whose tables they are, so it bounds them also where pages are counted.
 */
static u64 charged_room(const struct core_instance *instance)
{
	return instance->used < instance->slice.memsize ? instance->slice.memsize - instance->used : 0;
}

enum cgpu_verdict core_tables_take(struct core_call_context *context, u32 space, u64 set_aside)
{
	struct cgpu_state *state = context->state;
	u32 gpu = state->object[space].gpu, memory = state->object[space].memory, number;
	u64 had = memory == CORE_NONE ? 0 : state->memory[memory].bytes;
	u64 peak = core_tables_peak(state, space, set_aside);
	enum cgpu_verdict verdict;

	if (set_aside == 0 || peak <= had)
		return CGPU_EXECUTE;
	verdict = core_check_room(context, gpu, 1, peak - had, &number);
	if (verdict != CGPU_EXECUTE)
		return verdict;
	if (number != CORE_PASSTHROUGH && peak - had > charged_room(&state->gpu[gpu].instance[number]) &&
		state->settings.enforce)
		return core_refuse_room(context, gpu, number);
	if (core_tables_raise(state, space, number, peak))
		return core_no_records(context);
	if (number != CORE_PASSTHROUGH)
		core_stat_taken(state, gpu, number, core_instance_has(&state->gpu[gpu].instance[number]));
	return CGPU_EXECUTE;
}

void core_tables_taken(struct core_call_context *context, u32 space, u64 set_aside)
{
	struct cgpu_state *state = context->state;
	u32 gpu = state->object[space].gpu, slot = state->client[state->object[space].client].slot;
	u32 number = CORE_PASSTHROUGH;

	if (set_aside == 0 || core_tables_external(state, space))
		return;
	if (!core_is_passthrough(state, gpu, slot) && core_instance_of(state, gpu, slot, &number) == NULL)
		return;
	/* Without a record there is nothing to be done: the driver has it. */
	core_tables_raise(state, space, number, core_tables_peak(state, space, set_aside));
}

/* The driver chooses the pages of a reservation (gvaspaceApplyDefaultAlignment). */
static enum core_table_pages pages_of(const struct core_alloc_shape *shape)
{
	switch ((shape->attr >> NVOS32_ATTR_PAGE_SIZE_SHIFT) & NVOS32_ATTR_PAGE_SIZE_MASK) {
	case NVOS32_ATTR_PAGE_SIZE_4KB:
		return CORE_TABLES_SMALL;
	case NVOS32_ATTR_PAGE_SIZE_DEFAULT:
		return CORE_TABLES_SMALL_AND_BIG;
	case NVOS32_ATTR_PAGE_SIZE_BIG:
		return CORE_TABLES_BIG;
	default:
		return CORE_TABLES_HUGE;
	}
}

/* Whether the driver takes the page tables later, when memory is mapped there, or never. */
static int takes_none_now(const struct core_alloc_shape *shape)
{
	return (shape->flags & (NVOS32_ALLOC_FLAGS_LAZY | NVOS32_ALLOC_FLAGS_EXTERNALLY_MANAGED)) != 0;
}

/* The driver rounds the size up to a page before it fills its pool. */
static u64 set_aside_for(const struct core_alloc_shape *shape)
{
	struct core_alloc_shape plain = { .size = shape->size, .attr = shape->attr, .attr2 = shape->attr2 };

	if (takes_none_now(shape))
		return shape->flags & NVOS32_ALLOC_FLAGS_SPARSE ? CORE_TABLES_SPARSE * CORE_TABLE : 0;
	return core_tables_set_aside(core_round_up(shape->size, core_charge_unit(&plain)), pages_of(shape));
}

static u32 tables_of(const struct core_alloc_shape *shape)
{
	if (shape->flags & NVOS32_ALLOC_FLAGS_SPARSE)
		return CORE_TABLES_SPARSE;
	return takes_none_now(shape) ? 0 : core_tables_of(shape->size, pages_of(shape));
}

/* A pending record in a space, which is charged what the driver is about to take. */
static enum cgpu_verdict reserve_addresses(struct core_call_context *context, const struct core_handles *handles,
	u32 named, u64 set_aside, enum core_op op)
{
	u32 parent = core_parent_find(context, handles), space;
	enum cgpu_verdict verdict;

	if (parent == CORE_NONE)
		return core_answer(context, NV_ERR_INVALID_OBJECT_PARENT);
	space = core_space_find(context, parent, named, &verdict);
	if (space == CORE_NONE)
		return verdict;
	verdict = core_tables_take(context, space, core_tables_external(context->state, space) ? 0 : set_aside);
	if (verdict != CGPU_EXECUTE)
		return verdict;
	if (core_reserve(context, handles, CORE_OBJECT_VIRTUAL, context->state->object[space].gpu))
		return core_no_records(context);
	return core_execute(context, op);
}

enum cgpu_verdict core_begin_alloc_addresses(struct core_call_context *context, const struct core_alloc *alloc)
{
	const struct nv_layout_NV_MEMORY_ALLOCATION_PARAMS *at = &context->abi->NV_MEMORY_ALLOCATION_PARAMS;
	struct core_alloc_shape shape;

	if (alloc->params == NULL)
		return core_answer(context, NV_ERR_INVALID_PARAM_STRUCT);
	core_alloc_shape(context, &shape);
	return reserve_addresses(
		context, &alloc->handles, get32(alloc->params, at->hVASpace), set_aside_for(&shape), CORE_OP_ALLOC);
}

enum cgpu_verdict core_begin_heap_addresses(struct core_call_context *context, const struct core_alloc_shape *shape)
{
	struct core_handles handles;

	core_heap_handles(context, &handles);
	return reserve_addresses(context, &handles, get32(context->call->top, context->abi->NVOS32_PARAMETERS.hVASpace),
		set_aside_for(shape), CORE_OP_HEAP_ALLOC);
}

enum cgpu_verdict core_begin_alloc_range(struct core_call_context *context, const struct core_alloc *alloc)
{
	const struct nv_layout_NV_MEMORY_VIRTUAL_ALLOCATION_PARAMS *at =
		&context->abi->NV_MEMORY_VIRTUAL_ALLOCATION_PARAMS;
	u32 named;

	if (alloc->params == NULL)
		return core_answer(context, NV_ERR_INVALID_PARAM_STRUCT);
	named = get32(alloc->params, at->hVASpace);
	/* In such a range the driver maps nothing. */
	if (named == NV_MEMORY_VIRTUAL_SYSMEM_DYNAMIC_HVASPACE)
		named = 0;
	return reserve_addresses(context, &alloc->handles, named, 0, CORE_OP_ALLOC);
}

/* Whether the call has made addresses that may have page tables from the beginning. */
static int has_made_addresses(const struct core_call_context *context, const struct core_object *record)
{
	if (record == NULL || record->kind != CORE_OBJECT_VIRTUAL || context->operation->shape == NULL)
		return 0;
	return context->call->nr != NV_ESC_RM_ALLOC ||
		get32(context->call->top, context->abi->NVOS21_PARAMETERS.hClass) != NV01_MEMORY_VIRTUAL;
}

void core_addresses_made(struct core_call_context *context)
{
	const u64 *notes = context->call->opaque;
	struct core_object *record =
		core_object_noted(context->state, notes[CORE_NOTE_OBJECT], notes[CORE_NOTE_SERIAL]);
	struct core_alloc_shape shape;
	u32 space;

	if (!has_made_addresses(context, record))
		return;
	space = core_tables_space(context->state, (u32)notes[CORE_NOTE_OBJECT]);
	if (space == CORE_NONE || core_tables_external(context->state, space))
		return;
	context->operation->shape(context, &shape);
	/* The space that the call names may be another one by now. */
	core_tables_taken(context, space, set_aside_for(&shape));
	record->tables = tables_of(&shape);
	record->pinned = record->tables && !(shape.flags & NVOS32_ALLOC_FLAGS_SPARSE) &&
		pages_of(&shape) <= CORE_TABLES_SMALL_AND_BIG;
	core_tables_link(context->state, (u32)notes[CORE_NOTE_OBJECT]);
}
