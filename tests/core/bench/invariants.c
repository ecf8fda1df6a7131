// SPDX-License-Identifier: Apache-2.0
/* Everything that must hold between the records, worked out again from the records alone. */
#include "bench.h"
#include "ledger/tables.h"

static u64 references[CGPU_MAX_OBJECTS];

static u64 tables[CGPU_MAX_OBJECTS];

/* A live one is found at its address, and is among the mappings of its memory. */
static void check_mapping(const struct cgpu_state *state, u32 mapping)
{
	const struct core_object *object = &state->object[mapping];
	u32 at;

	if (object->live != CORE_LIVE)
		return;
	CHECK_EQ(core_mapping_find(state, object->parent, object->address), mapping);
	if (object->mapped == CORE_NONE)
		return;
	CHECK(core_kind_is_mapped(state->object[object->mapped].kind));
	for (at = state->object[object->mapped].mapped; at != mapping; at = state->object[at].mapped_after)
		CHECK(at != CORE_NONE);
}

static void tables_of(const struct cgpu_state *state, u32 object)
{
	u32 space = state->object[object].tables ? core_tables_space(state, object) : CORE_NONE;

	if (space != CORE_NONE)
		tables[state->object[space].memory] += state->object[object].tables;
}

static void check_objects(const struct cgpu_state *state)
{
	u32 objects = 0, i;

	memset(references, 0, sizeof(references));
	memset(tables, 0, sizeof(tables));
	for (i = 0; i < CGPU_MAX_OBJECTS; i++) {
		const struct core_object *object = &state->object[i];
		const struct core_client *client;

		if (object->live != CORE_LIVE && object->live != CORE_PENDING)
			continue;
		objects++;
		CHECK(object->client < CGPU_MAX_CLIENTS);
		client = &state->client[object->client];
		CHECK_EQ(client->live, CORE_LIVE);
		if (object->parent != CORE_NONE) {
			CHECK_EQ(state->object[object->parent].live, CORE_LIVE);
			CHECK(state->object[object->parent].kind < object->kind);
			CHECK_EQ(state->object[object->parent].client, object->client);
		}
		if (object->kind == CORE_OBJECT_MAPPING)
			check_mapping(state, i);
		else if (object->handle)
			CHECK_EQ(core_object_find((struct cgpu_state *)state, object->client, object->handle), i);
		tables_of(state, i);
		CHECK(object->kind != CORE_OBJECT_MEMORY || object->memory != CORE_NONE);
		CHECK(object->gpu < CGPU_MAX_GPUS || object->kind == CORE_OBJECT_HOST);
		if (object->memory == CORE_NONE)
			continue;
		CHECK(core_kind_is_charged(object->kind));
		CHECK_EQ(state->memory[object->memory].live, CORE_LIVE);
		CHECK_EQ(state->memory[object->memory].gpu, object->gpu);
		references[object->memory]++;
	}
	CHECK_EQ(objects, state->objects);
}

static void check_memory(const struct cgpu_state *state)
{
	static u64 used[CGPU_MAX_GPUS][CGPU_MAX_INST], orphaned[CGPU_MAX_GPUS], passthrough[CGPU_MAX_GPUS];
	static u64 managed[CGPU_MAX_GPUS][CGPU_MAX_INST], left[CGPU_MAX_GPUS];
	u32 gpu, i;

	memset(used, 0, sizeof(used));
	memset(orphaned, 0, sizeof(orphaned));
	memset(passthrough, 0, sizeof(passthrough));
	memset(managed, 0, sizeof(managed));
	memset(left, 0, sizeof(left));
	for (i = 0; i < CGPU_MAX_OBJECTS; i++) {
		const struct core_memory *memory = &state->memory[i];
		u32 at, before = CORE_NONE, count = 0;

		if (memory->live != CORE_LIVE) {
			CHECK_EQ(references[i], 0);
			continue;
		}
		CHECK(references[i] > 0);
		CHECK_EQ(memory->tables, tables[i]);
		for (at = memory->first; at != CORE_NONE; at = state->object[at].alias) {
			CHECK_EQ(state->object[at].memory, i);
			CHECK_EQ(state->object[at].alias_before, before);
			before = at;
			CHECK_EQ(state->client[state->object[at].client].slot == CORE_NONE,
				memory->instance == CORE_NONE);
			CHECK(count++ < references[i]);
		}
		CHECK_EQ(count, references[i]);
		if (memory->instance == CORE_NONE)
			orphaned[memory->gpu] += memory->bytes;
		else if (memory->instance == CORE_PASSTHROUGH)
			passthrough[memory->gpu] += memory->bytes;
		else
			used[memory->gpu][memory->instance] += memory->bytes;
		if (memory->managed && memory->instance == CORE_NONE)
			left[memory->gpu] += memory->bytes;
		else if (memory->managed && memory->instance != CORE_PASSTHROUGH)
			managed[memory->gpu][memory->instance] += memory->bytes;
	}
	for (gpu = 0; gpu < CGPU_MAX_GPUS; gpu++) {
		CHECK_EQ(state->gpu[gpu].orphaned, orphaned[gpu]);
		CHECK_EQ(state->gpu[gpu].orphaned_managed, left[gpu]);
		CHECK_EQ(state->gpu[gpu].passthrough, passthrough[gpu]);
		for (i = 0; i < CGPU_MAX_INST; i++) {
			CHECK_EQ(state->gpu[gpu].instance[i].used, used[gpu][i]);
			CHECK_EQ(state->gpu[gpu].instance[i].managed, managed[gpu][i]);
		}
	}
}

static void check_owner(const struct cgpu_state *state, u32 index, u32 *clients_of, u32 *objects_of)
{
	const struct core_client *client = &state->client[index];

	if (client->slot == CORE_NONE) {
		CHECK(client->objects > 0);
		clients_of[CGPU_MAX_CONTAINERS]++;
		objects_of[CGPU_MAX_CONTAINERS] += client->objects;
		return;
	}
	CHECK_EQ(client->folded, 0);
	CHECK_EQ(core_client_find((struct cgpu_state *)state, client->slot, client->handle), index);
	CHECK_EQ(state->container[client->slot].live, CORE_LIVE);
	CHECK_EQ(state->container[client->slot].generation, client->generation);
	clients_of[client->slot]++;
	objects_of[client->slot] += client->objects;
}

static void check_clients(const struct cgpu_state *state)
{
	static u64 charged[CGPU_MAX_CLIENTS][CGPU_MAX_GPUS], estimated[CGPU_MAX_CLIENTS][CGPU_MAX_GPUS];
	static u32 memories[CGPU_MAX_CLIENTS], hosts[CGPU_MAX_CLIENTS];
	/* The last ones are those of orphans. */
	u32 clients_of[CGPU_MAX_CONTAINERS + 1] = { 0 }, objects_of[CGPU_MAX_CONTAINERS + 1] = { 0 };
	u32 clients = 0, gpu, i;

	memset(charged, 0, sizeof(charged));
	memset(estimated, 0, sizeof(estimated));
	memset(memories, 0, sizeof(memories));
	memset(hosts, 0, sizeof(hosts));
	for (i = 0; i < CGPU_MAX_OBJECTS; i++) {
		const struct core_memory *memory = &state->memory[i];
		const struct core_object *object = &state->object[i];

		if (memory->live == CORE_LIVE)
			charged[state->object[memory->first].client][memory->gpu] += memory->bytes;
		if (memory->live == CORE_LIVE && state->object[memory->first].kind != CORE_OBJECT_MEMORY)
			estimated[state->object[memory->first].client][memory->gpu] += memory->bytes;
		if ((object->live == CORE_LIVE || object->live == CORE_PENDING) && object->memory != CORE_NONE)
			memories[object->client]++;
		if ((object->live == CORE_LIVE || object->live == CORE_PENDING) && object->kind == CORE_OBJECT_HOST)
			hosts[object->client]++;
	}
	for (i = 0; i < CGPU_MAX_CLIENTS; i++) {
		const struct core_client *client = &state->client[i];

		if (client->live != CORE_LIVE)
			continue;
		clients++;
		if (core_client_exports(client)) {
			CHECK(client->file != 0 && client->objects == client->memories + hosts[i]);
			CHECK_EQ(client->handle, CORE_EXPORTS_BASE | i);
		}
		check_owner(state, i, clients_of, objects_of);
		for (gpu = 0; gpu < CGPU_MAX_GPUS; gpu++) {
			CHECK_EQ(client->charged[gpu], charged[i][gpu]);
			CHECK_EQ(client->estimated[gpu], estimated[i][gpu]);
		}
		CHECK_EQ(client->memories, memories[i]);
	}
	CHECK_EQ(clients, state->clients);
	CHECK_EQ(state->orphaned_clients, clients_of[CGPU_MAX_CONTAINERS]);
	CHECK_EQ(state->orphaned_objects, objects_of[CGPU_MAX_CONTAINERS]);
	for (i = 0; i < CGPU_MAX_CONTAINERS; i++) {
		if (state->container[i].live != CORE_LIVE)
			continue;
		CHECK_EQ(state->container[i].clients, clients_of[i]);
		CHECK_EQ(state->container[i].objects, objects_of[i]);
	}
}

/* Each instance counts the numbers of the card that go with what is charged to it, and the orphans theirs. */
static void check_ids(const struct cgpu_state *state)
{
	static u32 group_ids[CGPU_MAX_GPUS][CORE_ORPHANED + 1], channel_ids[CGPU_MAX_GPUS][CORE_ORPHANED + 1];
	u32 gpu, number, i;

	memset(group_ids, 0, sizeof(group_ids));
	memset(channel_ids, 0, sizeof(channel_ids));
	for (i = 0; i < CGPU_MAX_OBJECTS; i++) {
		const struct core_memory *memory = &state->memory[i];

		if (memory->live != CORE_LIVE || memory->instance == CORE_PASSTHROUGH)
			continue;
		number = memory->instance == CORE_NONE ? CORE_ORPHANED : memory->instance;
		group_ids[memory->gpu][number] += memory->group_ids;
		channel_ids[memory->gpu][number] += memory->channel_ids;
	}
	for (gpu = 0; gpu < CGPU_MAX_GPUS; gpu++) {
		for (number = 0; number <= CORE_ORPHANED; number++) {
			CHECK_EQ(state->gpu[gpu].share.tsg_list[number].group_ids, group_ids[gpu][number]);
			CHECK_EQ(state->gpu[gpu].share.tsg_list[number].channel_ids, channel_ids[gpu][number]);
		}
	}
}

/* Every group and channel of an instance is in its TSG list, and no other is. */
static void check_tsg_lists(const struct cgpu_state *state)
{
	u32 gpu, number, at, i, linked = 0, marked = 0;

	for (gpu = 0; gpu < CGPU_MAX_GPUS; gpu++) {
		const struct core_share *share = &state->gpu[gpu].share;
		u32 without_tsg = 0;

		for (number = 0; state->gpu[gpu].live == CORE_LIVE && number <= CORE_ORPHANED; number++) {
			u32 channels = 0, groups = 0, before = CORE_NONE;

			for (at = share->tsg_list[number].first; at != CORE_NONE; at = state->object[at].tsg_after) {
				const struct core_object *object = &state->object[at];

				CHECK_EQ(object->live, CORE_LIVE);
				CHECK_EQ(object->gpu, gpu);
				CHECK_EQ(object->tsg_list, number);
				CHECK_EQ(object->tsg_before, before);
				CHECK_EQ(state->client[object->client].slot == CORE_NONE, number == CORE_ORPHANED);
				before = at;
				channels += object->kind == CORE_OBJECT_CHANNEL;
				groups += object->kind == CORE_OBJECT_CHANNEL_GROUP;
				without_tsg += object->without_tsg;
				CHECK(linked++ < CGPU_MAX_OBJECTS);
			}
			CHECK_EQ(channels, share->tsg_list[number].channels);
			CHECK_EQ(groups, share->tsg_list[number].groups);
			if (number < CGPU_MAX_INST && share->sched.slot[number].joined)
				CHECK_EQ(share->sched.slot[number].process, channels != 0);
		}
		CHECK_EQ(without_tsg, share->without_tsg);
	}
	for (i = 0; i < CGPU_MAX_OBJECTS; i++)
		marked += state->object[i].live == CORE_LIVE && state->object[i].tsg_list != CORE_NONE;
	CHECK_EQ(linked, marked);
}

/* Every client is in the chain of its process, and of its file where that is known, and no other is. */
static void check_chains(const struct cgpu_state *state)
{
	u32 on_file = 0, listed = 0, bucket, at, before, i;

	for (bucket = 0; bucket < CORE_CLIENT_BUCKETS; bucket++) {
		for (at = state->tgid_hash[bucket], before = CORE_NONE; at != CORE_NONE; listed++) {
			CHECK(listed < state->clients);
			CHECK_EQ(state->client[at].live, CORE_LIVE);
			CHECK_EQ(state->client[at].tgid_before, before);
			CHECK_EQ(core_client_of_process(state, state->client[at].tgid), state->tgid_hash[bucket]);
			before = at;
			at = state->client[at].tgid_next;
		}
	}
	CHECK_EQ(listed, state->clients);
	for (bucket = 0, listed = 0; bucket < CORE_CLIENT_BUCKETS; bucket++) {
		for (at = state->file_hash[bucket], before = CORE_NONE; at != CORE_NONE; listed++) {
			CHECK(listed < state->clients);
			CHECK(state->client[at].live == CORE_LIVE && state->client[at].file != 0);
			CHECK_EQ(state->client[at].file_before, before);
			CHECK_EQ(core_client_of_file(state, state->client[at].file), state->file_hash[bucket]);
			before = at;
			at = state->client[at].file_next;
		}
	}
	for (i = 0; i < CGPU_MAX_CLIENTS; i++)
		on_file += state->client[i].live == CORE_LIVE && state->client[i].file != 0;
	CHECK_EQ(listed, on_file);
}

static void check_free_lists(const struct cgpu_state *state)
{
	u32 count = 0, memories = 0, i;

	for (i = state->object_free; i != CORE_NONE; i = state->object[i].next)
		CHECK(++count <= CGPU_MAX_OBJECTS && state->object[i].live != CORE_LIVE);
	CHECK_EQ(count, CGPU_MAX_OBJECTS - state->objects);
	count = 0;
	for (i = state->client_free; i != CORE_NONE; i = state->client[i].next)
		CHECK(++count <= CGPU_MAX_CLIENTS && state->client[i].live != CORE_LIVE);
	CHECK_EQ(count, CGPU_MAX_CLIENTS - state->clients);
	count = 0;
	for (i = state->memory_free; i != CORE_NONE; i = state->memory[i].first)
		CHECK(++count <= CGPU_MAX_OBJECTS && state->memory[i].live != CORE_LIVE);
	for (i = 0; i < CGPU_MAX_OBJECTS; i++)
		memories += state->memory[i].live == CORE_LIVE;
	CHECK_EQ(count, CGPU_MAX_OBJECTS - memories);
}

/* Add up promises from the records alone: the reservations, and what containers have beyond theirs. */
static void check_reservations(struct cgpu_state *state, u32 gpu)
{
	u64 reserved = 0, beyond = 0;
	u32 i, own;

	for (i = 0; i < CGPU_MAX_INST; i++) {
		const struct core_instance *instance = core_instance(state, gpu, i);
		const struct core_reservation *reservation = core_reservation(state, gpu, i);
		u64 of_own = 0;
		u32 of;

		if (reservation) {
			CHECK(core_reservation_find(state, reservation->id, strlen(reservation->id), &of) ==
				reservation);
			CHECK_EQ(of, gpu);
			reserved += reservation->slice.memsize;
		}
		for (own = 0; instance && own < CGPU_MAX_INST; own++) {
			reservation = core_reservation(state, gpu, own);
			if (reservation && core_reservation_user(state, gpu, reservation) == instance)
				of_own += reservation->slice.memsize;
		}
		beyond += instance && instance->slice.memsize > of_own ? instance->slice.memsize - of_own : 0;
	}
	CHECK_EQ(core_totals(state, gpu).promised, reserved + beyond);
}

static void check_registry(const struct cgpu_state *constant)
{
	struct cgpu_state *state = (struct cgpu_state *)constant;
	u32 gpu, i;

	for (gpu = 0; gpu < CGPU_MAX_GPUS; gpu++) {
		if (core_gpu(state, gpu) == NULL)
			continue;
		CHECK(core_totals(state, gpu).promised <= state->gpu[gpu].facts.memtotal);
		CHECK(core_totals(state, gpu).places == 0 || core_passthroughs(state, gpu) == 0);
		check_reservations(state, gpu);
		for (i = 0; i < CGPU_MAX_INST; i++) {
			u32 number = CORE_NONE;

			if (core_instance(state, gpu, i) == NULL)
				continue;
			CHECK(core_instance_of(state, gpu, state->gpu[gpu].instance[i].slot, &number) && number == i);
		}
	}
}

void bench_invariants(const struct cgpu_state *state)
{
	check_objects(state);
	check_memory(state);
	check_clients(state);
	check_chains(state);
	check_free_lists(state);
	check_registry(state);
	check_tsg_lists(state);
	check_ids(state);
}
