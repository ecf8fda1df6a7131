// SPDX-License-Identifier: Apache-2.0
/* The fields of calls, and an attacker's values for each. */
#include <stddef.h>

#include "races.h"

#define OWNER 0xcafe0001u
#define TURNS 108u /* of all rows */

enum block { ALLOC, PARAMS, HEAP, CONTROL, DUP, QUERY, ENTRY, TRANSFER };

struct row {
	uint8_t turns; /* how often it comes; 0: written with the row before */
	uint8_t block, wide;
	uint16_t field; /* where struct nv_abi has its place */
	uint64_t (*pick)(struct attacker *attacker, const struct shared *shared);
	uint32_t value; /* if nothing picks one */
};

/* A function that picks one of some values. */
#define ONE_OF(name, ...)                                                                                    \
	static uint64_t name(struct attacker *attacker, __attribute__((unused)) const struct shared *shared) \
	{                                                                                                    \
		const uint64_t values[] = { __VA_ARGS__ };                                                   \
                                                                                                             \
		return values[below(attacker, (uint32_t)(sizeof(values) / sizeof(values[0])))];              \
	}
#define AT(pointer) (uintptr_t)(shared->pointer)
#define BYTES(structure) (attacker->settings->abi->structure.bytes)

ONE_OF(of_client, shared->client[0], shared->client[1])
ONE_OF(of_class, NV01_MEMORY_LOCAL_USER, NV01_MEMORY_LOCAL_USER, NV01_MEMORY_LOCAL_USER, NV01_MEMORY_SYSTEM,
	NV01_DEVICE_0, NV20_SUBDEVICE_0)
ONE_OF(of_rights, 0, 0, AT(rights), AT(params[0]))
ONE_OF(of_function, NVOS32_FUNCTION_ALLOC_SIZE, NVOS32_FUNCTION_ALLOC_SIZE, NVOS32_FUNCTION_ALLOC_SIZE,
	NVOS32_FUNCTION_FREE, NVOS32_FUNCTION_INFO)
ONE_OF(of_command, NV2080_CTRL_CMD_FB_GET_INFO, NV2080_CTRL_CMD_FB_GET_INFO_V2, NV0000_CTRL_CMD_GPU_GET_ATTACHED_IDS)
ONE_OF(of_query, AT(query[0]), AT(query[1]))
ONE_OF(of_query_size, BYTES(NV2080_CTRL_FB_GET_INFO_PARAMS), BYTES(NV2080_CTRL_FB_GET_INFO_V2_PARAMS))
ONE_OF(of_count, 1, 2, LIST_ENTRIES, 0, 1u << 20)
ONE_OF(of_list, AT(list[0]), AT(list[1]))
ONE_OF(of_index, NV2080_CTRL_FB_INFO_INDEX_RAM_SIZE, NV2080_CTRL_FB_INFO_INDEX_TOTAL_RAM_SIZE,
	NV2080_CTRL_FB_INFO_INDEX_HEAP_SIZE, NV2080_CTRL_FB_INFO_INDEX_HEAP_FREE,
	NV2080_CTRL_FB_INFO_INDEX_USABLE_RAM_SIZE)
ONE_OF(of_number, NV_ESC_RM_ALLOC, NV_ESC_RM_ALLOC, NV_ESC_RM_CONTROL, NV_ESC_RM_VID_HEAP_CONTROL, NV_ESC_RM_DUP_OBJECT,
	NV_ESC_RM_FREE)
ONE_OF(of_call_size, BYTES(NVOS64_PARAMETERS), BYTES(NVOS21_PARAMETERS), BYTES(NVOS32_PARAMETERS),
	BYTES(NVOS54_PARAMETERS))
ONE_OF(of_call, AT(alloc), AT(alloc), AT(heap), AT(control), AT(dup))
ONE_OF(of_location, NVOS32_ATTR_LOCATION_VIDMEM, NVOS32_ATTR_LOCATION_VIDMEM, NVOS32_ATTR_LOCATION_VIDMEM,
	NVOS32_ATTR_LOCATION_PCI)
ONE_OF(of_page, NVOS32_ATTR_PAGE_SIZE_DEFAULT, NVOS32_ATTR_PAGE_SIZE_4KB, NVOS32_ATTR_PAGE_SIZE_BIG,
	NVOS32_ATTR_PAGE_SIZE_HUGE)

static uint64_t of_attr(struct attacker *attacker, const struct shared *shared)
{
	return of_location(attacker, shared) << NVOS32_ATTR_LOCATION_SHIFT |
		of_page(attacker, shared) << NVOS32_ATTR_PAGE_SIZE_SHIFT;
}

static uint64_t of_memory(struct attacker *attacker, __attribute__((unused)) const struct shared *shared)
{
	return FIRST_MEMORY + below(attacker, HANDLES);
}

static uint64_t of_freed(struct attacker *attacker, const struct shared *shared)
{
	return below(attacker, 64) ? of_memory(attacker, shared) : of_client(attacker, shared);
}

static uint64_t of_params(struct attacker *attacker, const struct shared *shared)
{
	return below(attacker, 16) ? AT(params[below(attacker, 2)]) : 0;
}

static uint64_t of_flags(struct attacker *attacker, __attribute__((unused)) const struct shared *shared)
{
	return below(attacker, 16) ? 0 : NVOS32_ALLOC_FLAGS_VIRTUAL;
}

static uint64_t of_size(struct attacker *attacker, const struct shared *shared)
{
	uint64_t limit = shared->limit, part = limit / 16 & ~0xffffull;
	const uint64_t sizes[] = { 1, 65536, 2u << 20, part, part, part, 3 * part, 8 * part, limit, limit + 1,
		2 * limit, 0 };

	return sizes[below(attacker, (uint32_t)(sizeof(sizes) / sizeof(sizes[0])))];
}

#define FIELD(path) offsetof(struct nv_abi, path)

static const struct row rows[] = {
	{ 6, ALLOC, 0, FIELD(NVOS64_PARAMETERS.hClass), of_class, 0 },
	{ 6, ALLOC, 1, FIELD(NVOS64_PARAMETERS.pAllocParms), of_params, 0 },
	{ 3, ALLOC, 0, FIELD(NVOS64_PARAMETERS.hRoot), of_client, 0 },
	{ 3, ALLOC, 0, FIELD(NVOS64_PARAMETERS.hObjectNew), of_memory, 0 },
	{ 3, ALLOC, 0, FIELD(NVOS64_PARAMETERS.hObjectParent), NULL, DEVICE },
	{ 0, ALLOC, 0, FIELD(NVOS64_PARAMETERS.flags), NULL, 0 },
	{ 3, ALLOC, 1, FIELD(NVOS64_PARAMETERS.pRightsRequested), of_rights, 0 },
	{ 6, PARAMS, 0, FIELD(NV_MEMORY_ALLOCATION_PARAMS.attr), of_attr, 0 },
	{ 6, PARAMS, 0, FIELD(NV_MEMORY_ALLOCATION_PARAMS.owner), NULL, OWNER },
	{ 0, PARAMS, 0, FIELD(NV_MEMORY_ALLOCATION_PARAMS.type), NULL, NVOS32_TYPE_IMAGE },
	{ 0, PARAMS, 0, FIELD(NV_MEMORY_ALLOCATION_PARAMS.attr2), NULL, 0 },
	{ 0, PARAMS, 0, FIELD(NV_MEMORY_ALLOCATION_PARAMS.flags), of_flags, 0 },
	{ 12, PARAMS, 1, FIELD(NV_MEMORY_ALLOCATION_PARAMS.size), of_size, 0 },
	{ 3, HEAP, 0, FIELD(NVOS32_PARAMETERS.function), of_function, 0 },
	{ 3, HEAP, 0, FIELD(NVOS32_PARAMETERS.data_AllocSize_attr), of_attr, 0 },
	{ 0, HEAP, 0, FIELD(NVOS32_PARAMETERS.data_AllocSize_attr2), NULL, 0 },
	{ 4, HEAP, 0, FIELD(NVOS32_PARAMETERS.hRoot), of_client, 0 },
	{ 0, HEAP, 0, FIELD(NVOS32_PARAMETERS.hObjectParent), NULL, DEVICE },
	{ 3, HEAP, 0, FIELD(NVOS32_PARAMETERS.data_AllocSize_hMemory), of_memory, 0 },
	{ 4, HEAP, 0, FIELD(NVOS32_PARAMETERS.data_AllocSize_owner), NULL, OWNER },
	{ 0, HEAP, 0, FIELD(NVOS32_PARAMETERS.data_AllocSize_type), NULL, NVOS32_TYPE_IMAGE },
	{ 0, HEAP, 0, FIELD(NVOS32_PARAMETERS.data_AllocSize_flags), NULL, NVOS32_ALLOC_FLAGS_MEMORY_HANDLE_PROVIDED },
	/* The fields of a free lie over those of an allocation. */
	{ 3, HEAP, 0, FIELD(NVOS32_PARAMETERS.data_Free_hMemory), of_freed, 0 },
	{ 0, HEAP, 0, FIELD(NVOS32_PARAMETERS.data_Free_flags), NULL, NVOS32_FREE_FLAGS_MEMORY_HANDLE_PROVIDED },
	{ 4, HEAP, 1, FIELD(NVOS32_PARAMETERS.data_AllocSize_size), of_size, 0 },
	{ 2, CONTROL, 0, FIELD(NVOS54_PARAMETERS.cmd), of_command, 0 },
	{ 2, CONTROL, 1, FIELD(NVOS54_PARAMETERS.params), of_query, 0 },
	{ 2, CONTROL, 0, FIELD(NVOS54_PARAMETERS.paramsSize), of_query_size, 0 },
	{ 2, CONTROL, 0, FIELD(NVOS54_PARAMETERS.hClient), of_client, 0 },
	{ 0, CONTROL, 0, FIELD(NVOS54_PARAMETERS.hObject), NULL, SUBDEVICE },
	{ 0, CONTROL, 0, FIELD(NVOS54_PARAMETERS.flags), NULL, 0 },
	{ 1, QUERY, 0, FIELD(NV2080_CTRL_FB_GET_INFO_PARAMS.fbInfoListSize), of_count, 0 },
	/* Also where the second form has its list: the two forms lie over each other here. */
	{ 1, QUERY, 1, FIELD(NV2080_CTRL_FB_GET_INFO_PARAMS.fbInfoList), of_list, 0 },
	{ 2, ENTRY, 0, FIELD(NV2080_CTRL_FB_INFO.index), of_index, 0 },
	{ 12, DUP, 0, FIELD(NVOS55_PARAMETERS.hClient), of_client, 0 },
	{ 0, DUP, 0, FIELD(NVOS55_PARAMETERS.hParent), NULL, DEVICE },
	{ 0, DUP, 0, FIELD(NVOS55_PARAMETERS.hObject), of_memory, 0 },
	{ 0, DUP, 0, FIELD(NVOS55_PARAMETERS.hClientSrc), of_client, 0 },
	{ 0, DUP, 0, FIELD(NVOS55_PARAMETERS.hObjectSrc), of_memory, 0 },
	{ 4, TRANSFER, 0, FIELD(nv_ioctl_xfer_t.cmd), of_number, 0 },
	{ 4, TRANSFER, 0, FIELD(nv_ioctl_xfer_t.size), of_call_size, 0 },
	{ 4, TRANSFER, 1, FIELD(nv_ioctl_xfer_t.ptr), of_call, 0 }, { 1, TRANSFER, 0, 0, NULL, 0 }, /* the end */
};

static uint8_t *block_of(struct attacker *attacker, uint8_t block)
{
	struct shared *shared = attacker->shared;
	uint32_t one = below(attacker, 2);
	uint8_t *const blocks[] = { shared->alloc, shared->params[one], shared->heap, shared->control, shared->dup,
		shared->query[one], shared->query[one], shared->transfer[one] };
	uint8_t *list = blocks[block] + attacker->settings->abi->NV2080_CTRL_FB_GET_INFO_V2_PARAMS.fbInfoList;

	if (block != ENTRY)
		return blocks[block];
	return (below(attacker, 2) ? shared->list[one] : list) + 8 * below(attacker, LIST_ENTRIES);
}

/* Other threads read and write the same field: no compiler may move or split this. */
static void set32(uint8_t *data, uint64_t value)
{
	__atomic_store_n((uint32_t *)(void *)data, (uint32_t)value, __ATOMIC_RELAXED);
}

void flip(struct attacker *attacker)
{
	const struct row *row = rows;
	uint32_t turn = below(attacker, TURNS);
	uint8_t *data;

	for (; turn >= row->turns; row++)
		turn -= row->turns;
	data = block_of(attacker, row->block);
	do {
		const void *place = (const uint8_t *)attacker->settings->abi + row->field;
		uint16_t at = *(const uint16_t *)place;
		uint64_t value = row->pick ? row->pick(attacker, attacker->shared) : row->value;

		if (at == NV_ABI_ABSENT)
			continue;
		set32(data + at, value);
		if (row->wide)
			set32(data + at + 4, value >> 32);
	} while ((++row)->turns == 0);
}

void flip_prepare(struct attacker *attacker)
{
	int i;

	for (i = 0; i < 2000; i++)
		flip(attacker);
}
