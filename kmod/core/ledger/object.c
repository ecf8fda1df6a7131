// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
/* Records of the objects that decide about charges: devices, references to video memory, channel groups. */
#include "lib/hash.h"
#include "ledger/ledger.h"
#include "ledger/tables.h"

static u32 bucket_of(const struct cgpu_state *state, u32 client, u32 handle)
{
	return core_hash(state->key, client, handle) % CORE_OBJECT_BUCKETS;
}

/* Mappings are in the same chains, by reservation and address, both halves of which the key mixes: addresses of one sum
 * would meet. */
static u32 bucket_of_mapping(const struct cgpu_state *state, u32 reservation, u64 address)
{
	return bucket_of(state, reservation, core_hash(state->key, (u32)address, (u32)(address >> 32)));
}

static u32 bucket_of_record(const struct cgpu_state *state, const struct core_object *record)
{
	if (record->kind == CORE_OBJECT_MAPPING)
		return bucket_of_mapping(state, record->parent, record->address);
	return bucket_of(state, record->client, record->handle);
}

u32 core_object_find(struct cgpu_state *state, u32 client, u32 handle)
{
	u32 i;

	if (client == CORE_NONE || handle == 0)
		return CORE_NONE;
	i = state->object_hash[bucket_of(state, client, handle)];
	while (i != CORE_NONE &&
		(state->object[i].client != client || state->object[i].handle != handle ||
			state->object[i].kind == CORE_OBJECT_MAPPING))
		i = state->object[i].next;
	return i;
}

u32 core_mapping_find(const struct cgpu_state *state, u32 reservation, u64 address)
{
	u32 i = state->object_hash[bucket_of_mapping(state, reservation, address)];

	while (i != CORE_NONE &&
		(state->object[i].kind != CORE_OBJECT_MAPPING || state->object[i].parent != reservation ||
			state->object[i].address != address))
		i = state->object[i].next;
	return i;
}

void core_object_hash_link(struct cgpu_state *state, u32 object)
{
	struct core_object *record = &state->object[object];
	u32 *head = &state->object_hash[bucket_of_record(state, record)];

	record->next = *head;
	*head = object;
}

static void hash_unlink(struct cgpu_state *state, u32 object)
{
	struct core_object *record = &state->object[object];
	u32 *at;

	if (record->handle == 0)
		return;
	at = &state->object_hash[bucket_of_record(state, record)];
	while (*at != CORE_NONE && *at != object)
		at = &state->object[*at].next;
	if (*at == object)
		*at = record->next;
}

static u32 *siblings(struct cgpu_state *state, const struct core_object *record)
{
	if (record->parent != CORE_NONE)
		return &state->object[record->parent].child;
	return &state->client[record->client].first;
}

static void tree_link(struct cgpu_state *state, u32 object)
{
	struct core_object *record = &state->object[object];
	u32 *head = siblings(state, record);

	record->before = CORE_NONE;
	record->after = *head;
	if (*head != CORE_NONE)
		state->object[*head].before = object;
	*head = object;
}

static void tree_unlink(struct cgpu_state *state, u32 object)
{
	struct core_object *record = &state->object[object];

	if (record->after != CORE_NONE)
		state->object[record->after].before = record->before;
	if (record->before != CORE_NONE)
		state->object[record->before].after = record->after;
	else
		*siblings(state, record) = record->after;
}

void core_object_link(struct cgpu_state *state, u32 object)
{
	struct core_object *record = &state->object[object];
	struct core_client *client = &state->client[record->client];

	record->child = CORE_NONE;
	record->alias = CORE_NONE;
	record->alias_before = CORE_NONE;
	if (record->kind != CORE_OBJECT_MAPPING)
		record->mapped = CORE_NONE;
	tree_link(state, object);
	client->objects++;
	state->objects++;
	if (client->slot != CORE_NONE)
		state->container[client->slot].objects++;
	else
		state->orphaned_objects++;
}

u32 core_object_begin(struct cgpu_state *state, u32 client, u32 kind, u32 gpu)
{
	struct core_object *record;
	u32 object = state->object_free;

	core_assert_locked();
	if (object == CORE_NONE || !core_quota_room(state, state->client[client].slot, CORE_POOL_OBJECTS))
		return CORE_NONE;
	record = &state->object[object];
	state->object_free = record->next;
	memset(record, 0, sizeof(*record));
	record->kind = kind;
	record->gpu = gpu;
	record->client = client;
	record->parent = CORE_NONE;
	record->memory = CORE_NONE;
	record->tsg_list = CORE_NONE;
	record->mapped = CORE_NONE;
	if (kind == CORE_OBJECT_CHANNEL)
		record->applied = CORE_CHANNEL_ENABLED;
	record->serial = ++state->serial;
	core_barrier();
	record->live = CORE_PENDING;
	core_object_link(state, object);
	return object;
}

void core_object_confirm(struct cgpu_state *state, u32 object, u32 handle, u32 parent)
{
	struct core_object *record = &state->object[object];

	tree_unlink(state, object);
	record->parent = parent;
	core_barrier();
	record->handle = handle;
	core_barrier();
	record->live = CORE_LIVE;
	tree_link(state, object);
	if (handle)
		core_object_hash_link(state, object);
	core_mapping_link(state, object);
	core_tsg_link(state, object);
}

void core_mapping_link(struct cgpu_state *state, u32 object)
{
	struct core_object *record = &state->object[object];
	u32 *head;

	if (record->kind != CORE_OBJECT_MAPPING)
		return;
	if (record->mapped != CORE_NONE && !core_kind_is_mapped(state->object[record->mapped].kind))
		record->mapped = CORE_NONE;
	record->mapped_before = CORE_NONE;
	record->mapped_after = CORE_NONE;
	if (record->mapped == CORE_NONE)
		return;
	head = &state->object[record->mapped].mapped;
	record->mapped_after = *head;
	if (*head != CORE_NONE)
		state->object[*head].mapped_before = object;
	*head = object;
}

static void mapping_unlink(struct cgpu_state *state, const struct core_object *record)
{
	if (record->kind != CORE_OBJECT_MAPPING || record->mapped == CORE_NONE)
		return;
	if (record->mapped_after != CORE_NONE)
		state->object[record->mapped_after].mapped_before = record->mapped_before;
	if (record->mapped_before != CORE_NONE)
		state->object[record->mapped_before].mapped_after = record->mapped_after;
	else
		state->object[record->mapped].mapped = record->mapped_after;
}

u32 core_object_after(const struct cgpu_state *state, u32 object)
{
	u32 at = object;

	if (state->object[at].child != CORE_NONE)
		return state->object[at].child;
	while (at != CORE_NONE && state->object[at].after == CORE_NONE)
		at = state->object[at].parent;
	return at == CORE_NONE ? CORE_NONE : state->object[at].after;
}

/* Memory that a channel names; CORE_NONE: it has no record, or went before, with their device. */
static u32 named_by_channel(struct cgpu_state *state, u32 channel, u32 index)
{
	const struct core_object *record = &state->object[channel];
	u32 object = core_object_find(state, record->client, index < 2 ? record->notifier[index] : record->userd);

	return object != CORE_NONE && core_kind_is_mapped(state->object[object].kind) ? object : CORE_NONE;
}

void core_notifiers_link(struct cgpu_state *state, u32 channel)
{
	u32 i, memory;

	for (i = 0; i < 3; i++) {
		memory = named_by_channel(state, channel, i);
		if (memory != CORE_NONE)
			state->object[memory].notifies++;
	}
}

static void unlink_notifiers(struct cgpu_state *state, u32 object)
{
	u32 i, memory;

	for (i = 0; i < 3 && state->object[object].kind == CORE_OBJECT_CHANNEL; i++) {
		memory = named_by_channel(state, object, i);
		if (memory != CORE_NONE && state->object[memory].notifies)
			state->object[memory].notifies--;
	}
}

static void free_record(struct cgpu_state *state, u32 object)
{
	struct core_object *record = &state->object[object];
	struct core_client *client = &state->client[record->client];

	record->live = 0;
	core_barrier();
	core_tsg_unlink(state, object);
	unlink_notifiers(state, object);
	mapping_unlink(state, record);
	core_tables_unlink(state, object);
	if (record->memory != CORE_NONE)
		core_memory_unref(state, object);
	hash_unlink(state, object);
	tree_unlink(state, object);
	client->objects--;
	state->objects--;
	if (client->slot != CORE_NONE)
		state->container[client->slot].objects--;
	else
		state->orphaned_objects--;
	record->next = state->object_free;
	state->object_free = object;
}

/* Drop one object that has no children. */
static void drop_leaf(struct cgpu_state *state, u32 object)
{
	const struct core_object *record = &state->object[object];

	/* The driver unmaps memory that goes. */
	while (core_kind_is_mapped(record->kind) && record->mapped != CORE_NONE)
		free_record(state, record->mapped);
	free_record(state, object);
}

void core_object_drop(struct cgpu_state *state, u32 object)
{
	u32 at = object;

	for (;;) {
		u32 parent = state->object[at].parent;

		if (state->object[at].child != CORE_NONE) {
			at = state->object[at].child;
			continue;
		}
		drop_leaf(state, at);
		if (at == object)
			return;
		at = parent;
	}
}
