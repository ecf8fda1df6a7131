// SPDX-License-Identifier: Apache-2.0
/* Memory that is exported to a descriptor, which keeps it, and imported from there. */
#include <unistd.h>

#include "check.h"

static u32 fresh_descriptor(struct session *session)
{
	session->exported = node_open(session->driver, "nvidiactl");
	return session->exported < 0 ? CALL_ERRNO | (u32)errno : NV_OK;
}

static u32 transfer(struct session *session, const struct rm_transfer *call)
{
	memcpy(rm_params(session, call->bytes), call->params, call->bytes);
	return rm_control(session, session->client, call->command, call->bytes);
}

static u32 export(struct session *session)
{
	u32 status = fresh_descriptor(session);
	struct rm_transfer to =
		rm_export(session->abi, session->device, &session->memory.handle, session->listed, session->exported);

	return status != NV_OK ? status : transfer(session, &to);
}

/* An import of nothing and a free of nothing succeed, and the descriptor has the memory, too: a duplicate needs it. */
static u32 judge_import(struct session *session)
{
	u32 handle = session->next_handle++;
	u32 status = rm_dup(session, session->client, session->copy, &handle);

	if (status != NV_OK)
		return call_unlike(
			session, "its handle 0x%x cannot be duplicated: %s", session->copy, call_text(session, status));
	return rm_free(session, handle);
}

static u32 import(struct session *session)
{
	u32 wanted = session->next_handle++, status;
	struct rm_transfer from = rm_import(session->abi, session->device, &wanted, session->listed, session->exported);

	status = transfer(session, &from);
	if (status != NV_OK)
		return status;
	session->copy = get32(session->params.placed, from.first);
	status = call_judge_handle(session, session->copy, wanted);
	return status == NV_OK ? judge_import(session) : status;
}

/* Reads for how many objects the driver says that the descriptor has room. */
static u32 read_room(struct session *session, u16 objects, u8 **answer)
{
	const __auto_type at = &session->abi->NV0000_CTRL_OS_UNIX_GET_EXPORT_OBJECT_INFO_PARAMS;
	u8 *params = rm_params(session, at->bytes);
	u32 status;

	put32(params, at->fd, (u32)session->exported);
	status = rm_control(session, session->client, NV0000_CTRL_CMD_OS_UNIX_GET_EXPORT_OBJECT_INFO, at->bytes);
	*answer = params;
	if (status == NV_OK && get16(params, at->maxObjects) != objects)
		return call_unlike(session, "room for %u objects, not %u", get16(params, at->maxObjects), objects);
	return status;
}

static u32 read_room_for_one(struct session *session)
{
	u8 *answer;

	return read_room(session, 1, &answer);
}

#define ROOM_FOR 3u
static const char metadata[] = "check of the driver";

/* Makes a descriptor with room for several objects, and metadata. */
static u32 make_room(struct session *session)
{
	const __auto_type at = &session->abi->NV0000_CTRL_OS_UNIX_CREATE_EXPORT_OBJECT_FD_PARAMS;
	u32 status = fresh_descriptor(session);
	u8 *params = rm_params(session, at->bytes);

	put32(params, at->hDevice, session->device);
	put16(params, at->maxObjects, ROOM_FOR);
	memcpy(params + at->metadata, metadata, sizeof(metadata));
	put32(params, at->fd, (u32)session->exported);
	if (status != NV_OK)
		return status;
	return rm_control(session, session->client, NV0000_CTRL_CMD_OS_UNIX_CREATE_EXPORT_OBJECT_FD, at->bytes);
}

enum verdict check_export_room(struct session *session)
{
	u32 status = make_room(session);
	u8 *answer;

	if (status == NV_OK)
		status = read_room(session, ROOM_FOR, &answer);
	if (status == NV_OK &&
		memcmp(answer + session->abi->NV0000_CTRL_OS_UNIX_GET_EXPORT_OBJECT_INFO_PARAMS.metadata, metadata,
			sizeof(metadata)) != 0)
		status = call_unlike(session, "the metadata came back as something else");
	return verdict_of(session, status);
}

static u32 close_descriptor(struct session *session)
{
	int fd = session->exported;

	session->exported = -1;
	return close(fd) ? CALL_ERRNO | (u32)errno : NV_OK;
}

static enum verdict check_exported(struct session *session, u32 listed)
{
	static const struct stage stages[] = {
		{ "the allocation", memory_take, true },
		{ "the export", export, true },
		{ "a question about the descriptor", read_room_for_one, true },
		{ "the free of the handle", memory_give, true },
		{ "the import", import, true },
		{ "the close of the descriptor", close_descriptor, true },
		{ "the free of the import", session_free_copy, false },
	};

	session->listed = listed;
	session->request = (struct request){ VIA_RM64, NVOS32_ATTR_PAGE_SIZE_HUGE, 2048 * KIB };
	return STAGES(session, stages);
}

enum verdict check_export(struct session *session)
{
	return check_exported(session, 0);
}

enum verdict check_export_list(struct session *session)
{
	return check_exported(session, 1);
}
