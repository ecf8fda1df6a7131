// SPDX-License-Identifier: Apache-2.0
/* Reads and chooses handles in calls that make or free an object. */
#define _GNU_SOURCE
#include <sys/random.h>

#include "handle.h"
#include "rm.h"

/* Apart from the driver's own (0xcaf00000 and up, src/nvidia/inc/libraries/resserv/rs_domain.h) and from
 * those that CUDA counts up from 0x5c000000. */
#define HANDLE_BASE 0xa7000000u
#define HANDLE_MASK 0x00ffffffu

static int heap_function(const struct nv_abi *abi, const struct in_flight *e, u32 *function)
{
	if (e->call.nr != NV_ESC_RM_VID_HEAP_CONTROL || e->call.bytes != abi->NVOS32_PARAMETERS.bytes)
		return 0;
	*function = get32(e->before[0], abi->NVOS32_PARAMETERS.function);
	return 1;
}

/* Where an allocation through the heap has its handle. */
static int heap_place(const struct nv_abi *abi, u32 function, struct handle_place *place)
{
	const struct nv_layout_NVOS32_PARAMETERS *heap = &abi->NVOS32_PARAMETERS;

	*place = (struct handle_place){ .client = heap->hRoot, .status = heap->status };
	switch (function) {
	case NVOS32_FUNCTION_ALLOC_SIZE:
		place->handle = heap->data_AllocSize_hMemory;
		place->flags = heap->data_AllocSize_flags;
		return 1;
	case NVOS32_FUNCTION_ALLOC_TILED_PITCH_HEIGHT:
		place->handle = heap->data_AllocTiledPitchHeight_hMemory;
		place->flags = heap->data_AllocTiledPitchHeight_flags;
		return 1;
	case NVOS32_FUNCTION_ALLOC_SIZE_RANGE:
		place->handle = heap->data_AllocSizeRange_hMemory;
		place->flags = heap->data_AllocSizeRange_flags;
		return 1;
	default:
		return 0;
	}
}

int handle_place(const struct nv_abi *abi, const struct in_flight *e, struct handle_place *place)
{
	const struct nv_layout_NVOS21_PARAMETERS *narrow = &abi->NVOS21_PARAMETERS;
	const struct nv_layout_NVOS64_PARAMETERS *wide = &abi->NVOS64_PARAMETERS;
	const struct nv_layout_NVOS55_PARAMETERS *dup = &abi->NVOS55_PARAMETERS;
	u32 nr = e->call.nr, bytes = e->call.bytes, function;

	if (nr == NV_ESC_RM_ALLOC && bytes == wide->bytes)
		*place = (struct handle_place){ wide->hRoot, wide->hObjectNew, wide->status, 0 };
	else if (nr == NV_ESC_RM_ALLOC && bytes == narrow->bytes)
		*place = (struct handle_place){ narrow->hRoot, narrow->hObjectNew, narrow->status, 0 };
	else if (nr == NV_ESC_RM_DUP_OBJECT && bytes == dup->bytes)
		*place = (struct handle_place){ dup->hClient, dup->hObject, dup->status, 0 };
	else
		return heap_function(abi, e, &function) && heap_place(abi, function, place);
	return 1;
}

int handle_freed(const struct nv_abi *abi, const struct in_flight *e, u32 *status)
{
	u32 function;

	if (e->call.nr == NV_ESC_RM_FREE && e->call.bytes == abi->NVOS00_PARAMETERS.bytes)
		*status = abi->NVOS00_PARAMETERS.status;
	else if (heap_function(abi, e, &function) && function == NVOS32_FUNCTION_FREE)
		*status = abi->NVOS32_PARAMETERS.status;
	else
		return 0;
	return 1;
}

int handle_given(const struct in_flight *e, const struct handle_place *place)
{
	if (!get32(e->before[0], place->handle))
		return 0;
	return !place->flags || (get32(e->before[0], place->flags) & NVOS32_ALLOC_FLAGS_MEMORY_HANDLE_PROVIDED);
}

static void put_flag(struct in_flight *e, const struct handle_place *place, u32 flag)
{
	u32 flags;

	if (!place->flags)
		return;
	flags = get32(e->copy[0], place->flags) & ~(u32)NVOS32_ALLOC_FLAGS_MEMORY_HANDLE_PROVIDED;
	put32(e->copy[0], place->flags, flags | flag);
}

void handle_put(struct in_flight *e, const struct handle_place *place, u32 handle)
{
	e->chosen = handle;
	put32(e->copy[0], place->handle, handle);
	put_flag(e, place, handle ? NVOS32_ALLOC_FLAGS_MEMORY_HANDLE_PROVIDED : 0);
}

void handle_hide(struct in_flight *e, const struct handle_place *place)
{
	u32 before = place->flags ? get32(e->before[0], place->flags) : 0;

	put_flag(e, place, before & NVOS32_ALLOC_FLAGS_MEMORY_HANDLE_PROVIDED);
}

u32 handle_next(void)
{
	u32 chosen = 0;

	/* Without a number the driver may say that it is taken: the caller asks for another one. */
	if (getrandom(&chosen, sizeof(chosen), GRND_NONBLOCK) != sizeof(chosen))
		chosen = 1;
	return HANDLE_BASE | (chosen & HANDLE_MASK);
}

int handle_wanted(const struct nv_abi *abi, const struct in_flight *e, u32 *client, u32 *handle)
{
	struct handle_place place;

	if (!handle_place(abi, e, &place))
		return 0;
	*client = get32(e->before[0], place.client);
	*handle = handle_given(e, &place) ? get32(e->before[0], place.handle) : e->chosen;
	return *client && *handle && *client != *handle;
}
