// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0
/*
 * Controls that export memory to a descriptor, or import it from one. Both are references to memory that is charged
 * already, or is the host's and never is. What counts is the open file that the descriptor leads to, which the transport has to say, and to hold the
 * driver to: a descriptor can be made to lead elsewhere by another thread at any time.
 */
#include "call/call.h"

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

enum cgpu_verdict core_begin_transfer(struct core_call_context *context)
{
	const struct nv_layout_NVOS54_PARAMETERS *at = &context->abi->NVOS54_PARAMETERS;
	struct cgpu_call *call = context->call;
	struct core_transfer transfer;
	int more;

	/* Memory that leaves this way would lose its charge. */
	if (!call->finds_files || (get32(call->top, at->flags) & NVOS54_FLAGS_FINN_SERIALIZED))
		return core_answer(context, NV_ERR_NOT_SUPPORTED);
	core_transfer_form(context->abi, context->control->command, &transfer);
	if (get32(call->top, at->paramsSize) != transfer.bytes)
		return core_answer(context, NV_ERR_INVALID_PARAM_STRUCT);
	if (get64(call->top, at->params) == 0)
		return core_answer(context, NV_ERR_INVALID_ARGUMENT);
	more = core_segment(context, 0, 0, at->params, transfer.bytes);
	if (more)
		return more < 0 ? core_refuse(context, EINVAL) : CGPU_COPY_IN;
	if (!call->found) {
		call->descriptor = (s32)get32(call->segment[0].data, transfer.descriptor);
		return CGPU_FIND_FILE;
	}
	read_counts(context->abi, call->segment[0].data, &transfer);
	if (call->target == 0 || transfer.count > transfer.most)
		return core_answer(context, NV_ERR_INVALID_PARAMETER);
	return transfer.imports ? core_begin_import(context, &transfer) : core_begin_export(context, &transfer);
}
