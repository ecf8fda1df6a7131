// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
/* Settles calls that ran: records what they have changed, and builds the calls that take it back. */
#include "call/call.h"

/* Settle an allocation. 1: it must be undone. */
static int end_alloc(struct core_call_context *context)
{
	const struct core_operation *operation = context->operation;
	/* Whether the object is charged by its size. */
	int sized = context->call->opaque[CORE_NOTE_UNIT] != 0 && operation->shape;
	struct core_alloc_shape shape;
	struct core_handles handles;

	if (!context->done) {
		core_note_card_short(context);
		core_settle_failed(context);
		return 0;
	}
	operation->handles(context, &handles);
	if (sized)
		operation->shape(context, &shape);
	if (core_settle_done(context, &handles, sized ? &shape : NULL))
		return 1;
	core_addresses_made(context);
	core_notifiers_note(context);
	return 0;
}

/* An undo knows its record, whatever handle the driver gave. */
static void drop_undone(struct core_call_context *context)
{
	const u64 *notes = context->call->opaque;
	const struct core_object *record =
		core_object_noted(context->state, notes[CORE_NOTE_OBJECT], notes[CORE_NOTE_SERIAL]);

	if (notes[CORE_NOTE_UNDO] == CORE_UNDO && record && record->live == CORE_LIVE)
		core_object_drop(context->state, (u32)notes[CORE_NOTE_OBJECT]);
}

/* The driver has freed an object, or a client with all its objects: their charges end. Other handles were never on record. */
static void drop_freed(struct core_call_context *context, u32 client_handle, u32 handle)
{
	u32 client, object;

	if (context->container == NULL)
		return;
	client = core_client_find(context->state, context->call->slot, client_handle);
	if (client == CORE_NONE)
		return;
	if (handle == client_handle) {
		core_client_drop(context->state, client);
		return;
	}
	object = core_object_find(context->state, client, handle);
	if (object != CORE_NONE)
		core_object_drop(context->state, object);
}

static int end_free(struct core_call_context *context)
{
	const struct nv_layout_NVOS00_PARAMETERS *at = &context->abi->NVOS00_PARAMETERS;
	const u8 *top = context->call->top;

	if (!context->done)
		return 0;
	drop_undone(context);
	drop_freed(context, get32(top, at->hRoot), get32(top, at->hObjectOld));
	return 0;
}

static int end_heap_free(struct core_call_context *context)
{
	const struct nv_layout_NVOS32_PARAMETERS *at = &context->abi->NVOS32_PARAMETERS;
	const u8 *top = context->call->top;

	if (context->done)
		drop_freed(context, get32(top, at->hRoot), get32(top, at->data_Free_hMemory));
	return 0;
}

/* Whether a container has the card whole that a call was about. */
static int is_of_whole_card(const struct core_call_context *context)
{
	return context->container &&
		core_is_passthrough(context->state, (u32)context->call->opaque[CORE_NOTE_GPU], context->call->slot);
}

/* Rewrite what the driver tells of processes: also of a card that the container has whole. */
static int end_processes(struct core_call_context *context)
{
	/* The driver may have filled in part of the answer even where it failed. */
	if (context->result == 0 && context->state->settings.enforce)
		context->operation->rewrite(context);
	return 0;
}

/* Rewrite what the driver tells of memory. A card that the container has whole is as large as the driver says. */
static int end_sizes(struct core_call_context *context)
{
	return is_of_whole_card(context) ? 0 : end_processes(context);
}

static int end_plain(struct core_call_context *context)
{
	(void)context;
	return 0;
}

/* The GPU that a call was about, before its records are settled. CORE_NONE: the ledger does not know it. */
static u32 gpu_of(const struct core_call_context *context)
{
	const u64 *notes = context->call->opaque;
	const struct core_object *record =
		core_object_noted(context->state, notes[CORE_NOTE_OBJECT], notes[CORE_NOTE_SERIAL]);
	u32 subject;

	if (record)
		return record->gpu;
	if (context->call->nr != NV_ESC_RM_CONTROL || context->container == NULL)
		return CORE_NONE;
	subject = core_subject(context);
	return subject == CORE_NONE ? CORE_NONE : context->state->object[subject].gpu;
}

static void note_lost(struct core_call_context *context, struct core_lost_line *line)
{
	line->level = 0;
	if (context->result == 0 && get32(context->call->top, context->status_at) == NV_ERR_GPU_IS_LOST)
		core_lost_set(context->state, gpu_of(context), 1, line);
}

/* One row for each operation that a begin can leave. CORE_OP_NONE has none: there is nothing to settle. */
static const struct core_operation operations[CORE_OPS] = {
	[CORE_OP_PLAIN] = { .end = end_plain },
	[CORE_OP_ALLOC] = { .end = end_alloc, .handles = core_alloc_handles, .shape = core_alloc_shape },
	[CORE_OP_HEAP_ALLOC] = { .end = end_alloc, .handles = core_heap_handles, .shape = core_heap_shape_read },
	[CORE_OP_DUP] = { .end = end_alloc, .handles = core_dup_handles },
	[CORE_OP_DUP_UNCHARGED] = { .end = core_end_dup_uncharged },
	[CORE_OP_FREE] = { .end = end_free },
	[CORE_OP_HEAP_FREE] = { .end = end_heap_free },
	[CORE_OP_HEAP_INFO] = { .end = end_sizes, .rewrite = core_rewrite_heap_info },
	[CORE_OP_FB_INFO] = { .end = end_sizes, .rewrite = core_rewrite_fb_info },
	[CORE_OP_FB_INFO_V2] = { .end = end_sizes, .rewrite = core_rewrite_fb_info_v2 },
	[CORE_OP_FB_REGION] = { .end = end_sizes, .rewrite = core_rewrite_regions },
	[CORE_OP_PIDS] = { .end = end_processes, .rewrite = core_rewrite_pids, .check = core_check_pids },
	[CORE_OP_PID_INFO] = { .end = end_processes, .rewrite = core_rewrite_pid_info, .check = core_check_pid_info },
	[CORE_OP_ROOT] = { .end = core_end_root },
	[CORE_OP_EXPORT] = { .end = core_end_export },
	[CORE_OP_IMPORT] = { .end = core_end_import },
	[CORE_OP_POLICY] = { .end = core_end_policy },
	[CORE_OP_BIND] = { .end = core_end_bind },
	[CORE_OP_SCHEDULE] = { .end = core_end_schedule },
	[CORE_OP_MAP] = { .end = core_end_map },
	[CORE_OP_UNMAP] = { .end = core_end_unmap },
};

/* Before the driver says that it has done it, it has copied an allocation's parameters in, or an answer out. */
static u32 has_fetched(const struct core_call_context *context)
{
	const struct core_escape *escape = core_escape(context->call->nr);
	const struct cgpu_call *call = context->call;

	if (!context->done || call->segments == 0 || escape->params == 0)
		return 0;
	/* Without parameters the segment is that of the rights, which not every driver reads. */
	return call->segment[0].pointer == core_abi_at(context->abi, escape->params);
}

int cgpu_call_end(struct cgpu_core *core, struct cgpu_call *call, int result)
{
	struct core_call_context context = {
		.core = core, .state = core->state, .abi = core->abi, .call = call, .result = result
	};
	struct core_lost_line lost;
	u64 op = call->opaque[CORE_NOTE_OP];
	int undo, checks;

	/* A call is settled once. Where its notes are damaged the driver's work is unknown: the call's reservation
	 * stays charged. */
	call->opaque[CORE_NOTE_OP] = CORE_OP_NONE;
	if (op >= CORE_OPS || operations[op].end == NULL || core_form_find(&context))
		return 0;
	context.operation = &operations[op];
	context.done = result == 0 && get32(call->top, context.status_at) == NV_OK;
	core_lock(core);
	context.container = core_container(core->state, call->slot, call->generation);
	call->fetched = has_fetched(&context);
	note_lost(&context, &lost);
	undo = context.operation->end(&context);
	checks = context.operation->check && result == 0 && core->state->settings.enforce && core->ops->process_in;
	core_unlock(core);
	if (checks)
		context.operation->check(&context);
	core_lost_log(core, &lost);
	if (undo) {
		put32(call->top, context.status_at, NV_ERR_NO_MEMORY);
		call->no_room = CGPU_NO_ROOM_LEFT;
	}
	return undo;
}

/* Find the next handle to free. 0: there is none. */
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
