// SPDX-License-Identifier: Apache-2.0
/* The fields of calls, and what an attacker would write into each. */
#include "races.h"

#define OWNER 0xcafe0001u

/* Other threads read and write the same field: no compiler may move or split this. */
static void set32(uint8_t *data, uint16_t at, uint32_t value)
{
	if (at != NV_ABI_ABSENT)
		__atomic_store_n((uint32_t *)(void *)(data + at), value, __ATOMIC_RELAXED);
}

static void set64(uint8_t *data, uint16_t at, uint64_t value)
{
	set32(data, at, (uint32_t)value);
	set32(data, (uint16_t)(at + 4), (uint32_t)(value >> 32));
}

static void set_pointer(uint8_t *data, uint16_t at, const void *pointer)
{
	set64(data, at, (uintptr_t)pointer);
}

#define PICK(attacker, ...)                        \
	((const uint64_t[]){ __VA_ARGS__ })[below( \
		attacker, (uint32_t)(sizeof((const uint64_t[]){ __VA_ARGS__ }) / sizeof(uint64_t)))]

static uint64_t pick_size(struct attacker *attacker)
{
	uint64_t limit = attacker->shared->limit, part = limit / 16 & ~0xffffull;

	return PICK(attacker, 1, 65536, 2u << 20, part, part, part, 3 * part, 8 * part, limit, limit + 1, 2 * limit, 0);
}

static uint32_t pick_attr(struct attacker *attacker)
{
	uint64_t location = PICK(attacker, NVOS32_ATTR_LOCATION_VIDMEM, NVOS32_ATTR_LOCATION_VIDMEM,
		NVOS32_ATTR_LOCATION_VIDMEM, NVOS32_ATTR_LOCATION_PCI);
	uint64_t page = PICK(attacker, NVOS32_ATTR_PAGE_SIZE_DEFAULT, NVOS32_ATTR_PAGE_SIZE_4KB,
		NVOS32_ATTR_PAGE_SIZE_BIG, NVOS32_ATTR_PAGE_SIZE_HUGE);

	return (uint32_t)(location << NVOS32_ATTR_LOCATION_SHIFT | page << NVOS32_ATTR_PAGE_SIZE_SHIFT);
}

static uint32_t pick_client(struct attacker *attacker)
{
	return attacker->shared->client[below(attacker, FILES)];
}

static uint32_t pick_memory(struct attacker *attacker)
{
	return FIRST_MEMORY + below(attacker, HANDLES);
}

static void flip_alloc(struct attacker *attacker)
{
	const struct nv_layout_NVOS64_PARAMETERS *at = &attacker->settings->abi->NVOS64_PARAMETERS;
	struct shared *shared = attacker->shared;

	switch (below(attacker, 8)) {
	case 0:
	case 1:
		set32(shared->alloc, at->hClass,
			(uint32_t)PICK(attacker, NV01_MEMORY_LOCAL_USER, NV01_MEMORY_LOCAL_USER, NV01_MEMORY_LOCAL_USER,
				NV01_MEMORY_SYSTEM, NV01_DEVICE_0, NV20_SUBDEVICE_0));
		return;
	case 2:
	case 3:
		set_pointer(shared->alloc, at->pAllocParms,
			below(attacker, 16) ? shared->params[below(attacker, 2)] : NULL);
		return;
	case 4:
		set32(shared->alloc, at->hRoot, pick_client(attacker));
		return;
	case 5:
		set32(shared->alloc, at->hObjectNew, pick_memory(attacker));
		return;
	case 6:
		set32(shared->alloc, at->hObjectParent, DEVICE);
		set32(shared->alloc, at->flags, 0);
		return;
	default:
		set_pointer(shared->alloc, at->pRightsRequested,
			(void *)(uintptr_t)PICK(
				attacker, 0, 0, (uintptr_t)shared->rights, (uintptr_t)shared->params[0]));
	}
}

static void flip_params(struct attacker *attacker)
{
	const struct nv_layout_NV_MEMORY_ALLOCATION_PARAMS *at = &attacker->settings->abi->NV_MEMORY_ALLOCATION_PARAMS;
	uint8_t *params = attacker->shared->params[below(attacker, 2)];

	switch (below(attacker, 4)) {
	case 0:
		set32(params, at->attr, pick_attr(attacker));
		return;
	case 1:
		set32(params, at->owner, OWNER);
		set32(params, at->type, NVOS32_TYPE_IMAGE);
		set32(params, at->attr2, 0);
		set32(params, at->flags, below(attacker, 16) ? 0 : NVOS32_ALLOC_FLAGS_VIRTUAL);
		return;
	default:
		set64(params, at->size, pick_size(attacker));
	}
}

static void flip_heap(struct attacker *attacker)
{
	const struct nv_layout_NVOS32_PARAMETERS *at = &attacker->settings->abi->NVOS32_PARAMETERS;
	uint8_t *heap = attacker->shared->heap;

	switch (below(attacker, 7)) {
	case 0:
		set32(heap, at->function,
			(uint32_t)PICK(attacker, NVOS32_FUNCTION_ALLOC_SIZE, NVOS32_FUNCTION_ALLOC_SIZE,
				NVOS32_FUNCTION_ALLOC_SIZE, NVOS32_FUNCTION_FREE, NVOS32_FUNCTION_INFO));
		return;
	case 1:
		set32(heap, at->data_AllocSize_attr, pick_attr(attacker));
		set32(heap, at->data_AllocSize_attr2, 0);
		return;
	case 2:
		set32(heap, at->hRoot, pick_client(attacker));
		set32(heap, at->hObjectParent, DEVICE);
		return;
	case 3:
		set32(heap, at->data_AllocSize_hMemory, pick_memory(attacker));
		return;
	case 4:
		set32(heap, at->data_AllocSize_owner, OWNER);
		set32(heap, at->data_AllocSize_type, NVOS32_TYPE_IMAGE);
		set32(heap, at->data_AllocSize_flags, NVOS32_ALLOC_FLAGS_MEMORY_HANDLE_PROVIDED);
		return;
	case 5:
		/* The fields of a free lie over those of an allocation. */
		set32(heap, at->data_Free_hMemory, below(attacker, 64) ? pick_memory(attacker) : pick_client(attacker));
		set32(heap, at->data_Free_flags, NVOS32_FREE_FLAGS_MEMORY_HANDLE_PROVIDED);
		return;
	default:
		set64(heap, at->data_AllocSize_size, pick_size(attacker));
	}
}

static void flip_query(struct attacker *attacker)
{
	const struct nv_abi *abi = attacker->settings->abi;
	struct shared *shared = attacker->shared;
	uint32_t one = below(attacker, 2);
	uint8_t *list = below(attacker, 2) ? shared->list[one] :
					     shared->query[one] + abi->NV2080_CTRL_FB_GET_INFO_V2_PARAMS.fbInfoList;

	switch (below(attacker, 3)) {
	case 0:
		set32(shared->query[one], abi->NV2080_CTRL_FB_GET_INFO_PARAMS.fbInfoListSize,
			(uint32_t)PICK(attacker, 1, 2, LIST_ENTRIES, 0, 1u << 20));
		return;
	case 1:
		/* Also where the second form has its list: the two forms lie over each other here. */
		set_pointer(shared->query[one], abi->NV2080_CTRL_FB_GET_INFO_PARAMS.fbInfoList,
			below(attacker, 2) ? shared->list[0] : shared->list[1]);
		return;
	default:
		set32(list + 8 * below(attacker, LIST_ENTRIES), abi->NV2080_CTRL_FB_INFO.index,
			(uint32_t)PICK(attacker, NV2080_CTRL_FB_INFO_INDEX_RAM_SIZE,
				NV2080_CTRL_FB_INFO_INDEX_TOTAL_RAM_SIZE, NV2080_CTRL_FB_INFO_INDEX_HEAP_SIZE,
				NV2080_CTRL_FB_INFO_INDEX_HEAP_FREE, NV2080_CTRL_FB_INFO_INDEX_USABLE_RAM_SIZE));
	}
}

static void flip_control(struct attacker *attacker)
{
	const struct nv_layout_NVOS54_PARAMETERS *at = &attacker->settings->abi->NVOS54_PARAMETERS;
	const struct nv_abi *abi = attacker->settings->abi;
	uint8_t *control = attacker->shared->control;

	switch (below(attacker, 6)) {
	case 0:
		set32(control, at->cmd,
			(uint32_t)PICK(attacker, NV2080_CTRL_CMD_FB_GET_INFO, NV2080_CTRL_CMD_FB_GET_INFO_V2,
				NV0000_CTRL_CMD_GPU_GET_ATTACHED_IDS));
		return;
	case 1:
		set_pointer(control, at->params, attacker->shared->query[below(attacker, 2)]);
		return;
	case 2:
		set32(control, at->paramsSize,
			(uint32_t)PICK(attacker, abi->NV2080_CTRL_FB_GET_INFO_PARAMS.bytes,
				abi->NV2080_CTRL_FB_GET_INFO_V2_PARAMS.bytes));
		return;
	case 3:
		set32(control, at->hClient, pick_client(attacker));
		set32(control, at->hObject, SUBDEVICE);
		set32(control, at->flags, 0);
		return;
	default:
		flip_query(attacker);
	}
}

static void flip_dup(struct attacker *attacker)
{
	const struct nv_layout_NVOS55_PARAMETERS *at = &attacker->settings->abi->NVOS55_PARAMETERS;
	uint8_t *dup = attacker->shared->dup;

	set32(dup, at->hClient, pick_client(attacker));
	set32(dup, at->hParent, DEVICE);
	set32(dup, at->hObject, pick_memory(attacker));
	set32(dup, at->hClientSrc, pick_client(attacker));
	set32(dup, at->hObjectSrc, pick_memory(attacker));
}

static void flip_transfer(struct attacker *attacker)
{
	const struct nv_abi *abi = attacker->settings->abi;
	const struct nv_layout_nv_ioctl_xfer_t *at = &abi->nv_ioctl_xfer_t;
	struct shared *shared = attacker->shared;
	uint8_t *wrapper = shared->transfer[below(attacker, 2)];

	switch (below(attacker, 3)) {
	case 0:
		set32(wrapper, at->cmd,
			(uint32_t)PICK(attacker, NV_ESC_RM_ALLOC, NV_ESC_RM_ALLOC, NV_ESC_RM_CONTROL,
				NV_ESC_RM_VID_HEAP_CONTROL, NV_ESC_RM_DUP_OBJECT, NV_ESC_RM_FREE));
		return;
	case 1:
		set32(wrapper, at->size,
			(uint32_t)PICK(attacker, abi->NVOS64_PARAMETERS.bytes, abi->NVOS21_PARAMETERS.bytes,
				abi->NVOS32_PARAMETERS.bytes, abi->NVOS54_PARAMETERS.bytes));
		return;
	default:
		set_pointer(wrapper, at->ptr,
			(void *)(uintptr_t)PICK(attacker, (uintptr_t)shared->alloc, (uintptr_t)shared->alloc,
				(uintptr_t)shared->heap, (uintptr_t)shared->control, (uintptr_t)shared->dup));
	}
}

void flip(struct attacker *attacker)
{
	static void (*const kinds[])(struct attacker *) = { flip_alloc, flip_alloc, flip_params, flip_params, flip_heap,
		flip_heap, flip_control, flip_dup, flip_transfer };

	kinds[below(attacker, sizeof(kinds) / sizeof(kinds[0]))](attacker);
}

void flip_prepare(struct attacker *attacker)
{
	int i;

	for (i = 0; i < 2000; i++)
		flip(attacker);
}
