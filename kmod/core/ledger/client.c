// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
/* Records of RM clients. The driver checks who owns a client; a record says which container used it. */
#include "lib/hash.h"
#include "ledger/ledger.h"

static u32 bucket_of(const struct cgpu_state *state, u64 value)
{
	return core_hash(state->key, (u32)value, (u32)(value >> 32)) % CORE_CLIENT_BUCKETS;
}

u32 core_client_of_process(const struct cgpu_state *state, s32 tgid)
{
	return state->tgid_hash[bucket_of(state, (u32)tgid)];
}

u32 core_client_of_file(const struct cgpu_state *state, u64 file)
{
	return state->file_hash[bucket_of(state, file)];
}

u32 core_client_of_handle(const struct cgpu_state *state, u32 handle)
{
	return state->client_hash[bucket_of(state, handle)];
}

u32 core_client_find(struct cgpu_state *state, u32 slot, u32 handle)
{
	u32 i = core_client_of_handle(state, handle);

	while (i != CORE_NONE && (state->client[i].slot != slot || state->client[i].handle != handle))
		i = state->client[i].next;
	return i;
}

u32 core_client_of_other(const struct cgpu_state *state, u32 slot, u32 handle)
{
	u32 i = core_client_of_handle(state, handle);

	for (; i != CORE_NONE; i = state->client[i].next) {
		const struct core_client *record = &state->client[i];

		if (record->handle == handle && record->slot != slot && record->confirmed && record->objects)
			break;
	}
	return i;
}

/* Top objects of a client that is another container's, or nobody's, count while they are pending: memory may come there. */
u32 core_client_anchor(const struct cgpu_state *state, u32 client)
{
	const struct core_client *own = &state->client[client], *record;
	u32 i, object = own->first;

	for (i = core_client_of_handle(state, own->handle); i != CORE_NONE; i = record->next) {
		record = &state->client[i];
		if (record->handle == own->handle && record->slot != own->slot && record->objects)
			return CORE_NONE;
	}
	while (object != CORE_NONE && (state->object[object].live != CORE_LIVE || state->object[object].handle == 0))
		object = state->object[object].after;
	return object;
}

static void tgid_link(struct cgpu_state *state, u32 client)
{
	struct core_client *record = &state->client[client];
	u32 *head = &state->tgid_hash[bucket_of(state, (u32)record->tgid)];

	record->tgid_before = CORE_NONE;
	record->tgid_next = *head;
	if (*head != CORE_NONE)
		state->client[*head].tgid_before = client;
	*head = client;
}

static void tgid_unlink(struct cgpu_state *state, u32 client)
{
	struct core_client *record = &state->client[client];

	if (record->tgid_next != CORE_NONE)
		state->client[record->tgid_next].tgid_before = record->tgid_before;
	if (record->tgid_before != CORE_NONE)
		state->client[record->tgid_before].tgid_next = record->tgid_next;
	else
		state->tgid_hash[bucket_of(state, (u32)record->tgid)] = record->tgid_next;
}

/* A client whose file is not known is in no chain. */
static void file_link(struct cgpu_state *state, u32 client)
{
	struct core_client *record = &state->client[client];
	u32 *head;

	if (record->file == 0)
		return;
	head = &state->file_hash[bucket_of(state, record->file)];
	record->file_before = CORE_NONE;
	record->file_next = *head;
	if (*head != CORE_NONE)
		state->client[*head].file_before = client;
	*head = client;
}

static void file_unlink(struct cgpu_state *state, u32 client)
{
	struct core_client *record = &state->client[client];

	if (record->file == 0)
		return;
	if (record->file_next != CORE_NONE)
		state->client[record->file_next].file_before = record->file_before;
	if (record->file_before != CORE_NONE)
		state->client[record->file_before].file_next = record->file_next;
	else
		state->file_hash[bucket_of(state, record->file)] = record->file_next;
}

void core_client_link(struct cgpu_state *state, u32 client)
{
	struct core_client *record = &state->client[client];
	u32 *head = &state->client_hash[bucket_of(state, record->handle)];

	record->next = *head;
	*head = client;
	tgid_link(state, client);
	file_link(state, client);
	record->first = CORE_NONE;
	record->objects = 0;
	record->memories = 0;
	memset(record->charged, 0, sizeof(record->charged));
	memset(record->estimated, 0, sizeof(record->estimated));
	state->clients++;
	if (record->slot != CORE_NONE)
		state->container[record->slot].clients++;
	else
		state->orphaned_clients++;
}

static void hash_unlink(struct cgpu_state *state, u32 client)
{
	struct core_client *record = &state->client[client];
	u32 *at = &state->client_hash[bucket_of(state, record->handle)];

	while (*at != CORE_NONE && *at != client)
		at = &state->client[*at].next;
	if (*at == client)
		*at = record->next;
}

u32 core_client_take(struct cgpu_state *state, u32 slot, u32 handle, s32 tgid)
{
	u32 client = core_client_find(state, slot, handle);

	return client != CORE_NONE ? client : core_client_make(state, slot, handle, tgid);
}

u32 core_client_make(struct cgpu_state *state, u32 slot, u32 handle, s32 tgid)
{
	struct core_client *record;
	u32 client = state->client_free;

	core_assert_locked();
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
	tgid_unlink(state, client);
	state->client[client].tgid = tgid;
	tgid_link(state, client);
}

void core_client_on_file(struct cgpu_state *state, u32 client, u64 file)
{
	if (state->client[client].file == file)
		return;
	file_unlink(state, client);
	state->client[client].file = file;
	file_link(state, client);
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
	file_unlink(state, client);
	state->clients--;
	if (record->slot != CORE_NONE)
		state->container[record->slot].clients--;
	else
		state->orphaned_clients--;
	record->next = state->client_free;
	state->client_free = client;
}

int core_client_forget(struct cgpu_core *core, u32 slot, s32 tgid, u32 handle)
{
	struct cgpu_state *state = core->state;
	int err = -ENOENT;
	u32 i, next;

	core_lock(core);
	for (i = core_client_of_handle(state, handle); i != CORE_NONE; i = next) {
		const struct core_client *record = &state->client[i];

		next = record->next;
		if (record->tgid != tgid || record->handle != handle || (slot != CORE_ANYWHERE && record->slot != slot))
			continue;
		core_client_drop(state, i);
		err = 0;
	}
	core_unlock(core);
	return err;
}
