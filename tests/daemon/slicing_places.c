// SPDX-License-Identifier: Apache-2.0
/* Where cgpud remembers how clients were reached: a part of it without a core or a driver. */
#include "bench.h"
#include "engine.h"
#include "timeslice.h"

#define LEFT_MANY 200u
#define OTHERS 2000u

static struct slicing *start(u32 seed)
{
	struct cgpud *d = calloc(1, sizeof(*d));

	CHECK(d);
	slicing_init(d);
	d->slicing.seed = seed;
	return &d->slicing;
}

/* Without an order, and no two the same. */
static u32 handle(u32 number)
{
	u32 mixed = number + 1;

	mixed ^= mixed << 13;
	mixed ^= mixed >> 17;
	return mixed ^ mixed << 5;
}

static void add(struct slicing *slicing, u32 number, u32 left)
{
	struct slicing_client one = { .client = handle(number), .tgid = (s32)number, .left = left };

	slicing_remember(slicing, &one);
}

static u32 known(struct slicing *slicing, u32 from, u32 to)
{
	struct slicing_client found;
	u32 n, count = 0;

	for (n = from; n < to; n++) {
		if (!slicing_find(slicing, handle(n), &found))
			continue;
		CHECK_EQ(found.tgid, n);
		count++;
	}
	return count;
}

static void what_is_left_is_not_pushed_out(void)
{
	u32 seed, n;

	for (seed = 0; seed < 50; seed++) {
		struct slicing *slicing = start(seed * 2654435769u);

		for (n = 0; n < LEFT_MANY; n++)
			add(slicing, n, 1);
		for (; n < LEFT_MANY + OTHERS; n++)
			add(slicing, n, 0);
		CHECK_EQ(atomic_load(&slicing->left), LEFT_MANY);
		CHECK_EQ(known(slicing, 0, LEFT_MANY), LEFT_MANY);
	}
}

/* Those who have gone stay in their places until these are wanted. */
static void the_latest_are_known(void)
{
	struct slicing *slicing = start(77);
	u32 n, before = 4 * SLICING_CLIENTS;

	for (n = 0; n < before + OTHERS; n++)
		add(slicing, n, 0);
	CHECK(known(slicing, before, before + OTHERS) > OTHERS * 95 / 100);
}

static void what_is_left_is_counted(void)
{
	struct slicing *slicing = start(5);
	u32 n;

	add(slicing, 1, 1);
	add(slicing, 1, 4);
	add(slicing, 2, 2);
	CHECK_EQ(atomic_load(&slicing->left), 2);
	slicing_not_left(slicing, handle(1), 1);
	CHECK_EQ(atomic_load(&slicing->left), 2);
	slicing_not_left(slicing, handle(1), 4);
	slicing_not_left(slicing, handle(3), ~0u);
	CHECK_EQ(atomic_load(&slicing->left), 1);
	/* More than all of its places hold: one is given up, and its count with it. */
	for (n = 0; n < 2 * SLICING_CLIENTS; n++)
		add(slicing, 10 + n, 1);
	CHECK(atomic_load(&slicing->left) <= SLICING_CLIENTS);
	for (n = 0; n < 2 * SLICING_CLIENTS + 10; n++)
		slicing_not_left(slicing, handle(n), ~0u);
	CHECK_EQ(atomic_load(&slicing->left), 0);
}

int main(int argc, char **argv)
{
	static const struct test tests[] = {
		TEST(what_is_left_is_not_pushed_out),
		TEST(the_latest_are_known),
		TEST(what_is_left_is_counted),
		{ NULL, NULL },
	};

	return bench_main(argc, argv, tests);
}
