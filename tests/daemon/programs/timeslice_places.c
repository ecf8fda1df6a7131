// SPDX-License-Identifier: Apache-2.0
/* cgpud's table of the ways to clients: a part of it without a core or a driver. */
#include "bench.h"
#include "engine.h"
#include "timeslice.h"

#define LEFT_MANY 200u
#define OTHERS 2000u

static struct timeslices *start(u32 seed)
{
	struct cgpud *d = calloc(1, sizeof(*d));

	CHECK(d);
	timeslice_init(d);
	d->timeslices.seed = seed;
	return &d->timeslices;
}

/* Without an order, and no two the same. */
static u32 handle(u32 number)
{
	u32 mixed = number + 1;

	mixed ^= mixed << 13;
	mixed ^= mixed >> 17;
	return mixed ^ mixed << 5;
}

static void add(struct timeslices *timeslices, u32 number, u32 left)
{
	struct timeslice_client one = { .client = handle(number), .tgid = (s32)number, .left = left };

	timeslice_remember(timeslices, &one);
}

static u32 known(struct timeslices *timeslices, u32 from, u32 to)
{
	struct timeslice_client found;
	u32 n, count = 0;

	for (n = from; n < to; n++) {
		if (!timeslice_find(timeslices, handle(n), &found))
			continue;
		CHECK_EQ(found.tgid, n);
		count++;
	}
	return count;
}

TEST(what_is_left_is_not_pushed_out)
{
	u32 seed, n;

	for (seed = 0; seed < 50; seed++) {
		struct timeslices *timeslices = start(seed * 2654435769u);

		for (n = 0; n < LEFT_MANY; n++)
			add(timeslices, n, 1);
		for (; n < LEFT_MANY + OTHERS; n++)
			add(timeslices, n, 0);
		CHECK_EQ(atomic_load(&timeslices->left), LEFT_MANY);
		CHECK_EQ(known(timeslices, 0, LEFT_MANY), LEFT_MANY);
	}
}

/* Processes that have gone stay in their places until these are wanted. */
TEST(the_latest_are_known)
{
	struct timeslices *timeslices = start(77);
	u32 n, before = 4 * TIMESLICE_CLIENTS;

	for (n = 0; n < before + OTHERS; n++)
		add(timeslices, n, 0);
	CHECK(known(timeslices, before, before + OTHERS) > OTHERS * 95 / 100);
}

TEST(what_is_left_is_counted)
{
	struct timeslices *timeslices = start(5);
	u32 n;

	add(timeslices, 1, 1);
	add(timeslices, 1, 4);
	add(timeslices, 2, 2);
	CHECK_EQ(atomic_load(&timeslices->left), 2);
	timeslice_not_left(timeslices, handle(1), 1);
	CHECK_EQ(atomic_load(&timeslices->left), 2);
	timeslice_not_left(timeslices, handle(1), 4);
	timeslice_not_left(timeslices, handle(3), ~0u);
	CHECK_EQ(atomic_load(&timeslices->left), 1);
	/* More than all of its places hold: one is given up, and its count with it. */
	for (n = 0; n < 2 * TIMESLICE_CLIENTS; n++)
		add(timeslices, 10 + n, 1);
	CHECK(atomic_load(&timeslices->left) <= TIMESLICE_CLIENTS);
	for (n = 0; n < 2 * TIMESLICE_CLIENTS + 10; n++)
		timeslice_not_left(timeslices, handle(n), ~0u);
	CHECK_EQ(atomic_load(&timeslices->left), 0);
}
