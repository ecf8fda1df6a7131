// SPDX-License-Identifier: Apache-2.0
/*
 * mappings SEED STEPS [many]: random histories of mappings, with few clients, pages and addresses, beside
 * kmod/module/mappings/table.c. After each step every search finds what a list of all mappings has. many: as many mappings as STEPS
 * says end one by one, and the steps through buckets are counted: they do not grow with what else the client has.
 */
#include <linux/mm.h>
#include <linux/slab.h>
#include <linux/string.h>

#include "check_fact.h"
#include "mappings/table.h"

#define CLIENTS 2u
#define PAGES 3u
#define MEMORIES 2u
#define ADDRESSES 3u
#define HOST 2u /* pieces of the host's memory */
#define MOST 24u
#define PAGE 4096ull
#define LENGTHS 2u
#define STEPS_EACH 12u

u64 shim_steps;
static u64 seed;
static char files[MOST], client_files[CLIENTS];
/* In the order in which they came; `ended` as the test has it. */
static struct mapping *mappings[MOST];
static u32 count;
static bool mixed[CLIENTS][PAGES];

static u32 below(u32 limit)
{
	seed = seed * 6364136223846793005ull + 1442695040888963407ull;
	return (u32)(seed >> 33) % limit;
}

static struct mapping *make(const void *file)
{
	struct mapping *mapping = kzalloc(sizeof(*mapping), GFP_KERNEL);

	refcount_set(&mapping->users, 1);
	mapping->file = file;
	return mapping;
}

static struct mapping *make_of_card(const void *file, u32 client, u64 window, u32 memory)
{
	struct mapping *mapping = make(file);

	mapping->key = client;
	mapping->client_file = &client_files[client % CLIENTS];
	mapping->window = mapping->address = window;
	mapping->memory = memory;
	mapping->bytes = PAGE;
	return mapping;
}

static u64 host_key(u32 piece)
{
	return U64_MAX - piece;
}

static const void *unused_file(void)
{
	u32 file, i;

	for (file = 0; file < MOST; file++) {
		for (i = 0; i < count && mappings[i]->file != (const void *)&files[file]; i++)
			;
		if (i == count)
			return &files[file];
	}
	return NULL;
}

static bool at_page(const struct mapping *mapping, u32 client, u64 page)
{
	return mapping->client_file && !mapping->ended && mapping->key == client &&
		(mapping->window & PAGE_MASK) == page * PAGE;
}

/* The page that a new mapping came to. */
static void note_mixed(const struct mapping *fresh)
{
	u64 page = fresh->window / PAGE;
	u32 i;

	for (i = 0; i < count && !at_page(mappings[i], (u32)fresh->key, page); i++)
		;
	if (i == count)
		mixed[fresh->key][page] = false;
	else if (mappings[i]->memory != fresh->memory || mappings[i]->bytes != fresh->bytes)
		mixed[fresh->key][page] = true;
}

static void add(void)
{
	struct mapping *mapping;

	if (count == MOST)
		return;
	if (below(6) == 0) {
		mapping = make(unused_file());
		mapping->key = host_key(below(HOST));
	} else {
		mapping = make_of_card(unused_file(), below(CLIENTS), below(PAGES) * PAGE + below(2), below(MEMORIES));
		mapping->bytes = (1 + below(LENGTHS)) * PAGE;
		note_mixed(mapping);
	}
	CHECK(mapping_add(mapping));
	CHECK(!mapping_add(&(struct mapping){ .file = mapping->file }));
	mappings[count++] = mapping;
}

static void end(struct mapping *mapping)
{
	mapping->ended = true;
	mapping_note_ended(mapping);
}

static void drop(u32 i)
{
	mapping_remove(mappings[i]);
	memmove(&mappings[i], &mappings[i + 1], (--count - i) * sizeof(*mappings));
}

static void move(void)
{
	u32 client = below(CLIENTS), memory = below(MEMORIES);
	u64 from = below(ADDRESSES) * PAGE, to = below(ADDRESSES) * PAGE;
	struct mapping *mapping = mapping_get_by_address(client, memory, from);

	CHECK_EQ(mapping_move(client, memory, from, to), mapping != NULL);
	if (!mapping)
		return;
	CHECK_EQ(mapping->address, to);
	mapping_put(mapping);
}

/* A reference goes again. */
static struct mapping *found(struct mapping *mapping)
{
	if (mapping)
		mapping_put(mapping);
	return mapping;
}

static void check_page(u32 client, u32 page)
{
	struct mapping *oldest = NULL, *rather = count ? mappings[below(count)] : NULL;
	bool alike;
	u32 i;

	for (i = 0; i < count && !oldest; i++)
		oldest = at_page(mappings[i], client, page) ? mappings[i] : NULL;
	CHECK(found(mapping_get_by_window(client, page * PAGE, NULL, &alike)) == oldest);
	CHECK_EQ(alike, !oldest || !mixed[client][page]);
	CHECK_EQ(mapping_of_window(client, page * PAGE), oldest != NULL);
	if (rather && at_page(rather, client, page))
		oldest = rather;
	CHECK(found(mapping_get_by_window(client, page * PAGE, rather, &alike)) == oldest);
}

static void check_address(u32 client, u32 memory, u64 address)
{
	const struct mapping *mapping = found(mapping_get_by_address(client, memory, address));
	u32 i, has = 0;

	for (i = 0; i < count; i++)
		has += mappings[i]->client_file && !mappings[i]->ended && mappings[i]->key == client &&
			mappings[i]->memory == memory && mappings[i]->address == address;
	CHECK_EQ(mapping != NULL, has != 0);
	CHECK(!mapping ||
		(!mapping->ended && mapping->key == client && mapping->memory == memory &&
			mapping->address == address));
}

static void check_key(u64 key)
{
	const struct mapping *oldest = NULL;
	u32 i;

	for (i = 0; i < count && !oldest; i++)
		oldest = mappings[i]->key == key && !mappings[i]->ended ? mappings[i] : NULL;
	CHECK(found(mapping_get_by_key(key)) == oldest);
	CHECK_EQ(mapping_of_key(key), oldest != NULL);
	if (key < CLIENTS)
		CHECK(found(mapping_get_by_client_file(&client_files[key])) == oldest);
}

static void check(void)
{
	u32 client, i, memory;

	for (client = 0; client < CLIENTS; client++) {
		check_key(client);
		for (i = 0; i < PAGES; i++)
			check_page(client, i);
		for (memory = 0; memory < MEMORIES; memory++) {
			for (i = 0; i < ADDRESSES; i++)
				check_address(client, memory, i * PAGE);
		}
	}
	for (i = 0; i < HOST; i++)
		check_key(host_key(i));
	for (i = 0; i < count; i++)
		CHECK(found(mapping_get(mappings[i]->file)) == mappings[i]);
}

static void histories(u32 steps)
{
	for (; steps; steps--) {
		u32 what = below(8);

		if (what < 3)
			add();
		else if (what < 5)
			move();
		else if (count && what < 7)
			end(mappings[below(count)]);
		else if (count)
			drop(below(count));
		check();
	}
	mapping_remove_all();
}

/* One call that unmaps memory by its address, and the close of its file. */
static void end_one(struct mapping *mapping)
{
	bool alike;
	struct mapping *named = mapping_get_by_address(mapping->key, mapping->memory, mapping->address);
	struct mapping *ending = mapping_get_by_window(mapping->key, mapping->window & PAGE_MASK, named, &alike);

	CHECK(named == ending);
	CHECK(alike);
	CHECK(mapping_of_key(mapping->key));
	mapping_note_ended(ending);
	mapping_put(ending);
	mapping_put(named);
}

static void end_many(u32 many, u64 pages, u32 memories, bool moved)
{
	struct mapping **all = kzalloc(many * sizeof(struct mapping *), GFP_KERNEL);
	char *keys = kzalloc(many, GFP_KERNEL);
	u32 i;

	for (i = 0; i < many; i++) {
		all[i] = make_of_card(&keys[i], i % 2, i % pages * PAGE, i % memories);
		CHECK(mapping_add(all[i]));
		CHECK(!moved || mapping_move(i % 2, all[i]->memory, all[i]->window, i * PAGE));
	}
	shim_steps = 0;
	for (i = 0; i < many; i++)
		end_one(all[i]);
	CHECK(found(mapping_get_by_client_file(&client_files[0])) == NULL);
	printf("%llu pages, %u memories: %llu steps\n", (unsigned long long)pages, memories,
		(unsigned long long)shim_steps);
	CHECK(shim_steps <= (u64)many * STEPS_EACH);
	mapping_remove_all();
	kfree(keys);
	kfree(all);
}

int main(int argc, char **argv)
{
	u32 steps;

	CHECK(argc == 3 || argc == 4);
	seed = strtoull(argv[1], NULL, 0);
	steps = (u32)strtoul(argv[2], NULL, 0);
	if (argc == 3) {
		histories(steps);
		return 0;
	}
	/* Each memory at its own place, which is its address; at one that the process has chosen; all the same. */
	end_many(steps, steps, steps, false);
	end_many(steps, steps, 1, true);
	end_many(steps, 1, 1, false);
	end_many(steps, 1, 1, true);
	return 0;
}
