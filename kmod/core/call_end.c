// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0
/* What a call that ran has changed. */
#include "call.h"

/* What the caller is told of a call that is taken back. */
static void say_undone(struct core_frame *frame)
{
	core_put32(frame->call->top, frame->status_at, NV_ERR_NO_MEMORY);
	frame->call->no_room = CGPU_NO_ROOM_LEFT;
}

/* Settle an allocation. 1: it must be undone. */
static int end_alloc(struct core_frame *frame)
{
	const struct core_operation *operation = frame->operation;
	/* Of what is charged by its size. */
	int sized = frame->call->opaque[CORE_NOTE_UNIT] != 0 && operation->shape;
	struct core_alloc_shape shape;
	struct core_handles handles;
	int undo;

	if (!frame->done) {
		core_settle_failed(frame);
		return 0;
	}
	operation->handles(frame, &handles);
	if (sized)
		operation->shape(frame, &shape);
	undo = core_settle_done(frame, &handles, sized ? &shape : NULL);
	if (undo)
		say_undone(frame);
	return undo;
}

static int end_export(struct core_frame *frame)
{
	core_end_export(frame, frame->done);
	return 0;
}

static int end_import(struct core_frame *frame)
{
	int undo = core_end_import(frame, frame->done);

	if (undo)
		say_undone(frame);
	return undo;
}

/* An undo knows its record, whatever handle the driver gave. */
static void drop_undone(struct core_frame *frame)
{
	u64 object = frame->call->opaque[CORE_NOTE_OBJECT];
	const struct core_object *record;

	if (frame->call->opaque[CORE_NOTE_UNDO] != CORE_UNDO || object >= CGPU_MAX_OBJECTS)
		return;
	record = &frame->state->object[object];
	if (record->live == CORE_LIVE && record->serial == frame->call->opaque[CORE_NOTE_SERIAL])
		core_object_drop(frame->state, (u32)object);
}

static void drop_freed(struct core_frame *frame, u32 client_handle, u32 handle)
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

static int end_free(struct core_frame *frame)
{
	const struct nv_layout_NVOS00_PARAMETERS *at = &frame->abi->NVOS00_PARAMETERS;
	const u8 *top = frame->call->top;

	if (!frame->done)
		return 0;
	drop_undone(frame);
	drop_freed(frame, core_get32(top, at->hRoot), core_get32(top, at->hObjectOld));
	return 0;
}

static int end_heap_free(struct core_frame *frame)
{
	const struct nv_layout_NVOS32_PARAMETERS *at = &frame->abi->NVOS32_PARAMETERS;
	const u8 *top = frame->call->top;

	if (frame->done)
		drop_freed(frame, core_get32(top, at->hRoot), core_get32(top, at->data_Free_hMemory));
	return 0;
}

/* Whether a container has the card whole that a call was about. */
static int is_of_whole_card(const struct core_frame *frame)
{
	return frame->container &&
		core_is_native(frame->state, (u32)frame->call->opaque[CORE_NOTE_GPU], frame->call->slot);
}

/* Rewrite what the driver tells of processes: also of a card that the container has whole. */
static int end_processes(struct core_frame *frame)
{
	/* Also after a failure: the driver may have filled in part. */
	if (frame->result == 0 && frame->state->settings.enforce)
		frame->operation->rewrite(frame);
	return 0;
}

/* Rewrite what the driver tells of memory. A card that the container has whole is as large as the driver says. */
static int end_sizes(struct core_frame *frame)
{
	return is_of_whole_card(frame) ? 0 : end_processes(frame);
}

static int end_policy(struct core_frame *frame)
{
	if (frame->done && frame->state->settings.enforce)
		core_rewrite_policy(frame);
	return 0;
}

static int end_schedule(struct core_frame *frame)
{
	core_end_schedule(frame, frame->result, frame->done);
	return 0;
}

static int end_bind(struct core_frame *frame)
{
	if (frame->done)
		core_end_bind(frame);
	return 0;
}

static int end_root(struct core_frame *frame)
{
	if (frame->done)
		core_end_root(frame);
	return 0;
}

static int end_plain(struct core_frame *frame)
{
	(void)frame;
	return 0;
}

/* One row for each operation that a begin can leave. CORE_OP_NONE has none: there is nothing to settle. */
static const struct core_operation operations[CORE_OPS] = {
	[CORE_OP_PLAIN] = { .end = end_plain },
	[CORE_OP_ALLOC] = { end_alloc, core_alloc_handles, core_alloc_shape, NULL },
	[CORE_OP_HEAP_ALLOC] = { end_alloc, core_heap_handles, core_heap_shape_read, NULL },
	[CORE_OP_DUP] = { end_alloc, core_dup_handles, NULL, NULL },
	[CORE_OP_FREE] = { .end = end_free },
	[CORE_OP_HEAP_FREE] = { .end = end_heap_free },
	[CORE_OP_HEAP_INFO] = { .end = end_sizes, .rewrite = core_rewrite_heap_info },
	[CORE_OP_FB_INFO] = { .end = end_sizes, .rewrite = core_rewrite_fb_info },
	[CORE_OP_FB_INFO_V2] = { .end = end_sizes, .rewrite = core_rewrite_fb_info_v2 },
	[CORE_OP_FB_REGION] = { .end = end_sizes, .rewrite = core_rewrite_regions },
	[CORE_OP_PIDS] = { .end = end_processes, .rewrite = core_rewrite_pids },
	[CORE_OP_PID_INFO] = { .end = end_processes, .rewrite = core_rewrite_pid_info },
	[CORE_OP_ROOT] = { .end = end_root },
	[CORE_OP_EXPORT] = { .end = end_export },
	[CORE_OP_IMPORT] = { .end = end_import },
	[CORE_OP_POLICY] = { .end = end_policy },
	[CORE_OP_BIND] = { .end = end_bind },
	[CORE_OP_SCHEDULE] = { .end = end_schedule },
};

/* Before the driver says that it has done it, it has copied an allocation's parameters in, or an answer out. */
static u32 has_fetched(const struct core_frame *frame)
{
	const struct core_escape *escape = core_escape(frame->call->nr);
	const struct cgpu_call *call = frame->call;

	if (!frame->done || call->segments == 0 || escape->params == 0)
		return 0;
	/* Without parameters the segment is that of the rights, which not every driver reads. */
	return call->segment[0].pointer == core_abi_at(frame->abi, escape->params);
}

int cgpu_call_end(struct cgpu_core *core, struct cgpu_call *call, int result)
{
	struct core_frame frame = {
		.core = core, .state = core->state, .abi = core->abi, .call = call, .result = result
	};
	u64 op = call->opaque[CORE_NOTE_OP];
	int undo;

	if (op >= CORE_OPS || operations[op].end == NULL || core_form_find(&frame))
		return 0;
	frame.operation = &operations[op];
	frame.done = result == 0 && core_get32(call->top, frame.status_at) == NV_OK;
	/* Once only. */
	call->opaque[CORE_NOTE_OP] = CORE_OP_NONE;
	core_lock(core);
	frame.container = core_container(core->state, call->slot, call->generation);
	call->fetched = has_fetched(&frame);
	undo = frame.operation->end(&frame);
	core_unlock(core);
	return undo;
}
