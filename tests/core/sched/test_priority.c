// SPDX-License-Identifier: Apache-2.0
/* High priority where the driver tells who was at work. */
#include "rounds.h"

static void look(struct bench *bench, s32 tgid)
{
	cgpu_samples_begin(&bench->core, 0, CGPU_SAMPLES_WHOLE);
	if (tgid)
		cgpu_ran(&bench->core, 0, tgid, MS);
}

/* Time that the container is not seen to use is not reserved for it. */
TEST_ON(priority_is_for_who_is_at_work, two_busy(2, ":1", ":1:1"))
{
	struct cgpu_round turn;
	u64 ran[16];
	u32 n;

	run(bench, 400 * MS, ran);
	CHECK_EQ(ran[2], 320 * MS);
	CHECK_EQ(cgpu_round(&bench->core, 0, &turn), 0);
	CHECK_EQ(turn.samples, 1);
	/* New channels count as at work for two looks. */
	for (n = 0; n < 2; n++)
		look(bench, 1001);
	run(bench, 400 * MS, ran);
	CHECK_EQ(ran[2], 320 * MS);
	look(bench, 1001);
	CHECK_EQ(bench->turned, 1);
	run(bench, 4 * SLICE, ran);
	run(bench, 400 * MS, ran);
	CHECK_EQ(ran[1], ran[2]);
	/* Its channels are enabled as those of any other until it is seen. */
	look(bench, 1002);
	CHECK_EQ(bench->turned, 1);
	run(bench, 4 * SLICE, ran);
	run(bench, 400 * MS, ran);
	CHECK_EQ(ran[2], 320 * MS);
	CHECK(bench_is(bench, "0/c2/highprio", "1\n"));
}

/* A driver without samples names no process. */
TEST_ON(without_looks_priority_stays, two_busy(1, "", ":1:1"))
{
	u64 ran[16];
	u32 n;

	run(bench, 8000 * MS, ran);
	CHECK_EQ(ran[2], 6400 * MS);
	/* A priority that was taken away leaves nothing of it, also when the container has made new channels. */
	for (n = 0; n < 3; n++)
		look(bench, 1001);
	CHECK_EQ(bench_write(bench, "0/c2/highprio", "0"), 0);
	CHECK_EQ(bench_write(bench, "0/c2/highprio", "1"), 0);
	run(bench, 4 * SLICE, ran);
	run(bench, 400 * MS, ran);
	CHECK_EQ(ran[2], 320 * MS);
	look(bench, 1001);
	run(bench, 4 * SLICE, ran);
	CHECK(bench_is(
		bench, "0/sched", "divided_by=time_slices usage_from=samples resolution=1000000000 slice=2000000\n"));
	CHECK_EQ(make(bench, &tenant[2], 0xc002, 200, 202, CHANNEL), NV_OK);
	run(bench, 400 * MS, ran);
	CHECK(ran[2] >= 318 * MS && ran[2] <= 322 * MS);
}

/* Others' samples may have pushed its own out. */
TEST_ON(what_was_lost_takes_no_priority, two_busy(1, "", ":1:1"))
{
	u64 ran[16];
	u32 n;

	for (n = 0; n < 8; n++) {
		cgpu_samples_begin(&bench->core, 0, n % 2 ? CGPU_SAMPLES_LOST : CGPU_SAMPLES_PART);
		cgpu_ran(&bench->core, 0, 1001, MS);
		run(bench, 1000 * MS, ran);
	}
	CHECK(ran[2] >= 798 * MS && ran[2] <= 802 * MS);
}
