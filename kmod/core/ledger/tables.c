// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
#include "ledger/ledger.h"
#include "ledger/tables.h"
#include "lib/page_size.h"

#define SMALL_SPAN (2ull << 20) /* addresses of one table of 4 KiB pages, and of one of 64 KiB pages */
#define BIG_TABLE 256ull
/* A page for the root of cards from Hopper on, which have one level more. */
#define LEVELS 4u
/* Tables that any space has: its root and the directories of its first addresses. */
#define ROOT_TABLES 4ull

static const struct {
	u64 span, entry; /* addresses of one entry, and its bytes */
} levels[LEVELS] = {
	{ SMALL_SPAN, 16 },
	{ 512ull << 20, 8 },
	{ 256ull << 30, 8 },
	{ 128ull << 40, 8 },
};

/* As the driver divides: a range need not begin with a table. */
static u64 count(u64 bytes, u64 span)
{
	u64 last = bytes - 1;

	return last / span + (last % span != 0) + 1;
}

static u64 directories(u64 bytes)
{
	u64 size = CORE_TABLE;
	u32 i;

	for (i = 0; i < LEVELS; i++)
		size += core_round_up(count(bytes, levels[i].span) * levels[i].entry, CORE_TABLE);
	return size;
}

static u64 tables(u64 bytes, enum core_table_pages pages)
{
	/* The driver counts entries of a range that is shorter than a table. */
	u64 number = bytes <= SMALL_SPAN ? 1 : count(bytes, SMALL_SPAN);
	u64 size = 0;

	if (pages == CORE_TABLES_SMALL || pages == CORE_TABLES_SMALL_AND_BIG)
		size += number * CORE_TABLE;
	if (pages == CORE_TABLES_BIG || pages == CORE_TABLES_SMALL_AND_BIG)
		size += number * BIG_TABLE;
	return size;
}

u64 core_tables_set_aside(u64 bytes, enum core_table_pages pages)
{
	if (bytes == 0)
		return 0;
	return directories(bytes) +
		tables(bytes, pages == CORE_TABLES_SMALL_AND_BIG ? CORE_TABLES_SMALL_AND_BIG : CORE_TABLES_SMALL);
}

u32 core_tables_of(u64 bytes, enum core_table_pages pages)
{
	u64 number;

	if (bytes == 0)
		return 0;
	number = core_round_up(directories(bytes) + tables(bytes, pages), CORE_TABLE) / CORE_TABLE;
	return number < CORE_NONE ? (u32)number : CORE_NONE;
}

u32 core_tables_space(const struct cgpu_state *state, u32 object)
{
	u32 at = state->object[object].parent;

	while (at != CORE_NONE && state->object[at].kind != CORE_OBJECT_VA_SPACE &&
		state->object[at].kind != CORE_OBJECT_DEVICE)
		at = state->object[at].parent;
	return at;
}

/* A space whose tables are the driver's is charged for its root from its allocation on. */
int core_tables_external(const struct cgpu_state *state, u32 space)
{
	return state->object[space].kind == CORE_OBJECT_VA_SPACE && state->object[space].memory == CORE_NONE;
}

u64 core_tables_peak(const struct cgpu_state *state, u32 space, u64 set_aside)
{
	u32 memory = space == CORE_NONE ? CORE_NONE : state->object[space].memory;
	u64 had = memory == CORE_NONE ? 0 : state->memory[memory].tables;

	return core_round_up((had + ROOT_TABLES) * CORE_TABLE + set_aside, CORE_PAGE_64K);
}

int core_tables_raise(struct cgpu_state *state, u32 space, u32 instance, u64 peak)
{
	u32 memory = state->object[space].memory;

	if (memory == CORE_NONE)
		memory = core_memory_begin(state, space, instance, 0);
	if (memory == CORE_NONE)
		return -ENOSPC;
	if (peak > state->memory[memory].bytes)
		core_memory_resize(state, memory, peak);
	return 0;
}

/* Where an object's tables are counted; NULL: nowhere. */
static struct core_memory *counted_in(struct cgpu_state *state, u32 object)
{
	u32 space = state->object[object].tables ? core_tables_space(state, object) : CORE_NONE;

	if (space == CORE_NONE || state->object[space].memory == CORE_NONE)
		return NULL;
	return &state->memory[state->object[space].memory];
}

void core_tables_link(struct cgpu_state *state, u32 object)
{
	struct core_memory *memory = counted_in(state, object);

	if (memory)
		memory->tables += state->object[object].tables;
	else
		state->object[object].tables = 0;
}

void core_tables_unlink(struct cgpu_state *state, u32 object)
{
	struct core_memory *memory = counted_in(state, object);

	if (memory)
		memory->tables -= state->object[object].tables;
}
