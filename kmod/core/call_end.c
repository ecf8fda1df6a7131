// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0
/* What a call that ran has changed. */
#include "call.h"

static u32 status_offset(const struct core_frame *frame)
{
	const struct nv_abi *abi = frame->abi;

	switch (frame->call->nr) {
	case NV_ESC_RM_ALLOC:
		return frame->call->bytes == abi->NVOS64_PARAMETERS.bytes ? abi->NVOS64_PARAMETERS.status :
									    abi->NVOS21_PARAMETERS.status;
	case NV_ESC_RM_ALLOC_OBJECT:
		return abi->NVOS05_PARAMETERS.status;
	case NV_ESC_RM_VID_HEAP_CONTROL:
		return abi->NVOS32_PARAMETERS.status;
	case NV_ESC_RM_CONTROL:
		return abi->NVOS54_PARAMETERS.status;
	case NV_ESC_RM_DUP_OBJECT:
		return abi->NVOS55_PARAMETERS.status;
	case NV_ESC_RM_SHARE:
		return abi->NVOS57_PARAMETERS.status;
	default:
		return abi->NVOS00_PARAMETERS.status;
	}
}

/* What the caller is told of a call that is taken back. */
static void say_undone(struct core_frame *frame)
{
	core_put32(frame->call->top, frame->status_at, NV_ERR_NO_MEMORY);
	frame->call->no_room = CGPU_NO_ROOM_LEFT;
}

/* Settle an allocation. 1: it must be undone. */
static int end_alloc(struct core_frame *frame, enum core_op op, int done)
{
	/* Of what is charged by its size. */
	int sized = frame->call->opaque[CORE_NOTE_UNIT] != 0;
	struct core_alloc_shape shape;
	struct core_handles handles;
	int undo;

	if (!done) {
		core_settle_failed(frame);
		return 0;
	}
	if (op == CORE_OP_DUP) {
		core_dup_handles(frame, &handles);
		undo = core_settle_done(frame, &handles, NULL);
	} else if (op == CORE_OP_HEAP_ALLOC) {
		core_heap_handles(frame, &handles);
		if (sized)
			core_heap_shape_read(frame, &shape);
		undo = core_settle_done(frame, &handles, sized ? &shape : NULL);
	} else {
		core_alloc_handles(frame, &handles);
		if (sized)
			core_alloc_shape_read(frame, frame->call->segment[0].data, &shape);
		undo = core_settle_done(frame, &handles, sized ? &shape : NULL);
	}
	if (undo)
		say_undone(frame);
	return undo;
}

static int end_import(struct core_frame *frame, int done)
{
	int undo = core_end_import(frame, done);

	if (undo)
		say_undone(frame);
	return undo;
}

/* An undo knows its record, whatever handle the driver gave. */
static void end_undo(struct core_frame *frame)
{
	u64 object = frame->call->opaque[CORE_NOTE_OBJECT];
	const struct core_object *record;

	if (frame->call->opaque[CORE_NOTE_UNDO] != CORE_UNDO || object >= CGPU_MAX_OBJECTS)
		return;
	record = &frame->state->object[object];
	if (record->live == CORE_LIVE && record->serial == frame->call->opaque[CORE_NOTE_SERIAL])
		core_object_drop(frame->state, (u32)object);
}

static void end_free(struct core_frame *frame, u32 client_handle, u32 handle)
{
	u32 client, object;

	if (frame->container == NULL)
		return;
	client = core_client_find(frame->state, frame->call->slot, client_handle);
	if (client == CORE_NONE)
		return;
	if (handle == client_handle) {
		core_client_drop(frame->state, client);
		return;
	}
	object = core_object_find(frame->state, client, handle);
	if (object != CORE_NONE)
		core_object_drop(frame->state, object);
}

static void end_info(struct core_frame *frame, enum core_op op)
{
	const struct nv_layout_NV2080_CTRL_FB_GET_INFO_V2_PARAMS *v2 = &frame->abi->NV2080_CTRL_FB_GET_INFO_V2_PARAMS;
	u32 entry = frame->abi->NV2080_CTRL_FB_INFO.bytes;
	struct cgpu_call *call = frame->call;

	if (!frame->state->settings.enforce)
		return;
	/* Its memory is as large as the driver says. Of processes it tells the container's own, as every card. */
	if (op != CORE_OP_PIDS && op != CORE_OP_PID_INFO && frame->container &&
		core_is_native(frame->state, (u32)call->opaque[CORE_NOTE_GPU], call->slot))
		return;
	switch (op) {
	case CORE_OP_HEAP_INFO:
		core_rewrite_heap_info(frame);
		return;
	case CORE_OP_FB_INFO:
		core_rewrite_info_list(frame, call->segment[1].data, call->segment[1].bytes / entry);
		return;
	case CORE_OP_FB_INFO_V2:
		/* The whole list, whatever the count says: no entry of it may tell the card's size. */
		core_rewrite_info_list(
			frame, call->segment[0].data + v2->fbInfoList, (u32)(v2->bytes - v2->fbInfoList) / entry);
		return;
	case CORE_OP_PIDS:
		core_rewrite_pids(frame);
		return;
	case CORE_OP_PID_INFO:
		core_rewrite_pid_info(frame);
		return;
	default:
		core_rewrite_regions(frame, call->segment[0].data);
	}
}

/* Before the driver says that it has done it, it has copied an allocation's parameters in, or an answer out. */
static u32 has_fetched(const struct core_frame *frame, int done)
{
	const struct cgpu_call *call = frame->call;

	if (!done || call->segments == 0)
		return 0;
	/* Without parameters the segment is that of the rights, which not every driver reads. */
	return call->nr == NV_ESC_RM_CONTROL || call->segment[0].pointer == frame->abi->NVOS21_PARAMETERS.pAllocParms;
}

static int settle(struct core_frame *frame, enum core_op op, int result)
{
	const struct nv_layout_NVOS32_PARAMETERS *heap = &frame->abi->NVOS32_PARAMETERS;
	const struct nv_layout_NVOS00_PARAMETERS *free = &frame->abi->NVOS00_PARAMETERS;
	const u8 *top = frame->call->top;
	int done = result == 0 && core_get32(top, frame->status_at) == NV_OK;

	frame->call->fetched = has_fetched(frame, done);
	switch (op) {
	case CORE_OP_ALLOC:
	case CORE_OP_HEAP_ALLOC:
	case CORE_OP_DUP:
		return end_alloc(frame, op, done);
	case CORE_OP_EXPORT:
		core_end_export(frame, done);
		return 0;
	case CORE_OP_IMPORT:
		return end_import(frame, done);
	case CORE_OP_FREE:
		if (done)
			end_undo(frame);
		if (done)
			end_free(frame, core_get32(top, free->hRoot), core_get32(top, free->hObjectOld));
		return 0;
	case CORE_OP_HEAP_FREE:
		if (done)
			end_free(frame, core_get32(top, heap->hRoot), core_get32(top, heap->data_Free_hMemory));
		return 0;
	case CORE_OP_HEAP_INFO:
	case CORE_OP_FB_INFO:
	case CORE_OP_FB_INFO_V2:
	case CORE_OP_FB_REGION:
	case CORE_OP_PIDS:
	case CORE_OP_PID_INFO:
		/* Also after a failure: the driver may have filled in part. */
		if (result == 0)
			end_info(frame, op);
		return 0;
	case CORE_OP_POLICY:
		if (done && frame->state->settings.enforce)
			core_rewrite_policy(frame);
		return 0;
	case CORE_OP_SCHEDULE:
		core_end_schedule(frame, result, done);
		return 0;
	case CORE_OP_BIND:
		if (done)
			core_end_bind(frame);
		return 0;
	case CORE_OP_ROOT:
		if (done)
			core_end_root(frame);
		return 0;
	default:
		return 0;
	}
}

int cgpu_call_end(struct cgpu_core *core, struct cgpu_call *call, int result)
{
	struct core_frame frame = { .core = core, .state = core->state, .abi = core->abi, .call = call };
	enum core_op op = (enum core_op)call->opaque[CORE_NOTE_OP];
	int undo;

	if (op == CORE_OP_NONE)
		return 0;
	/* Once only. */
	call->opaque[CORE_NOTE_OP] = CORE_OP_NONE;
	core_lock(core);
	frame.container = core_container(core->state, call->slot, call->generation);
	frame.status_at = status_offset(&frame);
	undo = settle(&frame, op, result);
	core_unlock(core);
	return undo;
}
