// SPDX-License-Identifier: Apache-2.0
/* Calls of the resource manager by the layouts under test. */
#include "check.h"

u8 *rm_params(struct session *session, size_t bytes)
{
	return guarded_place(&session->params, bytes, 0);
}

u8 *rm_params_cut(struct session *session, size_t bytes)
{
	return guarded_place(&session->params, bytes, 1);
}

/* The driver's status, unless the call or the structure behind the pointer says something worse. */
static u32 outcome(struct session *session, u32 called, const u8 *data, u16 status_at, u32 bytes)
{
	if (called != NV_OK)
		return called;
	if (bytes && !guarded_intact(&session->params)) {
		session->strange_at = 0;
		return CALL_STRANGE;
	}
	return get32(data, status_at);
}

/* Where a form has its fields. */
struct alloc_form {
	u16 bytes, root, parent, handle, class_id, params, params_size, status;
};

#define FORM(at)                                                                                                  \
	(struct alloc_form)                                                                                       \
	{                                                                                                         \
		(at)->bytes, (at)->hRoot, (at)->hObjectParent, (at)->hObjectNew, (at)->hClass, (at)->pAllocParms, \
			(at)->paramsSize, (at)->status                                                            \
	}

u32 rm_alloc(struct session *session, enum via via, u32 parent, u32 class_id, u32 bytes, u32 *handle)
{
	const struct alloc_form at =
		via == VIA_SHORT ? FORM(&session->abi->NVOS21_PARAMETERS) : FORM(&session->abi->NVOS64_PARAMETERS);
	/* The class is the driver's to write for a client (escape.c, NV_ESC_RM_ALLOC). */
	const struct span written[] = { { at.handle, 4 }, { at.status, 4 },
		{ at.class_id, class_id == NV01_ROOT_CLIENT ? 4 : 0 }, { 0, 0 } };
	u8 data[64] = { 0 };
	u32 called;

	put32(data, at.root, session->client);
	put32(data, at.parent, parent);
	put32(data, at.handle, *handle);
	put32(data, at.class_id, class_id);
	put64(data, at.params, bytes ? (uintptr_t)session->params.placed : 0);
	put32(data, at.params_size, bytes);
	put32(data, at.status, CALL_SILENT);
	called = call_escape(session, session->ctl, NV_ESC_RM_ALLOC, data, at.bytes, written);
	called = outcome(session, called, data, at.status, bytes);
	if (called == NV_OK)
		*handle = get32(data, at.handle);
	return called;
}

u32 rm_control(struct session *session, u32 object, u32 command, u32 bytes)
{
	const struct nv_layout_NVOS54_PARAMETERS *at = &session->abi->NVOS54_PARAMETERS;
	const struct span written[] = { { at->status, 4 }, { 0, 0 } };
	u8 data[64] = { 0 };
	u32 called;

	put32(data, at->hClient, session->client);
	put32(data, at->hObject, object);
	put32(data, at->cmd, command);
	put64(data, at->params, bytes ? (uintptr_t)session->params.placed : 0);
	put32(data, at->paramsSize, bytes);
	put32(data, at->status, CALL_SILENT);
	called = call_escape(session, session->ctl, NV_ESC_RM_CONTROL, data, at->bytes, written);
	return outcome(session, called, data, at->status, bytes);
}

u32 rm_free(struct session *session, u32 handle)
{
	const struct nv_layout_NVOS00_PARAMETERS *at = &session->abi->NVOS00_PARAMETERS;
	const struct span written[] = { { at->status, 4 }, { 0, 0 } };
	u8 data[64] = { 0 };
	u32 called;

	put32(data, at->hRoot, session->client);
	put32(data, at->hObjectParent, session->device);
	put32(data, at->hObjectOld, handle);
	put32(data, at->status, CALL_SILENT);
	called = call_escape(session, session->ctl, NV_ESC_RM_FREE, data, at->bytes, written);
	return outcome(session, called, data, at->status, 0);
}

u32 rm_dup(struct session *session, u32 source_client, u32 source, u32 *handle)
{
	const struct nv_layout_NVOS55_PARAMETERS *at = &session->abi->NVOS55_PARAMETERS;
	const struct span written[] = { { at->hObject, 4 }, { at->status, 4 }, { 0, 0 } };
	u8 data[64] = { 0 };
	u32 called;

	put32(data, at->hClient, session->client);
	put32(data, at->hParent, session->device);
	put32(data, at->hObject, *handle);
	put32(data, at->hClientSrc, source_client);
	put32(data, at->hObjectSrc, source);
	put32(data, at->status, CALL_SILENT);
	called = call_escape(session, session->ctl, NV_ESC_RM_DUP_OBJECT, data, at->bytes, written);
	called = outcome(session, called, data, at->status, 0);
	if (called == NV_OK)
		*handle = get32(data, at->hObject);
	return called;
}
