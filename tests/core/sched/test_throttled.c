// SPDX-License-Identifier: Apache-2.0
/* Throttled time: how long a container's share did not let it run, as far as the core can know. */
#include "stats.h"
#include "rounds.h"

static void check_near(u64 value, u64 expected)
{
	CHECK(value > expected - expected / 50 && value < expected + expected / 50);
}

/* As run(), and the time is booked. */
static void run_and_book(struct bench *bench, u64 ns, u64 ran[16])
{
	run(bench, ns, ran);
	apply(bench);
}

TEST_ON(who_competes_waits_while_the_others_run, two_busy(2, ":1", ":3"))
{
	u64 ran[16];

	run_and_book(bench, 800 * MS, ran);
	check_near(stat_of(bench, "0/c1/stat", "throttled"), ran[2]);
	check_near(stat_of(bench, "0/c2/stat", "throttled"), ran[1]);
	check_near(stat_of(bench, "0/c1/stat", "usage"), ran[1]);
	check_near(stat_of(bench, "0/stat", "usage"), 800 * MS);
}

TEST_ON(a_cap_throttles_a_lone_container, fresh(3))
{
	u64 ran[16];

	CHECK_EQ(bench_write(bench, "0/max_inst", "4"), 0);
	busy(bench, 1, ":1", 1);
	run_and_book(bench, 800 * MS, ran);
	check_near(stat_of(bench, "0/c1/stat", "throttled"), 600 * MS);
}

TEST_ON(who_is_alone_waits_for_nobody, fresh(2))
{
	u64 ran[16];

	busy(bench, 1, ":1", 1);
	run_and_book(bench, 800 * MS, ran);
	CHECK_STAT("0/c1/stat", "throttled", 0);
	CHECK_STAT("0/c1/stat", "usage", 800 * MS);
}

TEST_ON(without_channels_nobody_waits, fresh(2))
{
	u64 ran[16];

	CHECK_EQ(bench_ctl(bench, "create id=idle pid=9 gpu=0:1048576"), 0);
	busy(bench, 1, ":1", 1);
	run_and_book(bench, 800 * MS, ran);
	CHECK_STAT("0/idle/stat", "throttled", 0);
	/* And who comes late has not waited before. */
	busy(bench, 2, ":1", 1);
	CHECK_STAT("0/c2/stat", "throttled", 0);
	run_and_book(bench, 400 * MS, ran);
	/* A third of the time is kept for the one without work. */
	check_near(stat_of(bench, "0/c2/stat", "throttled"), 400 * MS - ran[2]);
	check_near(ran[1], ran[2]);
}

TEST_ON(the_drivers_own_scheduling_throttles_nobody, two_busy(2, ":1", ":1"))
{
	u64 ran[16], before;

	CHECK_EQ(bench_write(bench, "0/policy", "5"), 0);
	apply(bench);
	before = stat_of(bench, "0/c1/stat", "throttled");
	run_and_book(bench, 400 * MS, ran);
	cgpu_samples_begin(&bench->core, 0, CGPU_SAMPLES_WHOLE);
	cgpu_ran(&bench->core, 0, 1001, 200 * MS);
	cgpu_ran(&bench->core, 0, 1002, 200 * MS);
	CHECK_STAT("0/c1/stat", "throttled", before);
}

/* The card's timeslices divide, and samples tell which containers were at work together. */
TEST_ON(with_timeslices_samples_tell, two_busy(4, ":1", ":3"))
{
	u32 second;

	busy(bench, 3, ":1", 1);
	apply(bench);
	for (second = 0; second < 4; second++) {
		cgpu_samples_begin(&bench->core, 0, CGPU_SAMPLES_WHOLE);
		cgpu_ran(&bench->core, 0, 1001, 100 * MS);
		cgpu_ran(&bench->core, 0, 1002, 750 * MS);
		cgpu_ran(&bench->core, 0, 1001, 150 * MS);
	}
	CHECK_STAT("0/c1/stat", "throttled", 3000 * MS);
	CHECK_STAT("0/c2/stat", "throttled", 1000 * MS);
	/* An idle container did not wait. */
	CHECK_STAT("0/c3/stat", "throttled", 0);
	CHECK_STAT("0/stat", "usage", 4000 * MS);
}

TEST_ON(who_works_at_other_times_waits_for_nobody, two_busy(4, ":1", ":1"))
{
	apply(bench);
	cgpu_samples_begin(&bench->core, 0, CGPU_SAMPLES_WHOLE);
	cgpu_ran(&bench->core, 0, 1001, 900 * MS);
	cgpu_samples_begin(&bench->core, 0, CGPU_SAMPLES_WHOLE);
	cgpu_ran(&bench->core, 0, 1002, 900 * MS);
	CHECK_STAT("0/c1/stat", "throttled", 0);
	CHECK_STAT("0/c2/stat", "throttled", 0);
}

/* While a call to stop a kernel takes long, its container gets more: `usage` is corrected, the counted time is not. */
TEST_ON(usage_never_goes_back, two_busy(2, ":1", ":1"))
{
	u64 ran[16], last[3] = { 0 }, now;
	u32 step, n;

	driver.takes = 5 * MS;
	for (step = 0; step < 400; step++) {
		run_and_book(bench, 3 * MS, ran);
		for (n = 1; n <= 2; n++) {
			now = stat_of(bench, n == 1 ? "0/c1/stat" : "0/c2/stat", "usage");
			CHECK(now >= last[n]);
			last[n] = now;
		}
	}
	CHECK(last[1] > 0 && last[2] > 0);
	now = stat_of(bench, "0/stat", "usage");
	CHECK_EQ(now, last[1] + last[2]);
}

TEST_ON(time_without_an_engine_is_not_counted, two_busy(2, ":1", ":1"))
{
	u64 ran[16], before[3];

	run_and_book(bench, 400 * MS, ran);
	before[1] = stat_of(bench, "0/c1/stat", "throttled");
	before[2] = stat_of(bench, "0/c2/stat", "throttled");
	bench->now += 3600 * 1000 * MS;
	CHECK_EQ(cgpu_state_recover(bench->core.state), 0);
	run_and_book(bench, 400 * MS, ran);
	CHECK(stat_of(bench, "0/c1/stat", "throttled") > before[1] + 150 * MS);
	CHECK(stat_of(bench, "0/c1/stat", "throttled") < before[1] + 250 * MS);
	CHECK(stat_of(bench, "0/c2/stat", "throttled") < before[2] + 250 * MS);
}
