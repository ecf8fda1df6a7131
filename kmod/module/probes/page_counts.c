// SPDX-License-Identifier: GPL-2.0-only
/*
 * Owners of a card's pages: one byte for each 64 KiB, which is the number of a container or 0. Pages stay their owner's
 * until they are freed, by whomever; a container that was removed stays on record as long as it has some. When a new container
 * needs a number and none is free, the removed ones that have least lose theirs: what they left is counted in one sum.
 */
#include <linux/mm.h>
#include <linux/slab.h>
#include <linux/spinlock.h>
#include <linux/string.h>

#include "probes/page_counts.h"

#define FRAME_SHIFT 16 /* PMA_PAGE_SHIFT, phys_mem_allocator.h */
#define SEGMENT_FRAMES 4096u /* 256 MiB, by a page of the host */
#define SEGMENTS 4096u /* no card has as much */
#define OWNERS 255u
#define LEFT (OWNERS - 1) /* the sum of what is left of removed containers that have no number any more */
#define NAMED 128u /* removed containers that keep theirs */
#define ADDRESSES_AT_ONCE 512u

struct page_owner {
	u64 generation; /* of the container; 0: the record is free */
	u64 bytes, limit;
	bool ended; /* the container was removed */
	bool loses_number; /* its pages go to the sum */
	char id[CGPU_ID_BYTES];
};

struct page_card {
	const void *allocator; /* as the driver names it; NULL: not known */
	u64 others; /* limit of containers that have no record */
	u8 *segment[SEGMENTS]; /* a frame's owner, by its place and 1; made when a container first has one there */
	struct page_owner owner[OWNERS];
};

_Static_assert(CGPU_MAX_INST + NAMED < LEFT, "a new container finds a number");

static struct page_card *page_cards[CGPU_MAX_GPUS];
static DEFINE_RAW_SPINLOCK(page_lock);
static u64 page_total; /* bytes of all owners */

static struct page_card *card_of(const void *allocator, u32 *gpu)
{
	u32 i;

	for (i = 0; i < CGPU_MAX_GPUS; i++) {
		if (!page_cards[i] || page_cards[i]->allocator != allocator)
			continue;
		*gpu = i;
		return page_cards[i];
	}
	return NULL;
}

static struct page_owner *owner_of(struct page_card *card, u64 generation)
{
	u32 i;

	for (i = 0; i < LEFT; i++) {
		if (card->owner[i].generation == generation)
			return &card->owner[i];
	}
	return NULL;
}

static void owner_credit(struct page_owner *owner, u64 bytes)
{
	owner->bytes -= bytes;
	WRITE_ONCE(page_total, page_total - bytes);
	if (owner->ended && owner->bytes == 0)
		owner->generation = 0;
}

int page_reserve(const void *allocator, u64 generation, u64 bytes, struct page_reservation *reservation)
{
	struct page_owner *owner = NULL;
	struct page_card *card;
	unsigned long flags;
	int err = -ENOENT;
	u64 limit;

	raw_spin_lock_irqsave(&page_lock, flags);
	card = card_of(allocator, &reservation->gpu);
	if (card) {
		owner = owner_of(card, generation);
		limit = owner ? owner->limit : card->others;
		err = bytes > limit || (owner && owner->bytes > limit - bytes) ? -ENOMEM : owner ? 0 : -ENOENT;
	}
	if (err == 0) {
		reservation->owner = (u32)(owner - card->owner);
		reservation->bytes = bytes;
		owner->bytes += bytes;
		WRITE_ONCE(page_total, page_total + bytes);
	}
	raw_spin_unlock_irqrestore(&page_lock, flags);
	return err;
}

/* Number of these frames, from the first on, that have the same owner. */
static u32 run_of(const u8 *frames, u32 count)
{
	const u8 *other = memchr_inv(frames, *frames, count);

	return other ? (u32)(other - frames) : count;
}

/* Give frames of one segment to an owner, by its place and 1, or to nobody. Their former owners lose them. */
static void segment_set(struct page_card *card, u8 *frames, u32 count, u8 to)
{
	while (count) {
		u32 same = run_of(frames, count);

		if (*frames)
			owner_credit(&card->owner[*frames - 1], (u64)same << FRAME_SHIFT);
		memset(frames, to, same);
		frames += same;
		count -= same;
	}
}

/* Returns how many of the frames have a place. */
static u64 frames_set(struct page_card *card, u64 first, u64 count, u8 to)
{
	u64 set = 0;

	while (count && first / SEGMENT_FRAMES < SEGMENTS) {
		u32 at = (u32)(first % SEGMENT_FRAMES), here = (u32)min_t(u64, count, SEGMENT_FRAMES - at);
		u8 *segment = card->segment[first / SEGMENT_FRAMES];

		if (segment) {
			segment_set(card, segment + at, here, to);
			set += here;
		}
		first += here;
		count -= here;
	}
	return set;
}

static u64 frames_of(u64 bytes)
{
	return (bytes + (1u << FRAME_SHIFT) - 1) >> FRAME_SHIFT;
}

/* Have a place for the owners of these frames. */
static void segments_make(struct page_card *card, u64 address, u64 bytes)
{
	u64 at = (address >> FRAME_SHIFT) / SEGMENT_FRAMES,
	    last = ((address + bytes - 1) >> FRAME_SHIFT) / SEGMENT_FRAMES;
	unsigned long flags;
	u8 *fresh;

	for (; at <= last && at < SEGMENTS; at++) {
		if (READ_ONCE(card->segment[at]))
			continue;
		fresh = kzalloc(SEGMENT_FRAMES, GFP_KERNEL | __GFP_NOFAIL);
		raw_spin_lock_irqsave(&page_lock, flags);
		if (!card->segment[at])
			swap(card->segment[at], fresh);
		raw_spin_unlock_irqrestore(&page_lock, flags);
		kfree(fresh);
	}
}

void page_settle(const struct page_reservation *reservation, const u64 *addresses, u64 count, u64 bytes)
{
	struct page_card *card = page_cards[reservation->gpu];
	u64 i = 0, until, given = 0;
	unsigned long flags;

	for (i = 0; i < count; i++)
		segments_make(card, addresses[i], bytes);
	for (i = 0; i < count;) {
		until = min(count, i + ADDRESSES_AT_ONCE);
		raw_spin_lock_irqsave(&page_lock, flags);
		for (; i < until; i++)
			given += frames_set(
				card, addresses[i] >> FRAME_SHIFT, frames_of(bytes), (u8)(reservation->owner + 1));
		raw_spin_unlock_irqrestore(&page_lock, flags);
	}
	given = min(given << FRAME_SHIFT, reservation->bytes);
	raw_spin_lock_irqsave(&page_lock, flags);
	owner_credit(&card->owner[reservation->owner], reservation->bytes - given);
	raw_spin_unlock_irqrestore(&page_lock, flags);
}

void page_free(const void *allocator, const u64 *addresses, u64 count, u64 bytes)
{
	struct page_card *card;
	unsigned long flags;
	u64 i = 0, until;
	u32 gpu;

	while (i < count) {
		until = min(count, i + ADDRESSES_AT_ONCE);
		raw_spin_lock_irqsave(&page_lock, flags);
		card = card_of(allocator, &gpu);
		for (; i < until; i++) {
			if (card)
				frames_set(card, addresses[i] >> FRAME_SHIFT, frames_of(bytes), 0);
		}
		raw_spin_unlock_irqrestore(&page_lock, flags);
	}
}

bool page_any(void)
{
	return READ_ONCE(page_total) != 0;
}

/* The record of a card, which stays. NULL: no memory. */
static struct page_card *card_take(u32 gpu)
{
	struct page_card *fresh;
	unsigned long flags;

	if (gpu >= CGPU_MAX_GPUS)
		return NULL;
	if (READ_ONCE(page_cards[gpu]))
		return page_cards[gpu];
	fresh = kvzalloc(sizeof(*fresh), GFP_KERNEL);
	raw_spin_lock_irqsave(&page_lock, flags);
	if (!page_cards[gpu])
		swap(page_cards[gpu], fresh);
	raw_spin_unlock_irqrestore(&page_lock, flags);
	kvfree(fresh);
	return page_cards[gpu];
}

int page_bind(u32 gpu, const void *allocator)
{
	struct page_card *card = card_take(gpu);
	unsigned long flags;

	if (!card)
		return -ENOMEM;
	raw_spin_lock_irqsave(&page_lock, flags);
	card->allocator = allocator;
	raw_spin_unlock_irqrestore(&page_lock, flags);
	return 0;
}

bool page_bound(u32 gpu)
{
	const struct page_card *card = READ_ONCE(page_cards[gpu]);

	return card && READ_ONCE(card->allocator);
}

static void card_forget(struct page_card *card)
{
	u32 i;

	card->allocator = NULL;
	for (i = 0; i < SEGMENTS; i++) {
		if (card->segment[i])
			segment_set(card, card->segment[i], SEGMENT_FRAMES, 0);
	}
}

u32 page_forget(const void *allocator)
{
	struct page_card *card;
	u32 gpu = CGPU_MAX_GPUS;
	unsigned long flags;

	raw_spin_lock_irqsave(&page_lock, flags);
	card = card_of(allocator, &gpu);
	if (card)
		card_forget(card);
	raw_spin_unlock_irqrestore(&page_lock, flags);
	return gpu;
}

void page_forget_all(void)
{
	unsigned long flags;
	u32 gpu;

	for (gpu = 0; gpu < CGPU_MAX_GPUS; gpu++) {
		raw_spin_lock_irqsave(&page_lock, flags);
		if (page_cards[gpu])
			card_forget(page_cards[gpu]);
		raw_spin_unlock_irqrestore(&page_lock, flags);
	}
}

/* --- numbers that are taken back --- */

/* Whether an owner is a removed container, and not among the NAMED ones that have most. */
static bool owner_is_small(const struct page_card *card, const struct page_owner *owner)
{
	u32 larger = 0, i;

	for (i = 0; i < LEFT; i++) {
		const struct page_owner *other = &card->owner[i];

		larger += other->ended &&
			(other->bytes > owner->bytes || (other->bytes == owner->bytes && other < owner));
	}
	return owner->generation && owner->ended && larger >= NAMED;
}

static void segment_sum(struct page_card *card, u8 *frames)
{
	u32 at, same;

	for (at = 0; at < SEGMENT_FRAMES; at += same) {
		u64 bytes;

		same = run_of(frames + at, SEGMENT_FRAMES - at);
		if (!frames[at] || !card->owner[frames[at] - 1].loses_number)
			continue;
		bytes = (u64)same << FRAME_SHIFT;
		card->owner[LEFT].bytes += bytes;
		WRITE_ONCE(page_total, page_total + bytes);
		segment_set(card, frames + at, same, LEFT + 1);
	}
}

/*
 * Owners whose pages have all gone to the sum are free. The lock is given back again and again, as pages are freed in any
 * context; nobody else makes owners meanwhile (page_limit). A reservation that is under way keeps its owner.
 */
static void owners_sum(struct page_card *card)
{
	unsigned long flags;
	u32 i;

	for (i = 0; i < LEFT; i++) {
		raw_spin_lock_irqsave(&page_lock, flags);
		card->owner[i].loses_number = owner_is_small(card, &card->owner[i]);
		raw_spin_unlock_irqrestore(&page_lock, flags);
	}
	for (i = 0; i < SEGMENTS; i++) {
		raw_spin_lock_irqsave(&page_lock, flags);
		if (card->segment[i])
			segment_sum(card, card->segment[i]);
		raw_spin_unlock_irqrestore(&page_lock, flags);
	}
}

/* --- limits --- */

/* With the lock held. */
static int owner_set(struct page_card *card, u64 generation, u64 bytes, const char *id)
{
	struct page_owner *owner = owner_of(card, generation);

	if (!owner && !id)
		return 0;
	if (!owner) {
		owner = owner_of(card, 0);
		if (!owner)
			return -ENOSPC;
		owner->generation = generation;
		owner->bytes = 0;
		owner->loses_number = false;
	}
	owner->ended = !id;
	owner->limit = bytes;
	if (id)
		strscpy(owner->id, id, sizeof(owner->id));
	owner_credit(owner, 0);
	return 0;
}

static int limit_set(struct page_card *card, u64 generation, u64 bytes, const char *id)
{
	unsigned long flags;
	int err = 0;

	raw_spin_lock_irqsave(&page_lock, flags);
	if (generation)
		err = owner_set(card, generation, bytes, id);
	else
		card->others = bytes;
	raw_spin_unlock_irqrestore(&page_lock, flags);
	return err;
}

int page_limit(u32 gpu, u64 generation, u64 bytes, const char *id)
{
	struct page_card *card = card_take(gpu);
	int err;

	if (!card)
		return -ENOMEM;
	err = limit_set(card, generation, bytes, id);
	if (err != -ENOSPC)
		return err;
	owners_sum(card);
	return limit_set(card, generation, bytes, id);
}

u64 page_bytes(u32 gpu, u64 generation)
{
	struct page_owner *owner = NULL;
	unsigned long flags;
	u64 bytes;

	raw_spin_lock_irqsave(&page_lock, flags);
	if (page_cards[gpu])
		owner = owner_of(page_cards[gpu], generation);
	bytes = owner ? owner->bytes : 0;
	raw_spin_unlock_irqrestore(&page_lock, flags);
	return bytes;
}

int page_next(u32 gpu, u32 *cursor, struct cgpu_pages *pages)
{
	const struct page_owner *owner;
	unsigned long flags;
	int err = -ENOENT;

	raw_spin_lock_irqsave(&page_lock, flags);
	for (; page_cards[gpu] && err && *cursor < OWNERS; (*cursor)++) {
		owner = &page_cards[gpu]->owner[*cursor];
		if (!owner->generation && !owner->bytes)
			continue;
		pages->generation = owner->generation;
		pages->bytes = owner->bytes;
		strscpy(pages->id, owner->id, sizeof(pages->id));
		err = 0;
	}
	raw_spin_unlock_irqrestore(&page_lock, flags);
	return err;
}

void page_counts_exit(void)
{
	u32 gpu, i;

	for (gpu = 0; gpu < CGPU_MAX_GPUS; gpu++) {
		for (i = 0; page_cards[gpu] && i < SEGMENTS; i++)
			kfree(page_cards[gpu]->segment[i]);
		kvfree(page_cards[gpu]);
		page_cards[gpu] = NULL;
	}
	page_total = 0;
}
