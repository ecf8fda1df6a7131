/* SPDX-License-Identifier: Apache-2.0 */
/* Objects that a target needs before it can begin, made by calls that succeed. */
#ifndef CGPU_FUZZ_OBJECTS_H
#define CGPU_FUZZ_OBJECTS_H

#include "fuzz.h"

#define FUZZ_BOX "create id=box pid=1 gpu=0:1073741824 gpu=1:16777216"

/* A container on both cards; the one before it of this name may be there still. */
static inline void fuzz_box(struct fuzz *fuzz, struct cgpu_container_info *info)
{
	cgpu_inst_ctl(&fuzz->core, FUZZ_BOX, sizeof(FUZZ_BOX) - 1, NULL);
	MUST(cgpu_container_find(&fuzz->core, "box", info) == 0);
}

struct fuzz_object {
	s32 tgid;
	u64 file;
	u32 client, parent, handle, class;
	u64 value; /* of a device its card, of memory its size */
};

/* The driver says yes, if it is asked. */
static inline void fuzz_make(
	struct fuzz *fuzz, const struct cgpu_container_info *info, const struct fuzz_object *object)
{
	const struct nv_layout_NVOS64_PARAMETERS *at = &fuzz->core.abi->NVOS64_PARAMETERS;
	u8 top[128] = { 0 }, params[512] = { 0 };
	struct cgpu_call call = { .slot = info->slot, .generation = info->generation, .tgid = object->tgid };

	put32(top, at->hRoot, object->client);
	put32(top, at->hObjectParent, object->parent);
	put32(top, at->hObjectNew, object->handle);
	put32(top, at->hClass, object->class);
	put64(top, at->pAllocParms, 4096);
	if (object->class == NV01_DEVICE_0)
		put32(params, fuzz->core.abi->NV0080_ALLOC_PARAMETERS.deviceId, (u32)object->value);
	else if (object->class == NV01_MEMORY_LOCAL_USER)
		put64(params, fuzz->core.abi->NV_MEMORY_ALLOCATION_PARAMS.size, object->value);
	call.file = object->file;
	call.nr = NV_ESC_RM_ALLOC;
	call.bytes = at->bytes;
	call.top = top;
	MUST(cgpu_call_plan(&fuzz->core, &call) & CGPU_NEEDS_BUFFERS);
	MUST(call.segments == 1 && call.segment[0].bytes <= sizeof(params));
	call.segment[0].data = params;
	if (cgpu_call_begin(&fuzz->core, &call) == CGPU_EXECUTE)
		MUST(cgpu_call_end(&fuzz->core, &call, 0) == 0);
}

/* Two processes with a client each, and on each card a device and some memory. */
static inline void fuzz_make_some(struct fuzz *fuzz, const struct cgpu_container_info *info)
{
	u32 client, card;

	for (client = 0; client < 2; client++) {
		for (card = 0; card < 2; card++) {
			struct fuzz_object object = { 1 + (s32)client, 1 + client, 0xc1 + client, 0, 1 + card,
				NV01_DEVICE_0, card };

			fuzz_make(fuzz, info, &object);
			object.parent = object.handle;
			object.handle = 3 + card;
			object.class = NV01_MEMORY_LOCAL_USER;
			object.value = 65536;
			fuzz_make(fuzz, info, &object);
		}
	}
}

#endif
