// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
/*
 * Records of removed containers, which take room from those that run. An orphan keeps its memory, its channels with their
 * groups, and the objects above these. A container that leaves many records has one for all its memory of a card: each of its
 * clients refers to that, so it stays charged until the last of them has gone. The driver frees what a client has at its
 * end, and nothing else tells of an orphan's objects but the references of the driver's own parts, which are counted.
 */
#include "ledger/ledger.h"

/* While orphans have no more objects than this, each piece of memory keeps its record. Tests build a core with less. */
#ifndef CORE_FOLDS_ABOVE
#define CORE_FOLDS_ABOVE (CGPU_MAX_OBJECTS / 16)
#endif

/* --- objects that an orphan needs no record of --- */

/* Addresses, and memory of the host. Mappings go first, as they go with what is mapped. */
static void drop_kind(struct cgpu_state *state, u32 client, u32 kind)
{
	u32 at, next;

	for (at = state->client[client].first; at != CORE_NONE; at = next) {
		next = core_object_after(state, at);
		if (state->object[at].kind == kind)
			core_object_drop(state, at);
	}
}

/* Whether an orphan needs no record of an object: nothing is charged for it, and nothing is below it. The end of a
 * call under way looks for its record, but not for a reference that was folded. */
static int is_bare(const struct core_object *record)
{
	if (record->memory != CORE_NONE || record->child != CORE_NONE)
		return 0;
	return record->kind == CORE_OBJECT_MEMORY || !core_object_under_way(record);
}

static void drop_bare(struct cgpu_state *state, u32 client)
{
	u32 at, next, parent;

	for (at = state->client[client].first; at != CORE_NONE; at = next) {
		next = core_object_after(state, at);
		for (; at != CORE_NONE && is_bare(&state->object[at]); at = parent) {
			parent = state->object[at].parent;
			core_object_drop(state, at);
		}
	}
}

void core_client_thin(struct cgpu_state *state, u32 client)
{
	drop_kind(state, client, CORE_OBJECT_MAPPING);
	drop_kind(state, client, CORE_OBJECT_VIRTUAL);
	drop_bare(state, client);
}

/* --- one record for many --- */

/* The record of a container's memory on each card, and apart from it that of its managed memory. */
struct folded {
	u32 memory[2][CGPU_MAX_GPUS];
};

/* A drop finds the references of a pin by their records: those of a file one by one, those of a process by their
 * number. */
static int counts_references(const struct core_client *client)
{
	return core_is_pin(client) && !core_is_file_pin(client) && !core_client_exports(client);
}

/* Whether a client can do with fewer records. Calls under way may drop theirs. */
static int can_fold(const struct cgpu_state *state, u32 client)
{
	const struct core_client *record = &state->client[client];
	u32 at;

	if (core_is_file_pin(record))
		return 0;
	for (at = record->first; at != CORE_NONE && !counts_references(record); at = core_object_after(state, at)) {
		if (core_object_under_way(&state->object[at]))
			return 0;
	}
	return 1;
}

/* The record of all takes over what this memory is charged, and the object refers to that. */
static void refer_to(struct cgpu_state *state, u32 object, u32 all)
{
	u32 memory = state->object[object].memory;

	core_memory_resize(state, all, state->memory[all].bytes + state->memory[memory].bytes);
	core_memory_resize(state, memory, 0);
	core_memory_unref(state, object);
	core_memory_share(state, object, all);
}

static int has_ids(const struct core_memory *memory)
{
	return memory->group_ids || memory->channel_ids;
}

static void gather(struct cgpu_state *state, u32 client, struct folded *folded)
{
	u32 at;

	for (at = state->client[client].first; at != CORE_NONE; at = core_object_after(state, at)) {
		u32 memory = state->object[at].memory, *all;

		if (memory == CORE_NONE || has_ids(&state->memory[memory]))
			continue;
		all = &folded->memory[state->memory[memory].managed][state->memory[memory].gpu];
		if (*all == CORE_NONE)
			*all = memory;
		else if (*all != memory)
			refer_to(state, at, *all);
	}
}

/* The object stands for all references that its client had. A new serial hides it from an undo or a drop of one of
 * them. */
static void stand_for_all(struct cgpu_state *state, u32 object)
{
	struct core_object *record = &state->object[object];

	if (core_object_under_way(record))
		core_object_confirm(state, object, object + 1, CORE_NONE);
	if (record->kind < CORE_OBJECT_CHANNEL_GROUP)
		record->serial = ++state->serial;
}

/* One reference of each client stays that can do with fewer. */
static void keep_one_each(struct cgpu_state *state, u32 memory)
{
	u32 at, next;

	state->walk++;
	for (at = state->memory[memory].first; at != CORE_NONE; at = next) {
		struct core_client *client = &state->client[state->object[at].client];

		next = state->object[at].alias;
		if (!client->folded)
			continue;
		if (client->walk == state->walk)
			core_memory_unref(state, at);
		else
			stand_for_all(state, at);
		client->walk = state->walk;
	}
}

static void keep_one_of_ids(struct cgpu_state *state, u32 client)
{
	u32 at, memory;

	for (at = state->client[client].first; at != CORE_NONE; at = core_object_after(state, at)) {
		memory = state->object[at].memory;
		if (memory != CORE_NONE && has_ids(&state->memory[memory]) && state->memory[memory].first == at)
			keep_one_each(state, memory);
	}
}

/* The next client of a container, at or after one. CGPU_MAX_CLIENTS: none. */
static u32 client_of(const struct cgpu_state *state, u32 slot, u32 client)
{
	while (client < CGPU_MAX_CLIENTS &&
		(state->client[client].live != CORE_LIVE || state->client[client].slot != slot))
		client++;
	return client;
}

void core_container_fold(struct cgpu_state *state, u32 slot)
{
	struct folded folded;
	u32 i, managed;

	if (state->orphaned_objects + state->container[slot].objects <= CORE_FOLDS_ABOVE)
		return;
	memset(&folded, 0xff, sizeof(folded));
	for (i = client_of(state, slot, 0); i < CGPU_MAX_CLIENTS; i = client_of(state, slot, i + 1)) {
		state->client[i].folded = can_fold(state, i) ? state->client[i].objects : 0;
		gather(state, i, &folded);
	}
	for (i = client_of(state, slot, 0); i < CGPU_MAX_CLIENTS; i = client_of(state, slot, i + 1))
		keep_one_of_ids(state, i);
	for (i = 0; i < CGPU_MAX_GPUS; i++) {
		for (managed = 0; managed < 2; managed++) {
			if (folded.memory[managed][i] != CORE_NONE)
				keep_one_each(state, folded.memory[managed][i]);
		}
	}
	for (i = client_of(state, slot, 0); i < CGPU_MAX_CLIENTS; i = client_of(state, slot, i + 1)) {
		if (state->client[i].folded)
			drop_bare(state, i);
	}
}

void core_folded_drop(struct cgpu_state *state, const struct cgpu_reference *reference)
{
	struct core_client *pin;

	if (reference->serial == 0 || reference->pin == 0 || reference->pin > CGPU_MAX_CLIENTS)
		return;
	pin = &state->client[reference->pin - 1];
	if (pin->live == CORE_LIVE && pin->slot == CORE_NONE && pin->folded && --pin->folded == 0)
		core_client_drop(state, reference->pin - 1);
}
