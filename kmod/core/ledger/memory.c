// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
/* Charges. A memory object is charged once, to its instance, until its last reference goes. */
#include "ledger/ledger.h"

static u64 bounded(u64 bytes)
{
	return bytes < CORE_BYTES_MAX ? bytes : CORE_BYTES_MAX;
}

/* Sum that a memory record counts in. */
static u64 *sum_of(struct cgpu_state *state, const struct core_memory *memory)
{
	struct core_gpu *gpu = &state->gpu[memory->gpu];

	if (memory->instance == CORE_NONE)
		return &gpu->orphaned;
	return memory->instance == CORE_PASSTHROUGH ? &gpu->passthrough : &gpu->instance[memory->instance].used;
}

/* bytes: more, or modulo 2^64 less. */
static void add(struct cgpu_state *state, const struct core_memory *memory, u64 bytes)
{
	struct core_gpu *gpu = &state->gpu[memory->gpu];

	*sum_of(state, memory) += bytes;
	if (!memory->managed || memory->instance == CORE_PASSTHROUGH)
		return;
	if (memory->instance == CORE_NONE)
		gpu->orphaned_managed += bytes;
	else
		gpu->instance[memory->instance].managed += bytes;
	/* Pages may not take what UVM may: the limits of pages change. */
	state->limits_due |= 1u << memory->gpu;
}

/* Count a memory record's numbers (more is 1), or stop counting them (0), at the instance that has them, or at the
 * orphans. The numbers of a passthrough GPU are not counted: its container has all of them. */
static void count_ids(struct cgpu_state *state, const struct core_memory *memory, u32 more)
{
	u32 number = memory->instance == CORE_NONE ? CORE_ORPHANED : memory->instance;
	struct core_tsg_list *tsg_list;

	if (memory->instance == CORE_PASSTHROUGH)
		return;
	tsg_list = &state->gpu[memory->gpu].share.tsg_list[number];
	tsg_list->group_ids += more ? memory->group_ids : 0 - memory->group_ids;
	tsg_list->channel_ids += more ? memory->channel_ids : 0 - memory->channel_ids;
}

/* The charge is shown at the client of the first reference. bytes: more, or modulo 2^64 less. */
static void show(struct cgpu_state *state, const struct core_memory *memory, u64 bytes)
{
	const struct core_object *first = &state->object[memory->first];
	struct core_client *client = &state->client[first->client];

	client->charged[memory->gpu] += bytes;
	if (first->kind != CORE_OBJECT_MEMORY)
		client->estimated[memory->gpu] += bytes;
}

u64 core_memory_room(const struct core_instance *instance)
{
	u64 has = core_instance_has(instance);

	return has < instance->slice.memsize ? instance->slice.memsize - has : 0;
}

void core_memory_link(struct cgpu_state *state, u32 object)
{
	struct core_object *record = &state->object[object];
	struct core_memory *memory = &state->memory[record->memory];

	state->client[record->client].memories++;
	record->alias = CORE_NONE;
	record->alias_before = memory->first;
	if (memory->first != CORE_NONE) {
		/* Behind the first one, which stays the one that shows the charge. */
		record->alias = state->object[memory->first].alias;
		if (record->alias != CORE_NONE)
			state->object[record->alias].alias_before = object;
		state->object[memory->first].alias = object;
		return;
	}
	memory->first = object;
	add(state, memory, memory->bytes);
	count_ids(state, memory, 1);
	show(state, memory, memory->bytes);
}

u32 core_memory_begin(struct cgpu_state *state, u32 object, u32 instance, u64 bytes)
{
	struct core_memory *memory;
	u32 index = state->memory_free;

	core_assert_locked();
	if (index == CORE_NONE)
		return CORE_NONE;
	memory = &state->memory[index];
	state->memory_free = memory->first;
	memory->gpu = state->object[object].gpu;
	memory->bytes = bounded(bytes);
	memory->group_ids = 0;
	memory->channel_ids = 0;
	memory->instance = instance;
	memory->managed = 0;
	memory->first = CORE_NONE;
	memory->tables = 0;
	core_barrier();
	memory->live = CORE_LIVE;
	core_barrier();
	state->object[object].memory = index;
	core_memory_link(state, object);
	return index;
}

void core_memory_mark_managed(struct cgpu_state *state, u32 memory)
{
	struct core_memory *record = &state->memory[memory];

	add(state, record, 0 - record->bytes);
	record->managed = 1;
	add(state, record, record->bytes);
}

void core_memory_number(struct cgpu_state *state, u32 object, u32 group_ids, u32 channel_ids)
{
	struct core_memory *memory = &state->memory[state->object[object].memory];

	memory->group_ids = group_ids;
	memory->channel_ids = channel_ids;
	count_ids(state, memory, 1);
}

void core_memory_share(struct cgpu_state *state, u32 object, u32 memory)
{
	state->object[object].memory = memory;
	core_memory_link(state, object);
}

void core_memory_resize(struct cgpu_state *state, u32 memory, u64 bytes)
{
	struct core_memory *record = &state->memory[memory];
	u64 old = record->bytes;

	record->bytes = bounded(bytes);
	add(state, record, record->bytes - old);
	show(state, record, record->bytes - old);
}

void core_memory_orphan(struct cgpu_state *state, u32 memory)
{
	struct core_memory *record = &state->memory[memory];

	add(state, record, 0 - record->bytes);
	count_ids(state, record, 0);
	record->instance = CORE_NONE;
	add(state, record, record->bytes);
	count_ids(state, record, 1);
}

void core_memory_unref(struct cgpu_state *state, u32 object)
{
	struct core_object *record = &state->object[object];
	struct core_memory *memory = &state->memory[record->memory];
	u32 index = record->memory;

	state->client[record->client].memories--;
	record->memory = CORE_NONE;
	if (record->alias != CORE_NONE)
		state->object[record->alias].alias_before = record->alias_before;
	if (record->alias_before != CORE_NONE) {
		state->object[record->alias_before].alias = record->alias;
		return;
	}
	show(state, memory, 0 - memory->bytes);
	memory->first = record->alias;
	if (memory->first != CORE_NONE) {
		show(state, memory, memory->bytes);
		return;
	}
	memory->live = 0;
	core_barrier();
	add(state, memory, 0 - memory->bytes);
	count_ids(state, memory, 0);
	memory->first = state->memory_free;
	state->memory_free = index;
}
