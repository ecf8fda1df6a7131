// SPDX-License-Identifier: Apache-2.0
/* Sizes of a card's memory, by each of the driver's controls that has them. */
#include "check.h"

#define LOOKS 8u
#define MAX_REGIONS 16u

struct sizes {
	u64 total, unused;
	/* Largest free region, and the host's part of a virtual card; the check does not ask v1 for them. */
	u64 largest, tax;
};

static u32 by_v2(struct session *session, struct sizes *sizes)
{
	const struct nv_layout_NV2080_CTRL_FB_GET_INFO_V2_PARAMS *at = &session->abi->NV2080_CTRL_FB_GET_INFO_V2_PARAMS;
	const struct nv_layout_NV2080_CTRL_FB_INFO *entry = &session->abi->NV2080_CTRL_FB_INFO;
	u8 *params = rm_params(session, at->bytes);
	u32 status;

	put32(params, at->fbInfoListSize, 4);
	rm_heap_sizes_ask(params + at->fbInfoList, session->abi);
	put32(params + at->fbInfoList + 2 * entry->bytes, entry->index,
		NV2080_CTRL_FB_INFO_INDEX_LARGEST_FREE_REGION_SIZE_KB);
	put32(params + at->fbInfoList + 3 * entry->bytes, entry->index, NV2080_CTRL_FB_INFO_INDEX_FB_TAX_SIZE_KB);
	status = rm_control(session, session->subdevice, NV2080_CTRL_CMD_FB_GET_INFO_V2, at->bytes);
	rm_heap_sizes_read(params + at->fbInfoList, session->abi, &sizes->total, &sizes->unused);
	sizes->largest = (u64)get32(params + at->fbInfoList + 2 * entry->bytes, entry->data) << 10;
	sizes->tax = (u64)get32(params + at->fbInfoList + 3 * entry->bytes, entry->data) << 10;
	return status;
}

static u32 by_v1(struct session *session, struct sizes *sizes)
{
	const struct nv_layout_NV2080_CTRL_FB_GET_INFO_PARAMS *at = &session->abi->NV2080_CTRL_FB_GET_INFO_PARAMS;
	u8 *params = rm_params(session, at->bytes);
	u8 *list = guarded_place(&session->list, 2u * session->abi->NV2080_CTRL_FB_INFO.bytes, 0);
	u32 status;

	put32(params, at->fbInfoListSize, 2);
	put64(params, at->fbInfoList, (uintptr_t)list);
	rm_heap_sizes_ask(list, session->abi);
	status = rm_control(session, session->subdevice, NV2080_CTRL_CMD_FB_GET_INFO, at->bytes);
	rm_heap_sizes_read(list, session->abi, &sizes->total, &sizes->unused);
	session->strange_at = 0;
	return status == NV_OK && !guarded_intact(&session->list) ? CALL_STRANGE : status;
}

static u32 by_heap(struct session *session, struct sizes *sizes)
{
	const struct nv_layout_NVOS32_PARAMETERS *at = &session->abi->NVOS32_PARAMETERS;
	struct rm_ioctl heap = rm_heap_ioctl(session->abi, session->client, session->device, NVOS32_FUNCTION_INFO);
	u32 status = heap_call(session, &heap);

	sizes->total = get64(heap.data, at->total);
	sizes->unused = get64(heap.data, at->free);
	sizes->largest = get64(heap.data, at->data_Info_size);
	return status;
}

u32 sizes_free(struct session *session, u64 *bytes)
{
	struct sizes sizes;
	u32 status = by_v2(session, &sizes);

	*bytes = sizes.unused;
	return status;
}

/* INFO counts the host's part of a virtual card (rmapi_deprecated_vidheapctrl.c, _nvos32FunctionInfo()). */
static bool agree(const struct sizes *v1, const struct sizes *v2, const struct sizes *heap)
{
	return v2->total && v2->unused <= v2->total && v1->total == v2->total && v1->unused == v2->unused &&
		heap->total == v2->total + v2->tax && heap->unused == v2->unused && heap->largest == v2->largest;
}

enum verdict check_sizes(struct session *session)
{
	struct sizes v1 = { 0 }, v2 = { 0 }, heap = { 0 };
	u32 status = NV_OK, i;

	for (i = 0; status == NV_OK && i < LOOKS; i++) {
		status = by_v1(session, &v1);
		if (status == NV_OK)
			status = by_v2(session, &v2);
		if (status == NV_OK)
			status = by_heap(session, &heap);
		if (status == NV_OK && agree(&v1, &v2, &heap))
			return PASSED;
	}
	if (status != NV_OK)
		return verdict_of(session, status);
	return verdict_failed(session,
		"total, free and largest differ: %llu %llu by v1, %llu %llu %llu by V2 with %llu of the host's, %llu %llu %llu by INFO",
		LLU(v1.total), LLU(v1.unused), LLU(v2.total), LLU(v2.unused), LLU(v2.largest), LLU(v2.tax),
		LLU(heap.total), LLU(heap.unused), LLU(heap.largest));
}

enum verdict check_regions(struct session *session)
{
	const __auto_type at = &session->abi->NV2080_CTRL_CMD_FB_GET_FB_REGION_INFO_PARAMS;
	const __auto_type region = &session->abi->NV2080_CTRL_CMD_FB_GET_FB_REGION_FB_REGION_INFO;
	u8 *params = rm_params(session, at->bytes);
	u32 status, count, i;
	u64 from, to;

	status = rm_control(session, session->subdevice, NV2080_CTRL_CMD_FB_GET_FB_REGION_INFO, at->bytes);
	if (status != NV_OK)
		return verdict_of(session, status);
	count = get32(params, at->numFBRegions);
	if (count == 0 || count > MAX_REGIONS)
		return verdict_failed(session, "%u regions; expected are 1 to %u", count, MAX_REGIONS);
	for (i = 0; i < count; i++) {
		from = get64(params + i * region->bytes, at->fbRegion + region->base);
		to = get64(params + i * region->bytes, at->fbRegion + region->limit);
		if (to <= from || to >> 48)
			return verdict_failed(session, "region %u is from %llu to %llu", i, LLU(from), LLU(to));
	}
	return PASSED;
}
