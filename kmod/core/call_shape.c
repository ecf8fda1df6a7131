// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0
#include "call.h"

/* Both forms of RM_ALLOC begin alike (src/nvidia/arch/nvalloc/unix/src/escape.c asserts it). */
void core_alloc_handles(const struct core_frame *frame, struct core_handles *handles)
{
	const struct nv_layout_NVOS21_PARAMETERS *at = &frame->abi->NVOS21_PARAMETERS;
	const u8 *top = frame->call->top;

	handles->client = core_get32(top, at->hRoot);
	handles->parent = core_get32(top, at->hObjectParent);
	handles->object = core_get32(top, at->hObjectNew);
}

void core_heap_handles(const struct core_frame *frame, struct core_handles *handles)
{
	const struct nv_layout_NVOS32_PARAMETERS *at = &frame->abi->NVOS32_PARAMETERS;
	const u8 *top = frame->call->top;

	handles->client = core_get32(top, at->hRoot);
	handles->parent = core_get32(top, at->hObjectParent);
	handles->object = core_get32(top, at->data_AllocSize_hMemory);
}

void core_dup_handles(const struct core_frame *frame, struct core_handles *handles)
{
	const struct nv_layout_NVOS55_PARAMETERS *at = &frame->abi->NVOS55_PARAMETERS;
	const u8 *top = frame->call->top;

	handles->client = core_get32(top, at->hClient);
	handles->parent = core_get32(top, at->hParent);
	handles->object = core_get32(top, at->hObject);
}

void core_alloc_shape_read(const struct core_frame *frame, const u8 *params, struct core_alloc_shape *shape)
{
	const struct nv_layout_NV_MEMORY_ALLOCATION_PARAMS *at = &frame->abi->NV_MEMORY_ALLOCATION_PARAMS;

	shape->size = core_get64(params, at->size);
	shape->alignment = core_get64(params, at->alignment);
	shape->flags = core_get32(params, at->flags);
	shape->attr = core_get32(params, at->attr);
	shape->attr2 = core_get32(params, at->attr2);
}

void core_heap_shape_read(const struct core_frame *frame, struct core_alloc_shape *shape)
{
	const struct nv_layout_NVOS32_PARAMETERS *at = &frame->abi->NVOS32_PARAMETERS;
	const u8 *top = frame->call->top;

	shape->size = core_get64(top, at->data_AllocSize_size);
	shape->alignment = core_get64(top, at->data_AllocSize_alignment);
	shape->flags = core_get32(top, at->data_AllocSize_flags);
	shape->attr = core_get32(top, at->data_AllocSize_attr);
	shape->attr2 = core_get32(top, at->data_AllocSize_attr2);
}
