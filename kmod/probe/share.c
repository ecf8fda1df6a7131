// SPDX-License-Identifier: Apache-2.0
/* Who may duplicate memory of this client's, and duplicates of what others have. */
#include "probe.h"

#define MAX_NUMBERS 4u

/* The last memory, or what is named, to whom a type and a target say; no target is this client. */
static uint32_t share(struct session *session, const uint64_t *numbers, unsigned int count)
{
	const struct nv_layout_NVOS57_PARAMETERS *at = &session->settings->abi->NVOS57_PARAMETERS;
	uint32_t client = session->client, object, status;
	uint8_t data[64] = { 0 };

	if (count < MAX_NUMBERS && session->count == 0)
		return NV_ERR_INVALID_OBJECT_HANDLE;
	object = count < MAX_NUMBERS ? session->held[session->count - 1].handle : (uint32_t)numbers[3];
	if (count == MAX_NUMBERS)
		client = (uint32_t)numbers[2];
	put32(data, at->hClient, client);
	put32(data, at->hObject, object);
	put32(data, at->sharePolicy_target, numbers[1] ? (uint32_t)numbers[1] : session->client);
	put32(data, at->sharePolicy_accessMask, 1u << RS_ACCESS_DUP_OBJECT);
	put16(data, at->sharePolicy_type, (uint16_t)numbers[0]);
	data[at->sharePolicy_action] = RS_SHARE_ACTION_FLAG_COMPOSE;
	status = driver_call(session->settings, session->ctl, NV_ESC_RM_SHARE, data, at->bytes);
	if (status == NV_OK)
		status = get32(data, at->status);
	report(status, "share client=0x%x handle=0x%x own=0x%x", client, object, session->client);
	return status;
}

static uint32_t dup_of(struct session *session, uint32_t client, uint32_t object)
{
	struct grant grant = { 0 };
	uint32_t status = memory_dup_of(session, client, object, &grant);

	report(status, "dup-of handle=0x%x", grant.handle);
	return status;
}

uint32_t share_run(struct probe *probe, const char *name, const char *value, bool *understood)
{
	struct session *session = &probe->sessions[probe->gpu];
	uint64_t numbers[MAX_NUMBERS] = { 0 };
	unsigned int count = parse_numbers(value, numbers, MAX_NUMBERS);
	bool shares = strcmp(name, "share") == 0;
	uint32_t status;

	*understood = shares ? count == 1 || count == 2 || count == MAX_NUMBERS : count == 2;
	if (!*understood)
		return NV_OK;
	status = session_open(session);
	if (status != NV_OK)
		return status;
	return shares ? share(session, numbers, count) : dup_of(session, (uint32_t)numbers[0], (uint32_t)numbers[1]);
}
