// SPDX-License-Identifier: Apache-2.0
/*
 * live_parts SEED STEPS [none|bound]: random histories of address spaces, as UVM makes them, beside
 * kmod/module/probes/live.c. In a model of pages each page has one range, of a mapping or of another kind. After each
 * step: the model's live ranges are the tree's, a mapping's charge covers all that it may have on a card, and never
 * sinks twice for one page. none: there is never memory for a second part. bound: one mapping is cut into more parts
 * than are kept.
 */
#include <string.h>

#include "check_fact.h"
#include "probes/live.h"

#define PAGE 4096ull
#define CHUNK (2ull << 20)
#define PAGES 4096u /* of an address space: 8 chunks */
#define SPACES 2u
#define MAPPINGS 64u
#define OTHER MAPPINGS /* a range of another kind, as an external one */
#define NOBODY (MAPPINGS + 1u)

struct mapping {
	struct live_mapping live;
	bool used;
	u64 charged;
};

static struct rb_root root;
static struct mapping mappings[MAPPINGS];
static u32 owner[SPACES][PAGES]; /* whose range a page is of */
static u32 head[SPACES][PAGES]; /* the first page of its range */
static bool without_memory;
static u64 seed;

static u32 below(u32 limit)
{
	seed = seed * 6364136223846793005ull + 1442695040888963407ull;
	return (u32)(seed >> 33) % limit;
}

static const void *space_of(u32 space)
{
	return &owner[space];
}

static u64 start_of(u32 page)
{
	/* Not at the start of a chunk. */
	return (page + 300) * PAGE;
}

static u64 end_of(u32 page)
{
	return start_of(page) + PAGE - 1;
}

static bool is_free(u32 space, u32 first, u32 last)
{
	u32 page;

	for (page = first; page <= last; page++)
		if (owner[space][page] != NOBODY)
			return false;
	return true;
}

static void put_range(u32 space, u32 first, u32 last, u32 who)
{
	u32 page;

	for (page = first; page <= last; page++) {
		owner[space][page] = who;
		head[space][page] = first;
	}
}

/* The last page of the range that a page is of. */
static u32 tail(u32 space, u32 page)
{
	u32 last = page;

	while (last + 1 < PAGES && owner[space][last + 1] != NOBODY && head[space][last + 1] == head[space][page])
		last++;
	return last;
}

static bool is_live(u32 space, u32 first, u32 last)
{
	u32 page;

	for (page = first; page <= last; page++)
		if (live_find(&root, space_of(space), start_of(page), end_of(page)))
			return true;
	return false;
}

static void map(u32 space, u32 first, u32 last)
{
	struct live_part *part;
	u32 i = 0;

	while (i < MAPPINGS && mappings[i].used)
		i++;
	if (i == MAPPINGS)
		return;
	part = calloc(1, sizeof(*part));
	part->start = start_of(first);
	part->end = end_of(last);
	mappings[i] = (struct mapping){ .live.va_space = space_of(space), .used = is_free(space, first, last) };
	if (!mappings[i].used) {
		/* UVM refuses a range where one is, and so is it refused here. */
		CHECK(!is_live(space, first, last) || !live_add(&root, &mappings[i].live, part));
		free(part);
		return;
	}
	CHECK(live_add(&root, &mappings[i].live, part));
	mappings[i].charged = live_chunk_bytes(part->start, part->end);
	put_range(space, first, last, i);
}

/* Credit a range as the module does when UVM has taken it apart. */
static void credit(u32 space, u64 start, u64 end)
{
	struct live_part *part = live_find(&root, space_of(space), start, end), *spare = NULL;
	struct mapping *mapping;

	if (!part)
		return;
	mapping = (struct mapping *)part->of;
	if (live_splits(part, start, end) && !without_memory)
		spare = calloc(1, sizeof(*spare));
	free(live_take(&root, part, start, end, spare));
	CHECK(mapping->charged >= live_chunk_bytes_inside(start, end));
	mapping->charged -= live_chunk_bytes_inside(start, end);
	if (mapping->live.parts == 0 && !mapping->live.lost)
		mapping->used = false;
}

/* The upper piece of a mapping's range becomes one of its own (uvm_va_range_split). */
static void split_at(u32 space, u32 page)
{
	if (owner[space][page] < OTHER)
		put_range(space, page, tail(space, page), owner[space][page]);
}

static void destroy(u32 space, u32 page)
{
	u32 first = head[space][page], last = tail(space, page), i;

	for (i = first; i <= last; i++)
		owner[space][i] = NOBODY;
	credit(space, start_of(first), end_of(last));
}

/* munmap(): all ranges of mappings in there, cut at its ends. */
static void unmap(u32 space, u32 first, u32 last)
{
	u32 page;

	split_at(space, first);
	if (last + 1 < PAGES)
		split_at(space, last + 1);
	for (page = first; page <= last; page++)
		if (owner[space][page] < OTHER)
			destroy(space, page);
}

static void free_other(u32 space, u32 page)
{
	if (owner[space][page] == OTHER)
		destroy(space, page);
}

/* The chunks that a mapping has pages in. */
static u64 touched(u32 who)
{
	u32 space = mappings[who].live.va_space == space_of(0) ? 0 : 1, page;
	u64 chunk = U64_MAX, bytes = 0;

	for (page = 0; page < PAGES; page++) {
		if (owner[space][page] != who || start_of(page) / CHUNK == chunk)
			continue;
		chunk = start_of(page) / CHUNK;
		bytes += CHUNK;
	}
	return bytes;
}

static void check_page(u32 space, u32 page)
{
	const struct live_part *part = live_find(&root, space_of(space), start_of(page), end_of(page));
	u32 who = owner[space][page];

	if (part)
		CHECK(part->of == &mappings[who < OTHER ? who : 0].live && who < OTHER);
	else if (who < OTHER)
		CHECK(mappings[who].live.lost);
}

static void check(void)
{
	u32 space, page, i;

	for (space = 0; space < SPACES; space++)
		for (page = 0; page < PAGES; page++)
			check_page(space, page);
	for (i = 0; i < MAPPINGS; i++) {
		CHECK(!mappings[i].used || mappings[i].charged >= touched(i));
		CHECK(mappings[i].used || touched(i) == 0);
	}
}

static void step(void)
{
	u32 space = below(SPACES), first = below(PAGES), last = first + below(below(4) ? 40 : PAGES - first);

	if (last >= PAGES)
		last = PAGES - 1;
	switch (below(6)) {
	case 0:
	case 1:
		map(space, first, last);
		break;
	case 2:
		unmap(space, first, last);
		break;
	case 3:
		split_at(space, first);
		break;
	case 4:
		if (is_free(space, first, last))
			put_range(space, first, last, OTHER);
		break;
	default:
		free_other(space, first);
	}
}

/* uvm_va_space_destroy(): nothing may be left on record but what was lost. */
static void end_space(u32 space)
{
	u32 page, i;

	for (page = 0; page < PAGES; page++)
		if (owner[space][page] != NOBODY)
			destroy(space, page);
	CHECK(live_any(&root, space_of(space)) == NULL);
	for (i = 0; i < MAPPINGS; i++) {
		if (mappings[i].live.va_space != space_of(space) || !mappings[i].used)
			continue;
		CHECK(mappings[i].live.lost && mappings[i].live.parts == 0);
		mappings[i].used = false;
	}
}

/* Every second piece of one mapping goes, of more than are kept. */
static void exceed_bound(void)
{
	struct mapping *mapping = &mappings[0];
	struct live_part *part = calloc(1, sizeof(*part));
	u64 pieces = 2 * LIVE_PARTS_MAX + 10, i;

	mapping->live.va_space = space_of(0);
	mapping->charged = live_chunk_bytes(0, pieces * CHUNK - 1);
	part->end = pieces * CHUNK - 1;
	CHECK(live_add(&root, &mapping->live, part));
	for (i = 1; i < pieces; i += 2)
		credit(0, i * CHUNK, (i + 1) * CHUNK - 1);
	CHECK(mapping->live.parts == LIVE_PARTS_MAX && mapping->live.lost);
	/* Parts behind the last noted hole are charged as before. */
	CHECK(mapping->charged == (pieces - LIVE_PARTS_MAX) * CHUNK);
	while ((part = live_any(&root, space_of(0))))
		free(live_take(&root, part, part->start, part->end, NULL));
	CHECK(mapping->live.parts == 0 && live_any(&root, NULL) == NULL);
}

int main(int argc, char **argv)
{
	u32 steps = argc > 2 ? (u32)atoi(argv[2]) : 0, i, space;

	seed = argc > 1 ? strtoull(argv[1], NULL, 0) : 1;
	without_memory = argc > 3 && strcmp(argv[3], "none") == 0;
	for (space = 0; space < SPACES; space++)
		for (i = 0; i < PAGES; i++)
			owner[space][i] = NOBODY;
	if (argc > 3 && strcmp(argv[3], "bound") == 0) {
		exceed_bound();
		return 0;
	}
	for (i = 0; i < steps; i++) {
		step();
		if (i % 16 == 0)
			check();
	}
	check();
	for (space = 0; space < SPACES; space++)
		end_space(space);
	CHECK(live_any(&root, NULL) == NULL);
	return 0;
}
