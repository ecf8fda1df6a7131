// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
/* Where an allocation has its handles, its size and its attributes, in each of the calls that allocate. */
#include "call/call.h"

/* Both forms of RM_ALLOC begin alike (src/nvidia/arch/nvalloc/unix/src/escape.c asserts it). */
void core_alloc_handles(const struct core_call_context *context, struct core_handles *handles)
{
	const struct nv_layout_NVOS21_PARAMETERS *at = &context->abi->NVOS21_PARAMETERS;
	const u8 *top = context->call->top;

	handles->client = get32(top, at->hRoot);
	handles->parent = get32(top, at->hObjectParent);
	handles->object = get32(top, at->hObjectNew);
}

/* The heap's functions differ in where their fields sit. */
struct heap_form {
	u32 memory, flags, attr, attr2, size, alignment;
};

static struct heap_form heap_form_of(const struct core_call_context *context)
{
	const struct nv_layout_NVOS32_PARAMETERS *at = &context->abi->NVOS32_PARAMETERS;

	switch (get32(context->call->top, at->function)) {
	case NVOS32_FUNCTION_ALLOC_TILED_PITCH_HEIGHT:
		return (struct heap_form){ at->data_AllocTiledPitchHeight_hMemory, at->data_AllocTiledPitchHeight_flags,
			at->data_AllocTiledPitchHeight_attr, at->data_AllocTiledPitchHeight_attr2,
			at->data_AllocTiledPitchHeight_size, at->data_AllocTiledPitchHeight_alignment };
	case NVOS32_FUNCTION_ALLOC_SIZE_RANGE:
		return (struct heap_form){ at->data_AllocSizeRange_hMemory, at->data_AllocSizeRange_flags,
			at->data_AllocSizeRange_attr, at->data_AllocSizeRange_attr2, at->data_AllocSizeRange_size,
			at->data_AllocSizeRange_alignment };
	default:
		return (struct heap_form){ at->data_AllocSize_hMemory, at->data_AllocSize_flags,
			at->data_AllocSize_attr, at->data_AllocSize_attr2, at->data_AllocSize_size,
			at->data_AllocSize_alignment };
	}
}

void core_heap_handles(const struct core_call_context *context, struct core_handles *handles)
{
	const struct nv_layout_NVOS32_PARAMETERS *at = &context->abi->NVOS32_PARAMETERS;
	const u8 *top = context->call->top;

	handles->client = get32(top, at->hRoot);
	handles->parent = get32(top, at->hObjectParent);
	handles->object = get32(top, heap_form_of(context).memory);
}

void core_dup_handles(const struct core_call_context *context, struct core_handles *handles)
{
	const struct nv_layout_NVOS55_PARAMETERS *at = &context->abi->NVOS55_PARAMETERS;
	const u8 *top = context->call->top;

	handles->client = get32(top, at->hClient);
	handles->parent = get32(top, at->hParent);
	handles->object = get32(top, at->hObject);
}

void core_alloc_shape(const struct core_call_context *context, struct core_alloc_shape *shape)
{
	const struct nv_layout_NV_MEMORY_ALLOCATION_PARAMS *at = &context->abi->NV_MEMORY_ALLOCATION_PARAMS;
	const u8 *params = context->call->segment[0].data;

	shape->size = get64(params, at->size);
	shape->alignment = get64(params, at->alignment);
	shape->flags = get32(params, at->flags);
	shape->attr = get32(params, at->attr);
	shape->attr2 = get32(params, at->attr2);
}

void core_heap_shape_read(const struct core_call_context *context, struct core_alloc_shape *shape)
{
	const struct heap_form form = heap_form_of(context);
	const u8 *top = context->call->top;

	shape->size = get64(top, form.size);
	shape->alignment = get64(top, form.alignment);
	shape->flags = get32(top, form.flags);
	shape->attr = get32(top, form.attr);
	shape->attr2 = get32(top, form.attr2);
}

void core_heap_shape_asked(const struct core_call_context *context, struct core_alloc_shape *shape)
{
	const struct nv_layout_NVOS32_PARAMETERS *at = &context->abi->NVOS32_PARAMETERS;
	const u8 *top = context->call->top;

	core_heap_shape_read(context, shape);
	/* As the driver multiplies: the pitch has a sign. */
	if (get32(top, at->function) == NVOS32_FUNCTION_ALLOC_TILED_PITCH_HEIGHT)
		shape->size = (u64)get32(top, at->data_AllocTiledPitchHeight_height) *
			(u64)(s64)(s32)get32(top, at->data_AllocTiledPitchHeight_pitch);
}
