// SPDX-License-Identifier: Apache-2.0
/* Gates in place of time slices, while somebody changes runlists all the time or fills the driver's samples. */
#include "rounds.h"

static long schedule(struct bench *bench, const struct caller *caller, u32 n)
{
	const struct nv_layout_NVA06F_CTRL_GPFIFO_SCHEDULE_PARAMS *at =
		&bench->core.abi->NVA06F_CTRL_GPFIFO_SCHEDULE_PARAMS;

	bench->segment[0][at->bEnable] = 1;
	return bench_control(bench, caller, 0xc000 + n, 100 * n, NVA06C_CTRL_CMD_GPFIFO_SCHEDULE, at->bytes);
}

static int divided_by(struct bench *bench, const char *who)
{
	char text[128];

	CHECK(bench_read(bench, "0/sched", text, sizeof(text)) > 0);
	return strstr(text, who) != NULL;
}

static struct bench *two(struct caller caller[3])
{
	struct bench *bench = fresh(4);

	caller[1] = busy(bench, 1, "", 2);
	caller[2] = busy(bench, 2, "", 2);
	apply(bench);
	CHECK(divided_by(bench, "divided_by=time_slices"));
	/* What was made at the start does not count any more. */
	bench->now += 1000 * MS;
	apply(bench);
	return bench;
}

TEST(a_storm_on_a_runlist_is_met_with_gates)
{
	struct caller caller[3];
	struct bench *bench = two(caller);
	u64 ran[16];
	u32 n;

	/* As many as programs make that start. */
	for (n = 0; n < 40; n++)
		schedule(bench, &caller[1], 1);
	apply(bench);
	CHECK(divided_by(bench, "divided_by=time_slices"));
	for (n = 0; n < 40; n++)
		schedule(bench, &caller[1], 1);
	apply(bench);
	CHECK(divided_by(bench, "divided_by=gates"));
	run(bench, 400 * MS, ran);
	CHECK(ran[1] >= 198 * MS && ran[1] <= 202 * MS);
	CHECK(ran[2] >= 198 * MS && ran[2] <= 202 * MS);
	/* It goes on, and so do gates. */
	for (n = 0; n < 20; n++) {
		u32 k;

		for (k = 0; k < 70; k++)
			schedule(bench, &caller[1], 1);
		run(bench, 300 * MS, ran);
		CHECK(divided_by(bench, "divided_by=gates"));
	}
	run(bench, 2500 * MS, ran);
	CHECK(divided_by(bench, "divided_by=time_slices"));
	CHECK(!driver.stopped[101] && !driver.stopped[201]);
	bench_free(bench);
}

TEST(a_storm_of_channels_counts_too)
{
	struct caller caller[3];
	struct bench *bench = two(caller);
	u32 n;

	for (n = 0; n < 40; n++) {
		CHECK_EQ(make(bench, &caller[1], 0xc001, 100, 150, CHANNEL), NV_OK);
		CHECK_EQ(bench_rm_free(bench, &caller[1], 0xc001, 150), NV_OK);
	}
	apply(bench);
	CHECK(divided_by(bench, "divided_by=gates"));
	bench_free(bench);
}

/* Without gates time slices are all there is. */
TEST(not_where_gates_do_not_work)
{
	struct caller caller[3];
	struct bench *bench = two(caller);
	u32 n;

	CHECK_EQ(bench_write(bench, "0/policy", "2"), 0);
	driver.status = NV_ERR_NOT_SUPPORTED;
	apply(bench);
	bench->now += SLICE;
	apply(bench);
	CHECK(divided_by(bench, "divided_by=nobody"));
	CHECK_EQ(bench_write(bench, "0/policy", "4"), 0);
	for (n = 0; n < 200; n++)
		schedule(bench, &caller[1], 1);
	apply(bench);
	CHECK(divided_by(bench, "divided_by=time_slices"));
	bench_free(bench);
}
