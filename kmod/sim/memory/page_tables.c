// SPDX-License-Identifier: Apache-2.0
/*
 * Page tables, which come from the card's memory. Each card has one pool of pages for them (pool_alloc.c, pool of 4 KiB in chunks
 * of 64 KiB). A reservation of addresses fills it for pages of 4 KiB before it is looked at (gvaspaceReserveMempool() in
 * gpu_vaspace.c), and keeps that when it fails; its tables are then taken from the pool. With the end of an address space the
 * driver gives the pool back to the card, unless tables of any space are left (rmMemPoolRelease()).
 * A device's own space has no pool unless its client asks for one: its tables come and go one by one.
 */
#include "sim.h"

#define TABLE 4096ull
#define BIG_TABLE 256ull
#define TABLE_SPAN (2ull << 20)
#define ATTR(value, field) (((value) >> NVOS32_##field##_SHIFT) & NVOS32_##field##_MASK)

static uint64_t round_to(uint64_t value, uint64_t unit)
{
	return (value + unit - 1) / unit * unit;
}

/* kgmmuGetSizeOfPageTables() and kgmmuGetSizeOfPageDirs(), of cards from Pascal to Ada. */
static uint64_t entries(uint64_t size, uint64_t span)
{
	return (size - 1 + span - 1) / span + 1;
}

static uint64_t directories(uint64_t size)
{
	return round_to(entries(size, TABLE_SPAN) * 16, TABLE) + round_to(entries(size, 512ull << 20) * 8, TABLE) +
		round_to(entries(size, 256ull << 30) * 8, TABLE) + round_to(entries(size, 128ull << 40) * 8, TABLE);
}

static bool has_big_and_small(const struct memory_request *request)
{
	return ATTR(request->attr, ATTR_PAGE_SIZE) == NVOS32_ATTR_PAGE_SIZE_DEFAULT;
}

static uint64_t pool_size(const struct memory_request *request)
{
	return directories(request->size) +
		round_to(entries(request->size, TABLE_SPAN) * (has_big_and_small(request) ? TABLE + BIG_TABLE : TABLE),
			TABLE);
}

static uint64_t pinned_size(const struct memory_request *request)
{
	uint64_t tables = entries(request->size, TABLE_SPAN);

	switch (ATTR(request->attr, ATTR_PAGE_SIZE)) {
	case NVOS32_ATTR_PAGE_SIZE_4KB:
		return directories(request->size) + tables * TABLE;
	case NVOS32_ATTR_PAGE_SIZE_DEFAULT:
		return directories(request->size) + round_to(tables * (TABLE + BIG_TABLE), TABLE);
	case NVOS32_ATTR_PAGE_SIZE_BIG:
		return directories(request->size) + round_to(tables * BIG_TABLE, TABLE);
	default:
		return directories(request->size);
	}
}

uint32_t tables_fill_pool(struct sim *sim, uint32_t index, uint64_t bytes)
{
	struct card *card = &sim->cards[index];
	uint64_t more = bytes > card->pool_free ? round_to(bytes - card->pool_free, SIM_PAGE_BIG) : 0;

	if (!memory_take(card, more))
		return NV_ERR_NO_MEMORY;
	card->pool_free += more;
	return NV_OK;
}

/* Without a pool the tables are the card's own memory, page by page. */
static uint32_t pin(struct sim *sim, struct object *object, uint64_t bytes, bool pooled)
{
	struct card *card = &sim->cards[object->card];

	if (pooled) {
		card->pool_free -= bytes;
		card->pool_used += bytes;
	} else if (!memory_take(card, bytes)) {
		return NV_ERR_NO_MEMORY;
	}
	object->tables = bytes;
	object->pooled = pooled;
	return NV_OK;
}

uint32_t tables_of_space(struct sim *sim, struct object *space)
{
	uint32_t status = space->external ? NV_OK : tables_fill_pool(sim, space->card, 3 * TABLE);

	return status != NV_OK || space->external ? status : pin(sim, space, 3 * TABLE, true);
}

uint32_t tables_of_addresses(
	struct sim *sim, struct object *addresses, const struct object *space, const struct memory_request *request)
{
	bool pooled = space != NULL, fits = request->size <= SIM_ADDRESSES;
	uint32_t status = NV_OK;

	if (space && space->external)
		return NV_OK;
	if (!(request->flags & (NVOS32_ALLOC_FLAGS_LAZY | NVOS32_ALLOC_FLAGS_EXTERNALLY_MANAGED))) {
		if (pooled)
			status = tables_fill_pool(sim, addresses->card, pool_size(request));
		if (status == NV_OK && fits)
			status = pin(sim, addresses, pinned_size(request), pooled);
	}
	return status == NV_OK && !fits ? NV_ERR_INSUFFICIENT_RESOURCES : status;
}

void tables_free(struct sim *sim, const struct object *object)
{
	struct card *card;

	if (object->card == SIM_NO_CARD)
		return;
	card = &sim->cards[object->card];
	if (object->tables && object->pooled) {
		card->pool_used -= object->tables;
		card->pool_free += object->tables;
	} else if (object->tables) {
		card->used -= object->tables;
	}
	if (object->class_id == FERMI_VASPACE_A && card->pool_used == 0) {
		card->used -= card->pool_free;
		card->pool_free = 0;
	}
}
