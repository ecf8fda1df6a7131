// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0
/* NV_ESC_RM_FREE, and taking back what a call allocated. */
#include "call/call.h"

enum cgpu_verdict core_begin_free(struct core_call_context *context)
{
	return core_execute(context, CORE_OP_FREE);
}

/* What is to be freed next; 0: nothing. */
static int next_undone(const struct nv_abi *abi, struct cgpu_call *call, u32 *handle)
{
	if (call->opaque[CORE_NOTE_DONE] >= CORE_DONE_LIST) {
		*handle = core_import_undo(abi, call);
		/* Each is found by its handle: the note is of the first one only. */
		call->opaque[CORE_NOTE_OBJECT] = CORE_NONE;
		return *handle != 0;
	}
	if (!call->opaque[CORE_NOTE_DONE])
		return 0;
	call->opaque[CORE_NOTE_DONE] = 0;
	*handle = (u32)call->opaque[CORE_NOTE_HANDLES];
	return 1;
}

int cgpu_call_undo(struct cgpu_core *core, struct cgpu_call *call, struct cgpu_call *undo)
{
	const struct nv_layout_NVOS00_PARAMETERS *at = &core->abi->NVOS00_PARAMETERS;
	u8 *top = undo->top;
	u32 handle;

	if (!next_undone(core->abi, call, &handle))
		return 0;
	memset(undo, 0, sizeof(*undo));
	undo->slot = call->slot;
	undo->generation = call->generation;
	undo->device = CGPU_DEVICE_CTL;
	undo->gpu = call->gpu;
	undo->tgid = call->tgid;
	undo->nr = NV_ESC_RM_FREE;
	undo->bytes = at->bytes;
	undo->top = top;
	undo->opaque[CORE_NOTE_UNDO] = CORE_UNDO;
	undo->opaque[CORE_NOTE_OBJECT] = call->opaque[CORE_NOTE_OBJECT];
	undo->opaque[CORE_NOTE_SERIAL] = call->opaque[CORE_NOTE_SERIAL];
	memset(top, 0, at->bytes);
	put32(top, at->hRoot, (u32)(call->opaque[CORE_NOTE_HANDLES] >> 32));
	put32(top, at->hObjectOld, handle);
	return 1;
}
