// SPDX-License-Identifier: Apache-2.0
/* Memory of the card, by RM_ALLOC and by VID_HEAP_CONTROL. */
#include "check.h"
#include "lib/page_size.h"

/* Most sizes are no multiple of a page, so that the driver has to round them. */
static const struct request requests[] = {
	{ .page = NVOS32_ATTR_PAGE_SIZE_BIG, .size = 5 * 64 * KIB + 4097 },
	{ .page = NVOS32_ATTR_PAGE_SIZE_DEFAULT, .size = 3 * 64 * KIB + 1 },
	{ .page = NVOS32_ATTR_PAGE_SIZE_DEFAULT, .size = 4096 * KIB + 64 * KIB + 513 },
	{ .page = NVOS32_ATTR_PAGE_SIZE_HUGE, .size = 2048 * KIB },
	{ .page = NVOS32_ATTR_PAGE_SIZE_4KB, .size = 3 * 4 * KIB + 1 },
};

static u32 field(u32 word, u32 shift, u32 mask)
{
	return word >> shift & mask;
}

/* The page size that the driver reports for the one that was asked for. */
static u32 expected_page(const struct request *request)
{
	if (request->page != NVOS32_ATTR_PAGE_SIZE_DEFAULT)
		return request->page;
	return request->size >= CORE_PAGE_2M ? NVOS32_ATTR_PAGE_SIZE_HUGE : NVOS32_ATTR_PAGE_SIZE_BIG;
}

static u32 judge(struct session *session, u64 size, u64 limit, u32 attr, u32 attr2)
{
	const struct request *request = &session->request;
	const struct core_alloc_shape asked = { .size = request->size,
		.attr = request->page << NVOS32_ATTR_PAGE_SIZE_SHIFT };
	u64 unit = core_charge_unit(&asked);
	u32 page = field(attr, NVOS32_ATTR_PAGE_SIZE_SHIFT, NVOS32_ATTR_PAGE_SIZE_MASK);
	u32 huge = field(attr2, NVOS32_ATTR2_PAGE_SIZE_HUGE_SHIFT, NVOS32_ATTR2_PAGE_SIZE_HUGE_MASK);

	session->memory.size = size;
	session->memory.charge = core_round_up(size, unit);
	if (size < request->size || size > core_round_up(request->size, unit))
		return call_unlike(session, "size came back as %llu for %llu", LLU(size), LLU(request->size));
	if (limit != size - 1)
		return call_unlike(session, "limit came back as %llu for a size of %llu", LLU(limit), LLU(size));
	if (page != expected_page(request))
		return call_unlike(session, "page size came back as %u in attr 0x%x, expected was %u", page, attr,
			expected_page(request));
	if (page == NVOS32_ATTR_PAGE_SIZE_HUGE && huge != NVOS32_ATTR2_PAGE_SIZE_HUGE_2MB)
		return call_unlike(session, "large page size came back as %u in attr2 0x%x", huge, attr2);
	if (field(attr, NVOS32_ATTR_LOCATION_SHIFT, NVOS32_ATTR_LOCATION_MASK) != NVOS32_ATTR_LOCATION_VIDMEM)
		return call_unlike(session, "attr came back as 0x%x, which is not memory of the card", attr);
	return NV_OK;
}

u8 *memory_params(struct session *session, size_t cut)
{
	const struct nv_layout_NV_MEMORY_ALLOCATION_PARAMS *at = &session->abi->NV_MEMORY_ALLOCATION_PARAMS;
	u8 *params = guarded_place(&session->params, at->bytes, cut);

	rm_memory_params(
		params, session->abi, session->request.page << NVOS32_ATTR_PAGE_SIZE_SHIFT, session->request.size);
	return params;
}

u32 memory_take(struct session *session)
{
	const struct nv_layout_NV_MEMORY_ALLOCATION_PARAMS *at = &session->abi->NV_MEMORY_ALLOCATION_PARAMS;
	u8 *params = memory_params(session, 0);
	u32 handle = session->next_handle++, wanted = handle, status;

	status = rm_alloc(session, session->request.via, session->device, NV01_MEMORY_LOCAL_USER, at->bytes, &handle);
	if (status != NV_OK)
		return status;
	session->memory = (struct grant){ .handle = handle };
	status = call_judge_handle(session, handle, wanted);
	if (status != NV_OK)
		return status;
	if (get32(params, at->owner) != RM_OWNER || get32(params, at->type) != NVOS32_TYPE_IMAGE ||
		get32(params, at->hVASpace) != 0 || get32(params, at->internalflags) != 0)
		return call_unlike(session, "a field was written that is not the driver's to write");
	/* The driver sets this flag for every memory of a client (standard_mem.c, stdmemValidateParams). */
	if (!(get32(params, at->flags) & NVOS32_ALLOC_FLAGS_MAP_NOT_REQUIRED))
		return call_unlike(session, "flags came back as 0x%x", get32(params, at->flags));
	return judge(session, get64(params, at->size), get64(params, at->limit), get32(params, at->attr),
		get32(params, at->attr2));
}

u32 memory_give(struct session *session)
{
	u32 handle = session->memory.handle;

	session->memory.handle = 0;
	return rm_free(session, handle);
}

u32 heap_call(struct session *session, struct rm_ioctl *heap)
{
	const struct nv_layout_NVOS32_PARAMETERS *at = &session->abi->NVOS32_PARAMETERS;
	const struct span written[] = { { at->total, 8 }, { at->free, 8 }, { at->data, 144 }, { 0, 0 } };

	return rm_make(session, heap, written);
}

struct rm_ioctl heap_allocation(struct session *session)
{
	return rm_heap_alloc_ioctl(session->abi, session->request.via, session->client, session->device,
		session->next_handle++, session->request.page << NVOS32_ATTR_PAGE_SIZE_SHIFT, session->request.size);
}

static u32 heap_take(struct session *session)
{
	const struct rm_heap_form form = rm_heap_form(session->abi, session->request.via);
	u32 wanted = session->next_handle, status;
	struct rm_ioctl heap = heap_allocation(session);

	status = heap_call(session, &heap);
	if (status != NV_OK)
		return status;
	session->memory = (struct grant){ .handle = wanted };
	status = call_judge_handle(session, get32(heap.data, form.handle), wanted);
	if (status != NV_OK)
		return status;
	if (get32(heap.data, form.owner) != RM_OWNER)
		return call_unlike(session, "owner 0x%x came for 0x%x", get32(heap.data, form.owner), RM_OWNER);
	return judge(session, get64(heap.data, form.size), get64(heap.data, form.limit), get32(heap.data, form.attr),
		get32(heap.data, form.attr2));
}

static u32 heap_give(struct session *session)
{
	struct rm_ioctl heap =
		rm_heap_free_ioctl(session->abi, session->client, session->device, session->memory.handle);

	session->memory.handle = 0;
	return heap_call(session, &heap);
}

static u32 take(struct session *session)
{
	return session->request.via >= VIA_HEAP ? heap_take(session) : memory_take(session);
}

static u32 give(struct session *session)
{
	return session->request.via >= VIA_HEAP ? heap_give(session) : memory_give(session);
}

enum verdict check_memory(struct session *session)
{
	static const struct stage stages[] = { { "the allocation", take, true }, { "the free", give, false } };
	const enum via via = session->request.via;
	enum verdict verdict = PASSED;
	size_t i;

	for (i = 0; verdict == PASSED && i < sizeof(requests) / sizeof(requests[0]); i++) {
		session->request = requests[i];
		session->request.via = via;
		/* Whole lines of 4096 bytes only. */
		if (via == VIA_TILED)
			session->request.size = (requests[i].size + 4095) / 4096 * 4096;
		verdict = STAGES(session, stages);
	}
	return verdict;
}

/* The last byte of the structure cannot be read: a driver whose structure is shorter does not notice. */
enum verdict check_memory_cut(struct session *session)
{
	u32 handle = session->next_handle++, status;

	session->request = (struct request){ .page = NVOS32_ATTR_PAGE_SIZE_BIG, .size = 64 * KIB };
	memory_params(session, 1);
	status = rm_alloc(session, VIA_RM64, session->device, NV01_MEMORY_LOCAL_USER,
		session->abi->NV_MEMORY_ALLOCATION_PARAMS.bytes, &handle);
	if (status == NV_ERR_INVALID_ADDRESS)
		return PASSED;
	if (status == NV_OK)
		rm_free(session, handle);
	return verdict_failed(session, "the driver's structure is not %u bytes long: %s",
		session->abi->NV_MEMORY_ALLOCATION_PARAMS.bytes, call_text(session, status));
}

/* If the core takes USE_EGM for host memory, the card may lose nothing; else the driver may allocate or refuse. */
static u32 take_egm(struct session *session)
{
	const struct rm_heap_form form = rm_heap_form(session->abi, session->request.via);
	u32 wanted = session->next_handle, status;
	struct rm_ioctl heap = heap_allocation(session);

	put32(heap.data, form.attr2, NVOS32_ATTR2_USE_EGM_TRUE << NVOS32_ATTR2_USE_EGM_SHIFT);
	status = heap_call(session, &heap);
	session->memory = (struct grant){ 0 };
	if (status == NV_OK)
		session->memory = (struct grant){ .handle = wanted, .size = get64(heap.data, form.size) };
	if (status == NV_OK && !session->abi->heap_knows_egm)
		session->memory.charge = session->memory.size;
	/* A refusal passes too: it takes nothing. */
	return status & (CALL_ERRNO | CALL_STRANGE) || status == CALL_SILENT ? status : NV_OK;
}

static u32 give_egm(struct session *session)
{
	return session->memory.handle ? memory_give(session) : NV_OK;
}

enum verdict check_heap_egm(struct session *session)
{
	static const struct stage stages[] = { { "an allocation with USE_EGM", take_egm, true },
		{ "the free", give_egm, false } };

	session->request = (struct request){ VIA_HEAP, NVOS32_ATTR_PAGE_SIZE_BIG, 6 * 64 * KIB };
	return STAGES(session, stages);
}
