// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0
/* Records of RM clients. The driver checks who owns a client; a record says which container used it. */
#include "ledger.h"
#include "process.h"

static u32 handle_bucket(u32 handle)
{
	return ((handle * 0x85ebca6bu) >> 16) % CORE_CLIENT_BUCKETS;
}

static u32 tgid_bucket(s32 tgid)
{
	return (((u32)tgid * 0x9e3779b1u) >> 16) % CORE_CLIENT_BUCKETS;
}

u32 core_client_of_process(const struct cgpu_state *state, s32 tgid)
{
	return state->tgid_hash[tgid_bucket(tgid)];
}

u32 core_client_find(struct cgpu_state *state, u32 slot, u32 handle)
{
	u32 i = state->client_hash[handle_bucket(handle)];

	while (i != CORE_NONE && (state->client[i].slot != slot || state->client[i].handle != handle))
		i = state->client[i].next;
	return i;
}

u32 core_client_claimed(const struct cgpu_state *state, u32 slot, u32 handle)
{
	u32 i = state->client_hash[handle_bucket(handle)];

	for (; i != CORE_NONE; i = state->client[i].next) {
		const struct core_client *record = &state->client[i];

		if (record->handle == handle && record->slot != slot && record->confirmed && record->objects)
			break;
	}
	return i;
}

void core_client_link(struct cgpu_state *state, u32 client)
{
	struct core_client *record = &state->client[client];
	u32 *head = &state->client_hash[handle_bucket(record->handle)];
	u32 *tgid_head = &state->tgid_hash[tgid_bucket(record->tgid)];

	record->next = *head;
	*head = client;
	record->tgid_next = *tgid_head;
	*tgid_head = client;
	record->first = CORE_NONE;
	record->objects = 0;
	memset(record->charged, 0, sizeof(record->charged));
	state->clients++;
	if (record->slot != CORE_NONE)
		state->container[record->slot].clients++;
}

static void hash_unlink(struct cgpu_state *state, u32 client)
{
	struct core_client *record = &state->client[client];
	u32 *at = &state->client_hash[handle_bucket(record->handle)];

	while (*at != CORE_NONE && *at != client)
		at = &state->client[*at].next;
	if (*at == client)
		*at = record->next;
}

static void tgid_unlink(struct cgpu_state *state, u32 client)
{
	struct core_client *record = &state->client[client];
	u32 *at = &state->tgid_hash[tgid_bucket(record->tgid)];

	while (*at != CORE_NONE && *at != client)
		at = &state->client[*at].tgid_next;
	if (*at == client)
		*at = record->tgid_next;
}

u32 core_client_take(struct cgpu_state *state, u32 slot, u32 handle, s32 tgid)
{
	struct core_client *record;
	u32 client = core_client_find(state, slot, handle);

	if (client != CORE_NONE)
		return client;
	client = state->client_free;
	if (client == CORE_NONE || !core_quota_room(state, slot, CORE_POOL_CLIENTS))
		return CORE_NONE;
	record = &state->client[client];
	state->client_free = record->next;
	memset(record, 0, sizeof(*record));
	record->slot = slot;
	record->generation = state->container[slot].generation;
	record->handle = handle;
	record->tgid = tgid;
	core_barrier();
	record->live = CORE_LIVE;
	core_client_link(state, client);
	return client;
}

void core_client_adopt(struct cgpu_state *state, u32 client, s32 tgid)
{
	struct core_client *record = &state->client[client];
	u32 *head = &state->tgid_hash[tgid_bucket(tgid)];

	tgid_unlink(state, client);
	record->tgid = tgid;
	record->tgid_next = *head;
	*head = client;
}

void core_client_settle(struct cgpu_state *state, u32 client)
{
	struct core_client *record = &state->client[client];

	if (!record->confirmed && record->objects == 0)
		core_client_drop(state, client);
}

void core_client_drop(struct cgpu_state *state, u32 client)
{
	struct core_client *record = &state->client[client];

	if (record->live != CORE_LIVE)
		return;
	while (record->first != CORE_NONE)
		core_object_drop(state, record->first);
	record->live = 0;
	core_barrier();
	hash_unlink(state, client);
	tgid_unlink(state, client);
	state->clients--;
	if (record->slot != CORE_NONE)
		state->container[record->slot].clients--;
	record->next = state->client_free;
	state->client_free = client;
}
