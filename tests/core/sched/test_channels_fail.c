// SPDX-License-Identifier: Apache-2.0
/* Gates that cannot be set: never, for a moment, or those of one channel. */
#include "rounds.h"

TEST(a_driver_without_the_lever_is_told_of)
{
	struct bench *bench = fresh(2);
	u64 ran[16];

	busy(bench, 1, ":1", 1);
	busy(bench, 2, ":1", 1);
	driver.status = NV_ERR_NOT_SUPPORTED;
	run(bench, 20 * MS, ran);
	CHECK_EQ(ran[1], ran[2]);
	CHECK_EQ(driver.batches, 1);
	CHECK(strstr(bench->log, "GPU 0: the driver does not do FIFO_DISABLE_CHANNELS (status 0x56): only"));
	CHECK(bench_is(bench, "0/sched", "divided_by=nobody usage_from=none resolution=1000000000 slice=2000000\n"));
	bench_free(bench);
}

TEST(a_failure_of_a_moment_ends_nothing)
{
	struct bench *bench = fresh(2);
	struct cgpu_channel_batch gates;
	struct cgpu_round turn;
	u64 ran[16];

	busy(bench, 1, ":1", 1);
	busy(bench, 2, ":1", 1);
	CHECK_EQ(cgpu_round(&bench->core, 0, &turn), 0);
	CHECK_EQ(cgpu_channels_next(&bench->core, 0, &gates), 0);
	cgpu_channels_done(&bench->core, &gates, CGPU_CONTROL_FAILED);
	CHECK_EQ(cgpu_channels_next(&bench->core, 0, &gates), -ENOENT);
	run(bench, 400 * MS, ran);
	CHECK_EQ(ran[1], ran[2]);
	/* What it has done before it can do. */
	driver.status = NV_ERR_INSUFFICIENT_PERMISSIONS;
	bench->now += SLICE;
	apply(bench);
	driver.status = NV_OK;
	run(bench, 400 * MS, ran);
	CHECK(ran[1] > 190 * MS && ran[2] > 190 * MS);
	bench_free(bench);
}

/* Nobody's gate is changed, so no turns pass: who had one has the rest of it when gates can be set again. */
TEST(while_gates_cannot_be_set_time_is_nobodys)
{
	struct bench *bench = fresh(2);
	u64 ran[16], first, second;
	u32 n;

	busy(bench, 1, ":1", 1);
	busy(bench, 2, ":1", 1);
	run(bench, 400 * MS, ran);
	driver.status = CGPU_CONTROL_FAILED;
	apply(bench);
	first = usage(bench, "0/c1/usage");
	second = usage(bench, "0/c2/usage");
	for (n = 0; n < 60; n++) {
		bench->now += 1000 * MS;
		apply(bench);
	}
	CHECK(usage(bench, "0/c1/usage") - first <= SLICE);
	CHECK(usage(bench, "0/c2/usage") - second <= SLICE);
	driver.status = NV_OK;
	run(bench, 400 * MS, ran);
	CHECK(ran[1] > 190 * MS && ran[2] > 190 * MS);
	bench_free(bench);
}

TEST(one_that_has_gone_holds_up_no_other)
{
	struct bench *bench = fresh(2);
	struct cgpu_channel_batch gates;
	struct cgpu_round turn;
	u32 applied = 0;

	busy(bench, 1, ":1", 6);
	busy(bench, 2, ":1", 6);
	CHECK_EQ(cgpu_round(&bench->core, 0, &turn), 0);
	while (cgpu_channels_next(&bench->core, 0, &gates) == 0) {
		CHECK(applied++ < 64);
		cgpu_channels_done(&bench->core, &gates,
			gates.count > 1 || gates.channel[0] % 100 == 3 ? NV_ERR_INVALID_OBJECT_HANDLE : NV_OK);
	}
	CHECK_EQ(applied, 7);
	CHECK(bench_is(bench, "0/sched", "divided_by=gates usage_from=gates resolution=2000000 slice=2000000\n"));
	bench_free(bench);
}
