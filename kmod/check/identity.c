// SPDX-License-Identifier: Apache-2.0
/* The identity of a card, and objects by the short form of RM_ALLOC. */
#include "check.h"

/* UVM takes the binary form. */
static u32 read_uuid(struct session *session)
{
	const __auto_type at = &session->abi->NV2080_CTRL_GPU_GET_GID_INFO_PARAMS;
	u8 *params = rm_params(session, at->bytes);
	u32 status;

	put32(params, at->flags,
		NV2080_GPU_CMD_GPU_GET_GID_FLAGS_FORMAT_BINARY << NV2080_GPU_CMD_GPU_GET_GID_FLAGS_FORMAT_SHIFT);
	status = rm_control(session, session->subdevice, NV2080_CTRL_CMD_GPU_GET_GID_INFO, at->bytes);
	if (status == NV_OK && get32(params, at->length) != sizeof(session->uuid))
		return call_unlike(session, "a UUID of %u bytes", get32(params, at->length));
	memcpy(session->uuid, params + at->data, sizeof(session->uuid));
	return status;
}

static u32 read_uuid_text(struct session *session)
{
	const __auto_type at = &session->abi->NV2080_CTRL_GPU_GET_GID_INFO_PARAMS;
	u8 *params = rm_params(session, at->bytes);
	u32 status = rm_control(session, session->subdevice, NV2080_CTRL_CMD_GPU_GET_GID_INFO, at->bytes);

	if (status == NV_OK && memcmp(params + at->data, "GPU-", 4) != 0)
		return call_unlike(session, "a UUID that does not begin with GPU-");
	return status;
}

static u32 read_name(struct session *session)
{
	const __auto_type at = &session->abi->NV2080_CTRL_GPU_GET_NAME_STRING_PARAMS;
	u8 *params = rm_params(session, at->bytes);
	u32 status = rm_control(session, session->subdevice, NV2080_CTRL_CMD_GPU_GET_NAME_STRING, at->bytes);

	if (status == NV_OK && (params[at->gpuNameString] <= ' ' || params[at->gpuNameString] > '~'))
		return call_unlike(session, "a name that is no text");
	return status;
}

static u32 read_mode(struct session *session)
{
	const __auto_type at = &session->abi->NV2080_CTRL_GPU_GET_INFO_V2_PARAMS;
	const struct nv_layout_NV2080_CTRL_GPU_INFO *entry = &session->abi->NV2080_CTRL_GPU_INFO;
	u8 *params = rm_params(session, at->bytes);
	u32 status, mode;

	put32(params, at->gpuInfoListSize, 1);
	put32(params, at->gpuInfoList + entry->index, NV2080_CTRL_GPU_INFO_INDEX_GPU_SMC_MODE);
	put32(params, at->gpuInfoList + entry->data, UINT32_MAX);
	status = rm_control(session, session->subdevice, NV2080_CTRL_CMD_GPU_GET_INFO_V2, at->bytes);
	mode = get32(params, at->gpuInfoList + entry->data);
	session->mig = mode == NV2080_CTRL_GPU_INFO_GPU_SMC_MODE_ENABLED ||
		mode == NV2080_CTRL_GPU_INFO_GPU_SMC_MODE_DISABLE_PENDING;
	if (status == NV_OK && mode == UINT32_MAX)
		return call_unlike(session, "no MIG mode where it was expected");
	return status;
}

static u32 read_attached(struct session *session)
{
	const __auto_type at = &session->abi->NV0000_CTRL_GPU_GET_ATTACHED_IDS_PARAMS;
	u8 *params = rm_params(session, at->bytes);
	u32 status = rm_control(session, session->client, NV0000_CTRL_CMD_GPU_GET_ATTACHED_IDS, at->bytes), i;

	for (i = 0; status == NV_OK && i < NV0000_CTRL_GPU_MAX_ATTACHED_GPUS; i++) {
		if (get32(params + 4 * i, at->gpuIds) == session->gpu_id)
			return NV_OK;
	}
	return status != NV_OK ? status : call_unlike(session, "the card is not among those attached");
}

enum verdict check_identity(struct session *session)
{
	static const struct {
		const char *what;
		u32 (*read)(struct session *session);
	} steps[] = {
		{ "attached cards", read_attached },
		{ "UUID", read_uuid },
		{ "UUID as text", read_uuid_text },
		{ "name", read_name },
		{ "MIG mode", read_mode },
	};
	size_t i;

	for (i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
		u32 status = steps[i].read(session);

		if (status != NV_OK)
			return verdict_failed(session, "%s: %s", steps[i].what, call_text(session, status));
	}
	return PASSED;
}

enum verdict check_wrapper(struct session *session)
{
	u32 status;

	session->wrapped = true;
	status = read_uuid_text(session);
	session->wrapped = false;
	return verdict_of(session, status);
}

/* A second client with its objects, of which the subdevice has to answer. */
static u32 short_objects(struct session *other)
{
	u32 status = rm_alloc(other, VIA_RM21, 0, NV01_ROOT_CLIENT, 0, &other->client);

	if (status == NV_OK)
		status = session_make_objects(other, VIA_RM21);
	return status != NV_OK ? status : read_name(other);
}

/* The device's number has to lead both clients to one card. */
static u32 same_card(struct session *session, struct session *other)
{
	u32 status = read_uuid(session);

	if (status == NV_OK)
		status = read_uuid(other);
	if (status == NV_OK && memcmp(session->uuid, other->uuid, sizeof(session->uuid)) != 0)
		return call_unlike(other, "another card than by NVOS64");
	return status;
}

enum verdict check_short_form(struct session *session)
{
	struct session other = *session;
	u32 status, freed = NV_OK;

	other.client = other.device = other.subdevice = 0;
	status = short_objects(&other);
	if (status == NV_OK)
		status = same_card(session, &other);
	if (other.client)
		freed = rm_free(&other, other.client);
	session->next_handle = other.next_handle;
	session->strange_at = other.strange_at;
	memcpy(session->unlike, other.unlike, sizeof(session->unlike));
	return verdict_of(session, status != NV_OK ? status : freed);
}
