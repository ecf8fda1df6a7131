// SPDX-License-Identifier: Apache-2.0
/*
 * Memory of the cards and of their clients: its sizes, the requests that the driver accepts, and its backing
 * (backing.h). The sizes of video memory follow the driver (580.142):
 * - page size: mem_mgr.c memmgrDeterminePageSize; by default 2 MiB from 2 MiB up, else 64 KiB for a client's request;
 * - reported size: the request rounded up to that page (arch/maxwell/mem_mgr_gm107.c:230-258, mem_utils.c:1620,1718);
 * - taken from the card: whole pages of at least 64 KiB (video_mem.c:191-197,281,308).
 * Video memory is never fragmented here: a request fails only when the card has too few bytes left.
 * The rules for a caller's own memory are from escape.c and osmemdesc.c of the open driver, 515.43.04 to 595.45.04.
 */
#include <stdlib.h>

#include "backing.h"
#include "sim.h"

#define FLAG(flags, field) (((flags) >> NVOS02_FLAGS_##field##_SHIFT) & NVOS02_FLAGS_##field##_MASK)
#define MEMORY_TYPES 18u
#define ATTR(value, field) (((value) >> NVOS32_##field##_SHIFT) & NVOS32_##field##_MASK)
/* g_heap_nvoc.h HEAP_OWNER_RM_SCRATCH_BEGIN to _END. */
#define OWNER_SCRATCH_FIRST 0xdeaf0000u
#define OWNER_SCRATCH_LAST 0xdeaf0003u
/* These lack MAXIMIZE_ADDRESS_SPACE: stdmemValidateParams has cleared that bit by then. */
#define FLAGS_VIRTUAL_ONLY                                                                              \
	(NVOS32_ALLOC_FLAGS_VIRTUAL | NVOS32_ALLOC_FLAGS_LAZY | NVOS32_ALLOC_FLAGS_EXTERNALLY_MANAGED | \
		NVOS32_ALLOC_FLAGS_SPARSE | NVOS32_ALLOC_FLAGS_PREFER_PTES_IN_SYSMEMORY)

struct backing *backing_make(uint64_t size)
{
	struct backing *made = calloc(1, sizeof(*made));

	if (made) {
		made->refs = 1;
		made->size = size;
	}
	return made;
}

struct backing *backing_of_process(pid_t process, uint64_t address, uint64_t size)
{
	struct backing *made = backing_make(size);

	if (made) {
		made->process = process;
		made->address = address;
	}
	return made;
}

void backing_put(struct sim *sim, struct backing *backing)
{
	if (!backing || --backing->refs > 0)
		return;
	if (backing->drop)
		backing->drop(sim, backing);
	free(backing);
}

struct backing *backing_of(struct sim *sim, struct object *object)
{
	/* The registers are the card's, and all clients map the same ones. */
	if (object->class_id == VOLTA_USERMODE_A || object->class_id == TURING_USERMODE_A ||
		object->class_id == AMPERE_USERMODE_A || object->class_id == HOPPER_USERMODE_A) {
		struct card *card;

		/* An object right below its client belongs to no card. */
		if (object->card == SIM_NO_CARD)
			return NULL;
		card = &sim->cards[object->card];

		if (!card->registers)
			card->registers = backing_make(SIM_USERMODE_BYTES);
		return card->registers;
	}
	/* An engine's object has a page of its own (kernel_graphics_object.c, kgrobjGetMemInterMapParams). */
	if (!object->backing && object->parent && class_is_channel(object->parent->class_id))
		object->backing = backing_make(SIM_PAGE);
	if (!object->memory)
		return object->backing;
	if (!object->memory->backing && object->memory->size)
		object->memory->backing = backing_make(object->memory->size);
	return object->memory->backing;
}

static void put_field(uint32_t *word, uint32_t shift, uint32_t mask, uint32_t value)
{
	*word = (*word & ~(mask << shift)) | value << shift;
}

/* 0 when the card has no such page. */
static uint64_t page_size(const struct card *card, const struct memory_request *request)
{
	switch (ATTR(request->attr, ATTR_PAGE_SIZE)) {
	case NVOS32_ATTR_PAGE_SIZE_DEFAULT:
		return request->size >= SIM_PAGE_HUGE ? SIM_PAGE_HUGE : SIM_PAGE_BIG;
	case NVOS32_ATTR_PAGE_SIZE_4KB:
		return SIM_PAGE;
	case NVOS32_ATTR_PAGE_SIZE_BIG:
		return SIM_PAGE_BIG;
	default:
		break;
	}
	switch (ATTR(request->attr2, ATTR2_PAGE_SIZE_HUGE)) {
	case NVOS32_ATTR2_PAGE_SIZE_HUGE_DEFAULT:
	case NVOS32_ATTR2_PAGE_SIZE_HUGE_2MB:
		return SIM_PAGE_HUGE;
	case NVOS32_ATTR2_PAGE_SIZE_HUGE_512MB:
		return card->model->pages_512m ? SIM_PAGE_512M : 0;
	default:
		return 0;
	}
}

/* standard_mem.c stdmemValidateParams and video_mem.c:603, in their order. */
static uint32_t validate(const struct memory_request *request)
{
	if (request->internal_flags != 0 || request->size == 0)
		return NV_ERR_INVALID_ARGUMENT;
	if (request->owner == 0 || request->owner == UINT32_MAX ||
		(request->owner >= OWNER_SCRATCH_FIRST && request->owner <= OWNER_SCRATCH_LAST))
		return NV_ERR_INVALID_OWNER;
	if (!(request->flags & NVOS32_ALLOC_FLAGS_USE_BEGIN_END) &&
		(request->range_low != 0 || request->range_high != 0))
		return NV_ERR_INVALID_ARGUMENT;
	if (ATTR(request->attr2, ATTR2_ALLOCATE_FROM_SUBHEAP) == NVOS32_ATTR2_ALLOCATE_FROM_SUBHEAP_YES)
		return NV_ERR_INVALID_ARGUMENT;
	if (ATTR(request->attr, ATTR_LOCATION) != NVOS32_ATTR_LOCATION_VIDMEM)
		return NV_ERR_INVALID_ARGUMENT;
	if (request->flags & FLAGS_VIRTUAL_ONLY)
		return NV_ERR_INVALID_ARGUMENT;
	if (ATTR(request->attr2, ATTR2_MEMORY_PROTECTION) == NVOS32_ATTR2_MEMORY_PROTECTION_PROTECTED)
		return NV_ERR_INVALID_ARGUMENT;
	if (request->va_space != 0 || request->type >= MEMORY_TYPES)
		return NV_ERR_INVALID_ARGUMENT;
	return NV_OK;
}

/* The alignment asked for must fit the page, or give way to it unless it is forced. */
static uint32_t align(struct memory_request *request, uint64_t page)
{
	uint64_t wanted = SIM_PAGE;

	if (request->flags & (NVOS32_ALLOC_FLAGS_ALIGNMENT_HINT | NVOS32_ALLOC_FLAGS_ALIGNMENT_FORCE))
		wanted = request->alignment;
	if (wanted != 0 && wanted > page && wanted % page == 0) {
		request->alignment = wanted;
		return NV_OK;
	}
	if (wanted != 0 && (wanted > page || page % wanted != 0) &&
		(request->flags & NVOS32_ALLOC_FLAGS_ALIGNMENT_FORCE))
		return NV_ERR_INVALID_ARGUMENT;
	request->alignment = page;
	return NV_OK;
}

static void report(struct card *card, struct memory_request *request, uint64_t page)
{
	uint32_t size_code = NVOS32_ATTR_PAGE_SIZE_HUGE;

	if (page == SIM_PAGE)
		size_code = NVOS32_ATTR_PAGE_SIZE_4KB;
	else if (page == SIM_PAGE_BIG)
		size_code = NVOS32_ATTR_PAGE_SIZE_BIG;
	else
		put_field(&request->attr2, NVOS32_ATTR2_PAGE_SIZE_HUGE_SHIFT, NVOS32_ATTR2_PAGE_SIZE_HUGE_MASK,
			page == SIM_PAGE_HUGE ? NVOS32_ATTR2_PAGE_SIZE_HUGE_2MB : NVOS32_ATTR2_PAGE_SIZE_HUGE_512MB);
	put_field(&request->attr, NVOS32_ATTR_PAGE_SIZE_SHIFT, NVOS32_ATTR_PAGE_SIZE_MASK, size_code);
	if (ATTR(request->attr, ATTR_PHYSICALITY) != NVOS32_ATTR_PHYSICALITY_NONCONTIGUOUS)
		put_field(&request->attr, NVOS32_ATTR_PHYSICALITY_SHIFT, NVOS32_ATTR_PHYSICALITY_MASK,
			NVOS32_ATTR_PHYSICALITY_CONTIGUOUS);
	request->flags |= NVOS32_ALLOC_FLAGS_MAP_NOT_REQUIRED;
	request->flags &= ~NVOS32_ALLOC_FLAGS_KERNEL_MAPPING_MAP;
	request->limit = request->size - 1;
	if (card->next_offset + request->size > card->bytes)
		card->next_offset = 0;
	request->offset = card->next_offset;
}

/* Rounds up; false when the result does not fit 64 bits. */
static bool round_to(uint64_t *value, uint64_t unit)
{
	if (*value > UINT64_MAX - (unit - 1))
		return false;
	*value = (*value + unit - 1) / unit * unit;
	return true;
}

bool memory_take(struct card *card, uint64_t bytes)
{
	if (bytes > card->bytes - card->used)
		return false;
	card->used += bytes;
	if (card->used > card->peak)
		card->peak = card->used;
	return true;
}

uint32_t memory_set_aside(struct sim *sim, uint32_t index, uint64_t bytes, struct memory **memory)
{
	if (bytes > sim->cards[index].bytes - sim->cards[index].used)
		return NV_ERR_NO_MEMORY;
	*memory = calloc(1, sizeof(**memory));
	if (!*memory)
		return NV_ERR_INSUFFICIENT_RESOURCES;
	**memory = (struct memory){ .refs = 1, .card = index, .taken = bytes };
	memory_take(&sim->cards[index], bytes);
	return NV_OK;
}

static uint32_t memory_place(struct sim *sim, uint32_t index, struct memory_request *request, struct memory **memory)
{
	struct card *card = &sim->cards[index];
	uint64_t page = page_size(card, request), taken;
	uint32_t status;

	if (page == 0)
		return NV_ERR_INVALID_STATE;
	status = align(request, page);
	if (status != NV_OK)
		return status;
	if (!round_to(&request->size, page))
		return NV_ERR_NO_MEMORY;
	taken = request->size;
	if (!round_to(&taken, page < SIM_PAGE_BIG ? SIM_PAGE_BIG : page))
		return NV_ERR_NO_MEMORY;
	status = memory_set_aside(sim, index, taken, memory);
	if (status != NV_OK)
		return status;
	(*memory)->size = request->size;
	report(card, request, page);
	card->next_offset += taken;
	return NV_OK;
}

uint32_t memory_create(struct sim *sim, uint32_t index, struct memory_request *request, struct memory **memory)
{
	uint32_t status = validate(request);

	return status == NV_OK ? memory_place(sim, index, request, memory) : status;
}

void memory_release(struct sim *sim, struct memory *memory)
{
	if (--memory->refs > 0)
		return;
	backing_put(sim, memory->backing);
	sim->cards[memory->card].used -= memory->taken;
	free(memory);
}

/* RmAllocOsDescriptor(), then osCreateOsDescriptorFromPageArray(): pages that are cached, anywhere, not mapped again. */
uint32_t pinned_check_flags(uint32_t flags)
{
	uint32_t coherency = FLAG(flags, COHERENCY);

	if (FLAG(flags, LOCATION) != NVOS02_FLAGS_LOCATION_PCI || FLAG(flags, MAPPING) != NVOS02_FLAGS_MAPPING_NO_MAP)
		return NV_ERR_INVALID_FLAGS;
	if (coherency != NVOS02_FLAGS_COHERENCY_CACHED && coherency != NVOS02_FLAGS_COHERENCY_WRITE_BACK)
		return NV_ERR_INVALID_FLAGS;
	return FLAG(flags, PHYSICALITY) == NVOS02_FLAGS_PHYSICALITY_CONTIGUOUS ? NV_ERR_INVALID_FLAGS : NV_OK;
}

/* The same of the heap's attributes; "default" means contiguous there (RmDeprecatedConvertOs32ToOs02Flags()). */
uint32_t pinned_check_attr(uint32_t attr)
{
	uint32_t coherency = ATTR(attr, ATTR_COHERENCY);

	if (coherency != NVOS32_ATTR_COHERENCY_CACHED && coherency != NVOS32_ATTR_COHERENCY_WRITE_BACK)
		return NV_ERR_INVALID_FLAGS;
	return ATTR(attr, ATTR_PHYSICALITY) == NVOS32_ATTR_PHYSICALITY_NONCONTIGUOUS ? NV_OK : NV_ERR_INVALID_FLAGS;
}

/* RmCreateOsDescriptor() */
uint32_t pinned_check_range(uint64_t address, uint64_t limit)
{
	if (address % SIM_PAGE != 0)
		return NV_ERR_NOT_SUPPORTED;
	return limit == UINT64_MAX ? NV_ERR_INVALID_LIMIT : NV_OK;
}
