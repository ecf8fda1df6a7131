// SPDX-License-Identifier: Apache-2.0
/*
 * page_counts SEED STEPS: random histories of a card's allocator and its containers, beside
 * kmod/module/probes/page_counts.c. In a model each page has one owner. After each step: each owner's pages in the
 * model are those counted, and within its limit. page_counts SEED STEPS crowd: containers come and go, and leave pages
 * behind. Each new one gets its pages, and the rest is counted to the page, whether under its container's name or not.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check_fact.h"
#include "probes/page_counts.h"

#define PAGE 65536ull
#define PAGES 12288u /* of the card: three segments */
#define TENANTS 6u
#define NOBODY TENANTS
#define MOST 64u /* pages of one call */

struct tenant {
	u64 generation, limit;
	bool ended;
};

static struct tenant tenants[TENANTS];
static u32 owner[PAGES];
static bool taken[PAGES];
static bool bound;
static u64 seed, generations;
static const int card;

static u32 below(u32 limit)
{
	seed = seed * 6364136223846793005ull + 1442695040888963407ull;
	return (u32)(seed >> 33) % limit;
}

static u64 bytes_of(u32 tenant)
{
	u64 bytes = 0;
	u32 i;

	for (i = 0; i < PAGES; i++)
		bytes += owner[i] == tenant ? PAGE : 0;
	return bytes;
}

static void check(void)
{
	struct cgpu_pages pages;
	u32 i, cursor = 0, seen = 0, have = 0;
	u64 all = 0;

	for (i = 0; i < TENANTS; i++) {
		if (!tenants[i].generation)
			continue;
		CHECK_EQ(page_bytes(0, tenants[i].generation), bytes_of(i));
		CHECK(tenants[i].ended || bytes_of(i) <= tenants[i].limit);
		have += bytes_of(i) != 0;
		all += bytes_of(i);
	}
	while (page_next(0, &cursor, &pages) == 0)
		seen += pages.bytes != 0;
	CHECK_EQ(seen, have);
	CHECK_EQ(page_any(), all != 0);
}

/* A limit that a container can have by now. */
static void set_limit(u32 i)
{
	char id[8];

	if (!tenants[i].generation) {
		tenants[i] = (struct tenant){ .generation = ++generations };
	} else if (tenants[i].ended) {
		if (bytes_of(i) == 0)
			tenants[i].generation = 0;
		return;
	}
	snprintf(id, sizeof(id), "t%u", i);
	tenants[i].limit = bytes_of(i) + below(1024) * PAGE;
	CHECK_EQ(page_limit(0, tenants[i].generation, tenants[i].limit, id), 0);
}

static void end(u32 i)
{
	if (!tenants[i].generation)
		return;
	tenants[i].ended = true;
	tenants[i].limit = 0;
	CHECK_EQ(page_limit(0, tenants[i].generation, 0, NULL), 0);
}

/* Free pages in one piece or in many; 0: there are none. */
static u32 find(u64 *addresses, u32 count, bool contiguous)
{
	u32 at = below(PAGES), i, found = 0;

	for (i = 0; i < PAGES && found < count; i++, at = (at + 1) % PAGES) {
		if (taken[at] || (contiguous && at == 0))
			found = contiguous ? 0 : found;
		else
			addresses[found++] = at * PAGE;
	}
	return found == count ? count : 0;
}

static void give(u32 tenant, const u64 *addresses, u32 count)
{
	u32 i;

	for (i = 0; i < count; i++) {
		taken[addresses[i] / PAGE] = true;
		owner[addresses[i] / PAGE] = tenant;
	}
}

static void allocate(u32 i)
{
	struct page_reservation reservation;
	u64 addresses[MOST];
	u32 asked = 1 + below(MOST), count;
	bool contiguous = below(2);
	int err, expected = 0;

	count = find(addresses, asked, contiguous);
	if (!tenants[i].generation || bytes_of(i) + asked * PAGE > tenants[i].limit)
		expected = -ENOMEM;
	if (!bound)
		expected = -ENOENT;
	err = page_reserve(&card, tenants[i].generation ? tenants[i].generation : ~0ull, asked * PAGE, &reservation);
	CHECK_EQ(err, expected);
	if (err == -ENOENT)
		give(NOBODY, addresses, count);
	if (err)
		return;
	give(i, addresses, count);
	if (contiguous && count)
		page_settle(&reservation, addresses, 1, count * PAGE);
	else
		page_settle(&reservation, addresses, count, PAGE);
}

/* In whatever pieces, also of several owners. */
static void free_some(void)
{
	u32 first = below(PAGES), count = 1 + below(MOST), i;
	u64 address = first * PAGE;

	if (first + count > PAGES)
		return;
	page_free(&card, &address, 1, count * PAGE);
	for (i = first; bound && i < first + count; i++) {
		owner[i] = NOBODY;
		taken[i] = false;
	}
}

static void start_or_stop(void)
{
	u32 i;

	if (bound) {
		CHECK_EQ(page_forget(&card), 0);
		for (i = 0; i < PAGES; i++) {
			owner[i] = NOBODY;
			taken[i] = false;
		}
	} else {
		CHECK_EQ(page_bind(0, &card), 0);
	}
	bound = !bound;
	CHECK_EQ(page_bound(0), bound);
}

/* --- a crowd --- */

static u64 left_pages;

/* A container that gets its pages, of which it leaves some. */
static void live_and_leave(void)
{
	u64 generation = ++generations, addresses[MOST], kept = 0;
	struct page_reservation reservation;
	u32 count = find(addresses, 1 + below(4), false), i;
	char id[16];

	snprintf(id, sizeof(id), "c%llu", (unsigned long long)generation);
	CHECK_EQ(page_limit(0, generation, MOST * PAGE, id), 0);
	CHECK_EQ(page_reserve(&card, generation, count * PAGE, &reservation), 0);
	page_settle(&reservation, addresses, count, PAGE);
	CHECK_EQ(page_bytes(0, generation), count * PAGE);
	for (i = 0; i < count; i++) {
		taken[addresses[i] / PAGE] = i == 0 || below(2);
		if (taken[addresses[i] / PAGE])
			kept++;
		else
			page_free(&card, &addresses[i], 1, PAGE);
	}
	CHECK_EQ(page_bytes(0, generation), kept * PAGE);
	CHECK_EQ(page_limit(0, generation, 0, NULL), 0);
	left_pages += kept;
}

static void free_left(void)
{
	u32 first = below(PAGES - MOST), i;
	u64 address = first * PAGE;

	page_free(&card, &address, 1, MOST * PAGE);
	for (i = first; i < first + MOST; i++) {
		left_pages -= taken[i];
		taken[i] = false;
	}
}

/* Returns how many are named. */
static u32 check_left(void)
{
	struct cgpu_pages pages;
	u32 cursor = 0, named = 0;
	u64 bytes = 0;

	while (page_next(0, &cursor, &pages) == 0) {
		named += pages.id[0] != 0;
		bytes += pages.bytes;
	}
	CHECK_EQ(bytes, left_pages * PAGE);
	CHECK_EQ(page_any(), left_pages != 0);
	return named;
}

static void crowd(u32 steps)
{
	u64 all = 0;

	CHECK_EQ(page_bind(0, &card), 0);
	for (; steps; steps--) {
		live_and_leave();
		if (below(64) == 0)
			free_left();
		CHECK(check_left() >= (generations < 100 ? 1 : 64));
	}
	page_free(&card, &all, 1, PAGES * PAGE);
	left_pages = 0;
	CHECK_EQ(check_left(), 0);
}

static void histories(u32 steps)
{
	u32 i;

	for (i = 0; i < PAGES; i++)
		owner[i] = NOBODY;
	for (; steps; steps--) {
		u32 what = below(40);

		if (what == 0)
			end(below(TENANTS));
		else if (what == 1 && below(8) == 0)
			start_or_stop();
		else if (what < 8)
			set_limit(below(TENANTS));
		else if (what < 24)
			allocate(below(TENANTS));
		else
			free_some();
		check();
	}
}

int main(int argc, char **argv)
{
	u32 steps;

	CHECK(argc == 3 || argc == 4);
	seed = strtoull(argv[1], NULL, 0);
	steps = (u32)strtoul(argv[2], NULL, 0);
	if (argc == 4)
		crowd(steps);
	else
		histories(steps);
	page_counts_exit();
	return 0;
}
