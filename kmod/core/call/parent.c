// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
/*
 * The parent of a duplicate. Drivers 575 to 595 never give back the lock that all calls take when a duplicate's parent is not
 * there (src/nvidia/src/libraries/resserv/src/rs_server.c, serverCopyResource): one call hangs the driver for everybody. So a
 * call that duplicates is not forwarded before the ledger has the parent as the container's, and the driver has said that it
 * is there. Both are asked in the container's order, in which its frees run too, and on the file of the call, which keeps the
 * client: nothing takes the parent away in between. A record alone would not do, as it can be out of date.
 */
#include "call/call.h"

/* The handles of a call that duplicates, before it runs. 0: it duplicates nothing. */
static int duplicate_of(const struct core_call_context *context, struct core_handles *handles)
{
	if (context->call->nr == NV_ESC_RM_DUP_OBJECT) {
		core_dup_handles(context, handles);
		return 1;
	}
	return context->call->opaque[CORE_NOTE_OP] == CORE_OP_IMPORT &&
		core_import_handles(context->abi, context->call, handles) == 0;
}

/*
 * The question asks for a duplicate of the parent, below its client and by its own handle. The driver looks for what is to be
 * duplicated before anything else, finds the client as its own parent, and makes no second object of a handle.
 */
int core_parent_question(const struct core_call_context *context, struct cgpu_call *question)
{
	const struct nv_layout_NVOS55_PARAMETERS *at = &context->abi->NVOS55_PARAMETERS;
	struct core_handles handles;
	u8 *top = question->top;

	if (!duplicate_of(context, &handles) || handles.parent == handles.client)
		return 0;
	memset(question, 0, sizeof(*question));
	question->nr = NV_ESC_RM_DUP_OBJECT;
	question->bytes = at->bytes;
	question->top = top;
	memset(top, 0, at->bytes);
	put32(top, at->hClient, handles.client);
	put32(top, at->hParent, handles.client);
	put32(top, at->hObject, handles.parent);
	put32(top, at->hClientSrc, handles.client);
	put32(top, at->hObjectSrc, handles.parent);
	return 1;
}

u32 core_parent_answered(struct core_call_context *context, const struct cgpu_call *question)
{
	u32 status = get32(question->top, context->abi->NVOS55_PARAMETERS.status);

	/* Devices are not duplicated at all; of what can be, the handle is in use. */
	if (status == NV_ERR_INVALID_ARGUMENT || status == NV_ERR_INSERT_DUPLICATE_NAME)
		return 1;
	if (core_form_find(context) == 0)
		put32(context->call->top, context->status_at, status == NV_OK ? NV_ERR_OBJECT_NOT_FOUND : status);
	return 0;
}
