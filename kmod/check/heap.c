// SPDX-License-Identifier: Apache-2.0
/* Memory of the card by VID_HEAP_CONTROL. */
#include "check.h"

#define OWNER 0xcafe0001u
#define KIB 1024ull
#define LINE 4096u
/* Not to be had anywhere, and not so large that a sum would overflow. */
#define ABSURD (1ull << 46)

/* Where a function has its fields. */
struct part {
	u32 function;
	u16 owner, handle, type, flags, attr, attr2, size, limit;
};

#define PART(number, name)                                                                                             \
	(struct part)                                                                                                  \
	{                                                                                                              \
		.function = NVOS32_FUNCTION_##number, .owner = at->data_##name##_owner,                                \
		.handle = at->data_##name##_hMemory, .type = at->data_##name##_type, .flags = at->data_##name##_flags, \
		.attr = at->data_##name##_attr, .attr2 = at->data_##name##_attr2, .size = at->data_##name##_size,      \
		.limit = at->data_##name##_limit                                                                       \
	}

static struct part part_of(const struct session *session)
{
	const struct nv_layout_NVOS32_PARAMETERS *at = &session->abi->NVOS32_PARAMETERS;

	if (session->request.via == VIA_RANGE)
		return PART(ALLOC_SIZE_RANGE, AllocSizeRange);
	if (session->request.via == VIA_TILED)
		return PART(ALLOC_TILED_PITCH_HEIGHT, AllocTiledPitchHeight);
	return PART(ALLOC_SIZE, AllocSize);
}

static u32 heap_call(struct session *session, u8 *data)
{
	const struct nv_layout_NVOS32_PARAMETERS *at = &session->abi->NVOS32_PARAMETERS;
	const struct span written[] = { { at->status, 4 }, { at->total, 8 }, { at->free, 8 }, { at->data, 144 },
		{ 0, 0 } };
	u32 status;

	put32(data, at->hRoot, session->client);
	put32(data, at->hObjectParent, session->device);
	put32(data, at->status, CALL_SILENT);
	status = call_escape(session, session->ctl, NV_ESC_RM_VID_HEAP_CONTROL, data, at->bytes, written);
	return status != NV_OK ? status : get32(data, at->status);
}

static void fill(struct session *session, const struct part *part, u8 *data)
{
	const struct nv_layout_NVOS32_PARAMETERS *at = &session->abi->NVOS32_PARAMETERS;
	bool tiled = session->request.via == VIA_TILED;

	put32(data, at->function, part->function);
	put32(data, part->owner, OWNER);
	put32(data, part->handle, session->next_handle++);
	put32(data, part->flags, NVOS32_ALLOC_FLAGS_MEMORY_HANDLE_PROVIDED);
	put32(data, part->type, NVOS32_TYPE_IMAGE);
	put32(data, part->attr, session->request.page << NVOS32_ATTR_PAGE_SIZE_SHIFT);
	put64(data, part->size, tiled ? 0 : session->request.size);
	if (tiled) {
		put32(data, at->data_AllocTiledPitchHeight_height, (u32)(session->request.size / LINE));
		put32(data, at->data_AllocTiledPitchHeight_pitch, LINE);
	}
}

u32 heap_take(struct session *session)
{
	const struct part part = part_of(session);
	u32 wanted = session->next_handle, status;
	u8 data[256] = { 0 };

	fill(session, &part, data);
	status = heap_call(session, data);
	if (status != NV_OK)
		return status;
	session->memory = (struct grant){ .handle = wanted };
	if (get32(data, part.handle) != wanted || get32(data, part.owner) != OWNER)
		return call_unlike(session, "handle 0x%x came for 0x%x", get32(data, part.handle), wanted);
	return memory_judge(session, get64(data, part.size), get64(data, part.limit), get32(data, part.attr),
		get32(data, part.attr2));
}

u32 heap_give(struct session *session)
{
	const struct nv_layout_NVOS32_PARAMETERS *at = &session->abi->NVOS32_PARAMETERS;
	u8 data[256] = { 0 };

	put32(data, at->function, NVOS32_FUNCTION_FREE);
	put32(data, at->data_Free_owner, OWNER);
	put32(data, at->data_Free_hMemory, session->memory.handle);
	put32(data, at->data_Free_flags, NVOS32_FREE_FLAGS_MEMORY_HANDLE_PROVIDED);
	session->memory.handle = 0;
	return heap_call(session, data);
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
	const struct part part = part_of(session);
	u32 wanted = session->next_handle, status;
	u8 data[256] = { 0 };

	fill(session, &part, data);
	put32(data, part.attr2, NVOS32_ATTR2_USE_EGM_TRUE << NVOS32_ATTR2_USE_EGM_SHIFT);
	status = heap_call(session, data);
	session->memory = (struct grant){ 0 };
	if (status == NV_OK)
		session->memory = (struct grant){ .handle = wanted, .size = get64(data, part.size) };
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
	const struct part part = part_of(session);
	u8 data[256] = { 0 };
	u32 status;

	fill(session, &part, data);
	if (at == part.size)
		put64(data, at, ABSURD);
	else
		put32(data, at, value);
	status = heap_call(session, data);
	if (status == NV_OK)
		rm_free(session, get32(data, part.handle));
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
		verdict = refused(session, "without an owner", part_of(session).owner, 0, NV_ERR_INVALID_OWNER);
		if (verdict == PASSED)
			verdict = refused(session, "an unknown type", part_of(session).type, 0xffff, 0);
		if (verdict == PASSED && via != VIA_TILED)
			verdict = refused(session, "an absurd size", part_of(session).size, 0, 0);
		if (verdict == PASSED)
			verdict = refused(
				session, "an address space", session->abi->NVOS32_PARAMETERS.hVASpace, 0xdead0001u, 0);
	}
	return verdict;
}
