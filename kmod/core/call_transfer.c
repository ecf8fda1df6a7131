// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0
/*
 * Controls that export memory to a descriptor, or import it from one. Both are references to memory that is charged
 * already, or is the host's and never is. What counts is the open file that the descriptor leads to, which the transport has to say, and to hold the
 * driver to: a descriptor can be made to lead elsewhere by another thread at any time.
 */
#include "call.h"

static struct core_transfer list_form(const struct nv_abi *abi, u32 command)
{
	const struct nv_layout_NV0000_CTRL_OS_UNIX_EXPORT_OBJECTS_TO_FD_PARAMS *out =
		&abi->NV0000_CTRL_OS_UNIX_EXPORT_OBJECTS_TO_FD_PARAMS;
	const struct nv_layout_NV0000_CTRL_OS_UNIX_IMPORT_OBJECTS_FROM_FD_PARAMS *in =
		&abi->NV0000_CTRL_OS_UNIX_IMPORT_OBJECTS_FROM_FD_PARAMS;

	if (command == NV0000_CTRL_CMD_OS_UNIX_IMPORT_OBJECTS_FROM_FD)
		return (struct core_transfer){ in->bytes, in->fd, in->objects, in->hParent,
			(u32)(in->objectTypes - in->objects) / sizeof(u32), command, 0, 0, 1 };
	return (struct core_transfer){ out->bytes, out->fd, out->objects, NV_ABI_ABSENT,
		(u32)(out->numObjects - out->objects) / sizeof(u32), command, 0, 0, 0 };
}

/* Without the counts of a list. */
static int form_of(const struct nv_abi *abi, u32 command, struct core_transfer *transfer)
{
	const struct nv_layout_NV0000_CTRL_OS_UNIX_EXPORT_OBJECT_TO_FD_PARAMS *out =
		&abi->NV0000_CTRL_OS_UNIX_EXPORT_OBJECT_TO_FD_PARAMS;
	const struct nv_layout_NV0000_CTRL_OS_UNIX_IMPORT_OBJECT_FROM_FD_PARAMS *in =
		&abi->NV0000_CTRL_OS_UNIX_IMPORT_OBJECT_FROM_FD_PARAMS;

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
	case NV0000_CTRL_CMD_OS_UNIX_IMPORT_OBJECTS_FROM_FD:
		*transfer = list_form(abi, command);
		return 0;
	default:
		return -ENOENT;
	}
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

void core_transfer_note(struct cgpu_call *call, const struct core_transfer *transfer)
{
	call->opaque[CORE_NOTE_GPU] = (u64)transfer->command << 32 | transfer->index << 16 | transfer->count;
}

int core_transfer_noted(const struct nv_abi *abi, const struct cgpu_call *call, struct core_transfer *transfer)
{
	u64 note = call->opaque[CORE_NOTE_GPU];

	if (form_of(abi, (u32)(note >> 32), transfer) || call->segments == 0 || call->segment[0].data == NULL ||
		call->segment[0].bytes != transfer->bytes)
		return -ENOENT;
	transfer->count = (u32)note & 0xffff;
	transfer->index = (u32)note >> 16;
	return transfer->count > transfer->most ? -ENOENT : 0;
}

u32 core_batch_at(const struct cgpu_state *state, const struct cgpu_call *call, u32 n, u32 before)
{
	u32 at = n ? before : (u32)call->opaque[CORE_NOTE_OBJECT];
	const struct core_object *record;

	if (n && at != CORE_NONE)
		at = state->object[at].batch;
	if (at >= CGPU_MAX_OBJECTS)
		return CORE_NONE;
	record = &state->object[at];
	/* Recovery makes a pending record a live one without a handle. */
	if (record->live != CORE_PENDING && (record->live != CORE_LIVE || record->handle != 0))
		return CORE_NONE;
	return record->serial == call->opaque[CORE_NOTE_SERIAL] + n ? at : CORE_NONE;
}

int core_batch_add(struct core_frame *frame, u32 client, u32 source)
{
	struct cgpu_state *state = frame->state;
	u64 *notes = frame->call->opaque;
	u32 object = core_object_begin(state, client, state->object[source].kind, state->object[source].gpu);

	if (object == CORE_NONE) {
		core_batch_drop(frame);
		return -ENOSPC;
	}
	if (state->object[source].memory != CORE_NONE)
		core_memory_share(state, object, state->object[source].memory);
	state->object[object].batch = CORE_NONE;
	/* The last one added, until the call runs. */
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

void core_batch_drop(struct core_frame *frame)
{
	u32 count = (u32)frame->call->opaque[CORE_NOTE_UNIT], n, next;
	u32 at = count ? core_batch_at(frame->state, frame->call, 0, CORE_NONE) : CORE_NONE;

	for (n = 1; at != CORE_NONE; n++, at = next) {
		next = n < count ? core_batch_at(frame->state, frame->call, n, at) : CORE_NONE;
		core_object_drop(frame->state, at);
	}
	frame->call->opaque[CORE_NOTE_UNIT] = 0;
}

enum cgpu_verdict core_begin_transfer(struct core_frame *frame, u32 command)
{
	const struct nv_layout_NVOS54_PARAMETERS *at = &frame->abi->NVOS54_PARAMETERS;
	struct cgpu_call *call = frame->call;
	struct core_transfer transfer;
	int more;

	/* Memory that leaves this way would lose its charge. */
	if (!call->finds_files || (core_get32(call->top, at->flags) & NVOS54_FLAGS_FINN_SERIALIZED))
		return core_answer(frame, NV_ERR_NOT_SUPPORTED);
	form_of(frame->abi, command, &transfer);
	if (core_get32(call->top, at->paramsSize) != transfer.bytes)
		return core_answer(frame, NV_ERR_INVALID_PARAM_STRUCT);
	if (core_get64(call->top, at->params) == 0)
		return core_answer(frame, NV_ERR_INVALID_ARGUMENT);
	more = core_segment(frame, 0, 0, at->params, transfer.bytes);
	if (more)
		return more < 0 ? core_refuse(frame, EINVAL) : CGPU_COPY_IN;
	if (!call->found) {
		call->descriptor = (s32)core_get32(call->segment[0].data, transfer.descriptor);
		return CGPU_FIND_FILE;
	}
	read_counts(frame->abi, call->segment[0].data, &transfer);
	if (call->target == 0 || transfer.count > transfer.most)
		return core_answer(frame, NV_ERR_INVALID_PARAMETER);
	return transfer.imports ? core_begin_import(frame, &transfer) : core_begin_export(frame, &transfer);
}
