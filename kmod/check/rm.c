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

#define MAX_SPANS 6u

static const struct span nothing[] = { { 0, 0 } };

static u32 escape(struct session *session, struct rm_ioctl *io, const struct span *written)
{
	struct span spans[MAX_SPANS] = { { io->status, 4 } };
	u32 count = 1;

	if (io->handle != NV_ABI_ABSENT)
		spans[count++] = (struct span){ io->handle, 4 };
	/* The last of them stays empty. */
	while (written->bytes && count < MAX_SPANS - 1)
		spans[count++] = *written++;
	put32(io->data, io->status, CALL_SILENT);
	return call_escape(session, session->ctl, io->nr, io->data, io->bytes, spans);
}

u32 rm_make(struct session *session, struct rm_ioctl *io, const struct span *written)
{
	u32 called = escape(session, io, written);

	return called != NV_OK ? called : get32(io->data, io->status);
}

/* The same with parameters: nothing before them may be written. */
static u32 make_with_params(struct session *session, struct rm_ioctl *io, const struct span *written, u32 bytes)
{
	u32 called = escape(session, io, written);

	if (called != NV_OK)
		return called;
	if (bytes && !guarded_intact(&session->params)) {
		session->strange_at = 0;
		return CALL_STRANGE;
	}
	return get32(io->data, io->status);
}

u32 rm_alloc(struct session *session, enum via via, u32 parent, u32 class_id, u32 bytes, u32 *handle)
{
	struct rm_ioctl io = rm_alloc_ioctl(session->abi, via, session->client, parent, *handle, class_id);
	/* The class is the driver's to write for a client (escape.c, NV_ESC_RM_ALLOC). */
	const u16 class_at =
		via == VIA_RM21 ? session->abi->NVOS21_PARAMETERS.hClass : session->abi->NVOS64_PARAMETERS.hClass;
	const struct span written[] = { { class_at, class_id == NV01_ROOT_CLIENT ? 4 : 0 }, { 0, 0 } };
	u32 status;

	rm_alloc_params(&io, session->abi, via, bytes ? session->params.placed : NULL, bytes);
	status = make_with_params(session, &io, written, bytes);
	if (status == NV_OK)
		*handle = get32(io.data, io.handle);
	return status;
}

u32 rm_control(struct session *session, u32 object, u32 command, u32 bytes)
{
	struct rm_ioctl io = rm_control_ioctl(
		session->abi, session->client, object, command, bytes ? session->params.placed : NULL, bytes);

	return make_with_params(session, &io, nothing, bytes);
}

u32 rm_free(struct session *session, u32 handle)
{
	struct rm_ioctl io = rm_free_ioctl(session->abi, session->client, session->device, handle);

	return rm_make(session, &io, nothing);
}

u32 rm_dup(struct session *session, u32 source_client, u32 source, u32 *handle)
{
	struct rm_ioctl io =
		rm_dup_ioctl(session->abi, session->client, session->device, *handle, source_client, source);
	u32 status = rm_make(session, &io, nothing);

	if (status == NV_OK)
		*handle = get32(io.data, io.handle);
	return status;
}
