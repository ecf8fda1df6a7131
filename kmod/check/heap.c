// SPDX-License-Identifier: Apache-2.0
/* Memory of the card by VID_HEAP_CONTROL. */
#include "check.h"

#define KIB 1024ull
/* Not to be had anywhere, and not so large that a sum would overflow. */
#define ABSURD (1ull << 46)

static struct rm_heap_form form_of(const struct session *session)
{
	return rm_heap_form(session->abi, session->request.via);
}

u32 heap_call(struct session *session, struct rm_ioctl *heap)
{
	const struct nv_layout_NVOS32_PARAMETERS *at = &session->abi->NVOS32_PARAMETERS;
	const struct span written[] = { { at->total, 8 }, { at->free, 8 }, { at->data, 144 }, { 0, 0 } };

	return rm_make(session, heap, written);
}

static struct rm_ioctl allocation(struct session *session)
{
	return rm_heap_alloc_ioctl(session->abi, session->request.via, session->client, session->device,
		session->next_handle++, session->request.page << NVOS32_ATTR_PAGE_SIZE_SHIFT, session->request.size);
}

u32 heap_take(struct session *session)
{
	const struct rm_heap_form form = form_of(session);
	u32 wanted = session->next_handle, status;
	struct rm_ioctl heap = allocation(session);

	status = heap_call(session, &heap);
	if (status != NV_OK)
		return status;
	session->memory = (struct grant){ .handle = wanted };
	if (get32(heap.data, form.handle) != wanted || get32(heap.data, form.owner) != RM_OWNER)
		return call_unlike(session, "handle 0x%x came for 0x%x", get32(heap.data, form.handle), wanted);
	return memory_judge(session, get64(heap.data, form.size), get64(heap.data, form.limit),
		get32(heap.data, form.attr), get32(heap.data, form.attr2));
}

u32 heap_give(struct session *session)
{
	struct rm_ioctl heap =
		rm_heap_free_ioctl(session->abi, session->client, session->device, session->memory.handle);

	session->memory.handle = 0;
	return heap_call(session, &heap);
}

enum verdict check_heap_size(struct session *session)
{
	return memory_check(session, VIA_HEAP);
}

enum verdict check_heap_range(struct session *session)
{
	return memory_check(session, VIA_RANGE);
}

enum verdict check_heap_tiled(struct session *session)
{
	return memory_check(session, VIA_TILED);
}

/* Nothing is taken where the core says that it is memory of the host; where it says the card, that or a refusal. */
static u32 take_egm(struct session *session)
{
	const struct rm_heap_form form = form_of(session);
	u32 wanted = session->next_handle, status;
	struct rm_ioctl heap = allocation(session);

	put32(heap.data, form.attr2, NVOS32_ATTR2_USE_EGM_TRUE << NVOS32_ATTR2_USE_EGM_SHIFT);
	status = heap_call(session, &heap);
	session->memory = (struct grant){ 0 };
	if (status == NV_OK)
		session->memory = (struct grant){ .handle = wanted, .size = get64(heap.data, form.size) };
	if (status == NV_OK && !session->abi->heap_knows_egm)
		session->memory.charge = session->memory.size;
	/* A refusal takes nothing, which is as well. */
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

static enum verdict refused(struct session *session, const char *what, u16 at, u32 value, u32 expected)
{
	const struct rm_heap_form form = form_of(session);
	struct rm_ioctl heap = allocation(session);
	u32 status;

	if (at == form.size)
		put64(heap.data, at, ABSURD);
	else
		put32(heap.data, at, value);
	status = heap_call(session, &heap);
	if (status == NV_OK)
		rm_free(session, get32(heap.data, form.handle));
	if (status == NV_OK || status >= CALL_UNLIKE || status == CALL_SILENT || (expected && status != expected))
		return verdict_failed(session, "%s: %s, expected was a refusal", what, call_text(session, status));
	return PASSED;
}

enum verdict check_heap_refusals(struct session *session)
{
	enum verdict verdict = PASSED;
	enum via via;

	for (via = VIA_HEAP; verdict == PASSED && via <= VIA_TILED; via++) {
		session->request = (struct request){ via, NVOS32_ATTR_PAGE_SIZE_BIG, 64 * KIB };
		verdict = refused(session, "without an owner", form_of(session).owner, 0, NV_ERR_INVALID_OWNER);
		if (verdict == PASSED)
			verdict = refused(session, "an unknown type", form_of(session).type, 0xffff, 0);
		if (verdict == PASSED && via != VIA_TILED)
			verdict = refused(session, "an absurd size", form_of(session).size, 0, 0);
		if (verdict == PASSED)
			verdict = refused(
				session, "an address space", session->abi->NVOS32_PARAMETERS.hVASpace, 0xdead0001u, 0);
	}
	return verdict;
}
