// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
/*
 * Controls that export memory to a descriptor, or import it from one. Both are references to memory that is charged
 * already, or is the host's and never is. A call is judged by the open file that the descriptor leads to, which the
 * transport has to say, and to have the driver use: another thread can make a descriptor lead elsewhere at any time.
 */
#include "call/call.h"

/* Offsets in the parameters of an export or import. */
struct core_transfer {
	u32 bytes;
	u32 descriptor, objects, parent; /* parent: of imports */
	u32 most; /* objects that there is room for */
	u32 command;
	u32 count, index; /* how many, and the place in the file of the first */
	int imports;
};

/* Without the counts of a list. -ENOENT: it is none of these controls. */
static int transfer_form(const struct nv_abi *abi, u32 command, struct core_transfer *transfer)
{
	const struct nv_layout_NV0000_CTRL_OS_UNIX_EXPORT_OBJECT_TO_FD_PARAMS *out =
		&abi->NV0000_CTRL_OS_UNIX_EXPORT_OBJECT_TO_FD_PARAMS;
	const struct nv_layout_NV0000_CTRL_OS_UNIX_IMPORT_OBJECT_FROM_FD_PARAMS *in =
		&abi->NV0000_CTRL_OS_UNIX_IMPORT_OBJECT_FROM_FD_PARAMS;
	const struct nv_layout_NV0000_CTRL_OS_UNIX_EXPORT_OBJECTS_TO_FD_PARAMS *list_out =
		&abi->NV0000_CTRL_OS_UNIX_EXPORT_OBJECTS_TO_FD_PARAMS;
	const struct nv_layout_NV0000_CTRL_OS_UNIX_IMPORT_OBJECTS_FROM_FD_PARAMS *list_in =
		&abi->NV0000_CTRL_OS_UNIX_IMPORT_OBJECTS_FROM_FD_PARAMS;

	switch (command) {
	case NV0000_CTRL_CMD_OS_UNIX_EXPORT_OBJECT_TO_FD:
		*transfer = (struct core_transfer){ out->bytes, out->fd, out->object_data_rmObject_hObject,
			NV_ABI_ABSENT, 1, command, 1, 0, 0 };
		return 0;
	case NV0000_CTRL_CMD_OS_UNIX_IMPORT_OBJECT_FROM_FD:
		*transfer = (struct core_transfer){ in->bytes, in->fd, in->object_data_rmObject_hObject,
			in->object_data_rmObject_hParent, 1, command, 1, 0, 1 };
		return 0;
	case NV0000_CTRL_CMD_OS_UNIX_EXPORT_OBJECTS_TO_FD:
		*transfer = (struct core_transfer){ list_out->bytes, list_out->fd, list_out->objects, NV_ABI_ABSENT,
			(u32)(list_out->numObjects - list_out->objects) / sizeof(u32), command, 0, 0, 0 };
		return 0;
	case NV0000_CTRL_CMD_OS_UNIX_IMPORT_OBJECTS_FROM_FD:
		*transfer = (struct core_transfer){ list_in->bytes, list_in->fd, list_in->objects, list_in->hParent,
			(u32)(list_in->objectTypes - list_in->objects) / sizeof(u32), command, 0, 0, 1 };
		return 0;
	default:
		return -ENOENT;
	}
}

/* Note the transfer for the end: by then the driver has written into the parameters. */
static void note_transfer(struct cgpu_call *call, const struct core_transfer *transfer)
{
	call->opaque[CORE_NOTE_GPU] = (u64)transfer->command << 32 | transfer->index << 16 | transfer->count;
}

/* Read the noted transfer. -ENOENT: there is none. */
static int noted_transfer(const struct nv_abi *abi, const struct cgpu_call *call, struct core_transfer *transfer)
{
	u64 note = call->opaque[CORE_NOTE_GPU];

	if (transfer_form(abi, (u32)(note >> 32), transfer) || call->segments == 0 || call->segment[0].data == NULL ||
		call->segment[0].bytes != transfer->bytes)
		return -ENOENT;
	transfer->count = (u32)note & 0xffff;
	transfer->index = (u32)note >> 16;
	return transfer->count > transfer->most ? -ENOENT : 0;
}

/* The n-th pending record of a call, where before is the one ahead of it. CORE_NONE: it is gone. */
static u32 batch_at(struct cgpu_state *state, const struct cgpu_call *call, u32 n, u32 before)
{
	u32 at = n ? before : (u32)call->opaque[CORE_NOTE_OBJECT];
	const struct core_object *record;

	if (n && at != CORE_NONE)
		at = state->object[at].batch;
	record = core_object_noted(state, at, call->opaque[CORE_NOTE_SERIAL] + n);
	return record && core_object_under_way(record) ? at : CORE_NONE;
}

static void batch_drop(struct core_call_context *context)
{
	u32 count = (u32)context->call->opaque[CORE_NOTE_UNIT], n, next;
	u32 at = count ? batch_at(context->state, context->call, 0, CORE_NONE) : CORE_NONE;

	for (n = 1; at != CORE_NONE; n++, at = next) {
		next = n < count ? batch_at(context->state, context->call, n, at) : CORE_NONE;
		core_object_drop(context->state, at);
	}
	context->call->opaque[CORE_NOTE_UNIT] = 0;
}

/* Add a pending record to the batch: a reference to the memory of source, of the same kind. -ENOSPC: the batch is
 * dropped. */
static int batch_add(struct core_call_context *context, u32 client, u32 source)
{
	struct cgpu_state *state = context->state;
	u64 *notes = context->call->opaque;
	u32 object = core_object_begin(state, client, state->object[source].kind, state->object[source].gpu);

	if (object == CORE_NONE) {
		batch_drop(context);
		return -ENOSPC;
	}
	if (state->object[source].memory != CORE_NONE)
		core_memory_share(state, object, state->object[source].memory);
	state->object[object].batch = CORE_NONE;
	/* CORE_NOTE_GPU is the last record added, until the call runs. */
	if (notes[CORE_NOTE_UNIT] == 0) {
		notes[CORE_NOTE_OBJECT] = object;
		notes[CORE_NOTE_SERIAL] = state->object[object].serial;
	} else {
		state->object[notes[CORE_NOTE_GPU]].batch = object;
	}
	notes[CORE_NOTE_GPU] = object;
	notes[CORE_NOTE_UNIT]++;
	return 0;
}

/*
 * Exports: the open file becomes one more owner of a reference to the memory. All objects of a list are exported, or
 * none.
 */

/* Whether the ledger has an object as memory of the card or of the host. */
static int is_memory(const struct cgpu_state *state, u32 object)
{
	u32 kind = object == CORE_NONE ? 0 : state->object[object].kind;

	return kind == CORE_OBJECT_MEMORY || kind == CORE_OBJECT_HOST;
}

/* Only objects that the ledger has as memory of this container are exported. */
static enum cgpu_verdict check(struct core_call_context *context, const struct core_transfer *transfer, u32 client)
{
	const u8 *objects = context->call->segment[0].data + transfer->objects;
	int others;
	u32 i;

	if (client == CORE_NONE)
		return core_answer(context, NV_ERR_INSUFFICIENT_PERMISSIONS);
	/* An export could replace in the driver what another container has exported on this file, and its ledger would not see it. */
	core_exports_find(context->state, context->call->slot, context->call->target, &others);
	if (others)
		return core_answer(context, NV_ERR_INSUFFICIENT_PERMISSIONS);
	for (i = 0; i < transfer->count; i++) {
		u32 handle = get32(objects, i * sizeof(u32));
		u32 object = core_object_find(context->state, client, handle);

		/* In a list, 0 empties a place. */
		if (handle == 0 && transfer->most > 1)
			continue;
		if (!is_memory(context->state, object))
			return core_answer(context, NV_ERR_NOT_SUPPORTED);
	}
	return CGPU_EXECUTE;
}

static enum cgpu_verdict begin_export(struct core_call_context *context, const struct core_transfer *transfer)
{
	const struct nv_layout_NVOS54_PARAMETERS *at = &context->abi->NVOS54_PARAMETERS;
	const u8 *objects = context->call->segment[0].data + transfer->objects;
	struct cgpu_state *state = context->state;
	struct cgpu_call *call = context->call;
	u32 client = core_client_find(state, call->slot, get32(call->top, at->hClient));
	enum cgpu_verdict verdict = check(context, transfer, client);
	u32 pin, i;

	if (verdict != CGPU_EXECUTE)
		return verdict;
	pin = core_exports_take(state, call->slot, call->target, call->tgid);
	if (pin == CORE_NONE)
		return core_no_records(context);
	call->opaque[CORE_NOTE_UNIT] = 0;
	for (i = 0; i < transfer->count; i++) {
		u32 object = core_object_find(state, client, get32(objects, i * sizeof(u32)));

		if (object != CORE_NONE && batch_add(context, pin, object)) {
			core_exports_settle(state, pin);
			return core_no_records(context);
		}
	}
	note_transfer(call, transfer);
	call->opaque[CORE_NOTE_HANDLES] = pin;
	return core_execute(context, CORE_OP_EXPORT);
}

/* Replace the records at the exported places by those of the call, or by none. */
static void put_in_place(struct core_call_context *context, u32 pin, const struct core_transfer *transfer)
{
	const u8 *objects = context->call->segment[0].data + transfer->objects;
	struct cgpu_state *state = context->state;
	u32 count = (u32)context->call->opaque[CORE_NOTE_UNIT], n = 0, i, at = CORE_NONE;

	for (i = 0; i < transfer->count; i++) {
		u32 place = transfer->index + i + 1, old = core_object_find(state, pin, place);

		if (old != CORE_NONE)
			core_object_drop(state, old);
		if (get32(objects, i * sizeof(u32)) == 0 || n == count)
			continue;
		at = n == 0 || at != CORE_NONE ? batch_at(state, context->call, n, at) : CORE_NONE;
		n++;
		if (at != CORE_NONE)
			core_object_confirm(state, at, place, CORE_NONE);
	}
}

/* The record of the file that the call was for, if it is still that. */
static u32 holder_of(const struct core_call_context *context)
{
	u64 pin = context->call->opaque[CORE_NOTE_HANDLES];
	const struct core_client *record;

	if (pin >= CGPU_MAX_CLIENTS)
		return CORE_NONE;
	record = &context->state->client[pin];
	if (record->live != CORE_LIVE || !core_client_exports(record) || record->file != context->call->target)
		return CORE_NONE;
	return (u32)pin;
}

int core_end_export(struct core_call_context *context)
{
	u32 pin = holder_of(context);
	struct core_transfer transfer;

	if (pin == CORE_NONE)
		return 0;
	if (context->done && noted_transfer(context->abi, context->call, &transfer) == 0) {
		context->state->client[pin].confirmed = 1;
		put_in_place(context, pin, &transfer);
	} else {
		batch_drop(context);
	}
	core_exports_settle(context->state, pin);
	return 0;
}

/*
 * Imports: one more reference, under the same charge. Only objects that this container has exported can be imported:
 * others are charged to another container, or to none.
 */

/* Whether this container has exported an object at each of these places of the file. */
static int all_known(const struct core_call_context *context, const struct core_transfer *transfer, u32 pin)
{
	u32 i;

	for (i = 0; i < transfer->count; i++) {
		if (core_object_find(context->state, pin, transfer->index + i + 1) == CORE_NONE)
			return 0;
	}
	return 1;
}

static enum cgpu_verdict begin_import(struct core_call_context *context, const struct core_transfer *transfer)
{
	const struct nv_layout_NVOS54_PARAMETERS *at = &context->abi->NVOS54_PARAMETERS;
	struct cgpu_state *state = context->state;
	struct cgpu_call *call = context->call;
	const struct core_handles handles = { .client = get32(call->top, at->hClient),
		.parent = get32(call->segment[0].data, transfer->parent) };
	u32 client, pin, i;
	int others;

	pin = core_exports_find(state, call->slot, call->target, &others);
	if (others || !all_known(context, transfer, pin))
		return core_answer(context, NV_ERR_INSUFFICIENT_PERMISSIONS);
	if (transfer->count == 0)
		return core_execute(context, CORE_OP_PLAIN);
	if (!core_parent_is_known(context, &handles))
		return core_answer(context, NV_ERR_OBJECT_NOT_FOUND);
	client = core_client_take(state, call->slot, handles.client, call->tgid);
	if (client == CORE_NONE)
		return core_no_records(context);
	call->opaque[CORE_NOTE_UNIT] = 0;
	for (i = 0; i < transfer->count; i++) {
		if (batch_add(context, client, core_object_find(state, pin, transfer->index + i + 1))) {
			core_client_settle(state, client);
			return core_no_records(context);
		}
	}
	note_transfer(call, transfer);
	call->opaque[CORE_NOTE_HANDLES] = (u64)handles.client << 32;
	return core_execute(context, CORE_OP_IMPORT);
}

/* Confirm the records with the handles that the driver has given. */
static void confirm_all(struct core_call_context *context, const struct core_transfer *transfer, u32 client)
{
	const u8 *params = context->call->segment[0].data;
	struct cgpu_state *state = context->state;
	u32 count = (u32)context->call->opaque[CORE_NOTE_UNIT], i, next;
	u32 at = batch_at(state, context->call, 0, CORE_NONE);

	for (i = 0; i < count && at != CORE_NONE; i++, at = next) {
		u32 handle = get32(params, transfer->objects + i * sizeof(u32));
		u32 parent;

		next = i + 1 < count ? batch_at(state, context->call, i + 1, at) : CORE_NONE;
		core_replace_stale(context, client, handle);
		parent = core_object_find(state, client, get32(params, transfer->parent));
		if (parent != CORE_NONE && state->object[parent].kind >= CORE_OBJECT_MEMORY)
			parent = CORE_NONE;
		core_object_confirm(state, at, handle, parent);
	}
}

/* Client of the imported objects, if neither it nor its container went while the driver worked. */
static u32 client_of(const struct core_call_context *context)
{
	u32 first = batch_at(context->state, context->call, 0, CORE_NONE);

	if (first == CORE_NONE || context->container == NULL)
		return CORE_NONE;
	return context->state->object[first].client;
}

int core_end_import(struct core_call_context *context)
{
	u32 client = client_of(context);
	struct core_transfer transfer;
	int other;

	if (!context->done) {
		batch_drop(context);
		if (client != CORE_NONE)
			core_client_settle(context->state, client);
		return 0;
	}
	context->call->opaque[CORE_NOTE_DONE] = CORE_DONE_LIST;
	if (client == CORE_NONE || noted_transfer(context->abi, context->call, &transfer))
		return 1;
	other = core_client_done(context, client);
	confirm_all(context, &transfer, client);
	return other;
}

int core_import_handles(const struct nv_abi *abi, const struct cgpu_call *call, struct core_handles *handles)
{
	struct core_transfer transfer;

	if (noted_transfer(abi, call, &transfer))
		return -ENOENT;
	handles->client = get32(call->top, abi->NVOS54_PARAMETERS.hClient);
	handles->parent = get32(call->segment[0].data, transfer.parent);
	handles->object = 0;
	return 0;
}

u32 core_import_undo(const struct nv_abi *abi, struct cgpu_call *call)
{
	u64 *at = &call->opaque[CORE_NOTE_DONE];
	struct core_transfer transfer;
	u32 handle = 0;

	if (noted_transfer(abi, call, &transfer))
		return 0;
	while (handle == 0 && *at - CORE_DONE_LIST < transfer.count)
		handle = get32(call->segment[0].data, transfer.objects + (u32)((*at)++ - CORE_DONE_LIST) * sizeof(u32));
	return handle;
}

static void read_counts(const struct nv_abi *abi, const u8 *params, struct core_transfer *transfer)
{
	const struct nv_layout_NV0000_CTRL_OS_UNIX_EXPORT_OBJECTS_TO_FD_PARAMS *out =
		&abi->NV0000_CTRL_OS_UNIX_EXPORT_OBJECTS_TO_FD_PARAMS;
	const struct nv_layout_NV0000_CTRL_OS_UNIX_IMPORT_OBJECTS_FROM_FD_PARAMS *in =
		&abi->NV0000_CTRL_OS_UNIX_IMPORT_OBJECTS_FROM_FD_PARAMS;

	if (transfer->count)
		return;
	transfer->count = get16(params, transfer->imports ? in->numObjects : out->numObjects);
	transfer->index = get16(params, transfer->imports ? in->index : out->index);
}

/* Without a transport that finds files, memory that leaves this way would lose its charge: nothing is planned for the refusal. */
void core_plan_transfer(struct core_call_context *context)
{
	struct core_transfer transfer;
	const u8 *params;

	if (!context->call->finds_files || transfer_form(context->abi, context->plan->control->command, &transfer))
		return;
	params = core_plan_params(context);
	if (params == NULL)
		return;
	context->plan->names_file = 1;
	context->plan->descriptor = (s32)get32(params, transfer.descriptor);
}

enum cgpu_verdict core_begin_transfer(struct core_call_context *context)
{
	struct cgpu_call *call = context->call;
	struct core_transfer transfer;
	u32 status = core_params_status(context);

	if (!call->finds_files || transfer_form(context->abi, context->plan->control->command, &transfer))
		return core_answer(context, NV_ERR_NOT_SUPPORTED);
	if (status)
		return core_answer(context, status);
	read_counts(context->abi, call->segment[0].data, &transfer);
	if (call->target == 0 || transfer.count > transfer.most)
		return core_answer(context, NV_ERR_INVALID_PARAMETER);
	return transfer.imports ? begin_import(context, &transfer) : begin_export(context, &transfer);
}
