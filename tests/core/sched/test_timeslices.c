// SPDX-License-Identifier: Apache-2.0
/* Time slices of channel groups, and settings that a container may not make itself. */
#include "rounds.h"

TEST_ON(time_slices_follow_weights_and_groups, two_busy(4, ":1", ":2"))
{
	u32 one;

	apply(bench);
	CHECK(!driver.stopped[101] && !driver.stopped[201]);
	one = driver.us[100];
	CHECK(one * 1024ull > SLICE * 99 / 100 && one * 1024ull < SLICE * 101 / 100);
	CHECK(driver.us[200] > one * 199 / 100 && driver.us[200] < one * 201 / 100);
	CHECK(bench_is(
		bench, "0/sched", "divided_by=time_slices usage_from=none resolution=1000000000 slice=2000000\n"));
	/* Two groups share what one had. */
	CHECK_EQ(make(bench, &tenant[1], 0xc001, DEVICE, 150, GROUP), NV_OK);
	CHECK_EQ(make(bench, &tenant[1], 0xc001, 150, 151, CHANNEL), NV_OK);
	apply(bench);
	CHECK_EQ(driver.us[100], driver.us[150]);
	CHECK(driver.us[100] > one * 48 / 100 && driver.us[100] <= one / 2);
	CHECK_EQ(bench_write(bench, "0/c1/weight", "4"), 0);
	apply(bench);
	CHECK(driver.us[100] > one * 198 / 100 && driver.us[100] <= one * 2);
}

TEST_ON(idle_groups_take_nothing, fresh(1))
{
	struct caller first = busy(bench, 1, "", 1), other = first;
	u32 one;

	apply(bench);
	one = driver.us[100];
	other.tgid = 2000;
	bench_cuda_start(bench, &other, 0xcf00);
	CHECK_EQ(make(bench, &other, 0xcf00, DEVICE, 150, GROUP), NV_OK);
	apply(bench);
	CHECK(driver.us[100] <= one / 2);
	cgpu_samples_begin(&bench->core, 0, CGPU_SAMPLES_WHOLE);
	cgpu_ran(&bench->core, 0, 1001, 500 * MS);
	cgpu_samples_begin(&bench->core, 0, CGPU_SAMPLES_WHOLE);
	cgpu_ran(&bench->core, 0, 1001, 500 * MS);
	apply(bench);
	CHECK(driver.us[100] > one * 99 / 100 && driver.us[100] < one);
	CHECK(driver.us[150] > 0 && driver.us[150] <= one / 200);
	CHECK_EQ(usage(bench, "0/c1/usage"), 1000 * MS);
	cgpu_ran(&bench->core, 0, 2000, 1);
	cgpu_samples_begin(&bench->core, 0, CGPU_SAMPLES_WHOLE);
	apply(bench);
	CHECK(driver.us[100] <= one / 2);
	CHECK_EQ(driver.us[150], driver.us[100]);
	/* No container is at work, so none is taken for idle. */
	cgpu_samples_begin(&bench->core, 0, CGPU_SAMPLES_WHOLE);
	cgpu_samples_begin(&bench->core, 0, CGPU_SAMPLES_WHOLE);
	apply(bench);
	CHECK(driver.us[100] <= one / 2 && driver.us[150] <= one / 2);
}

/* Groups of a process that the driver's samples do not name, as its parent made the client. */
TEST_ON(an_unreached_group_ends_every_walk, fresh(1))
{
	struct cgpu_timeslice slice;
	struct cgpu_round turn;
	u32 cursor, rounds, n;

	busy(bench, 1, "", 1);
	CHECK_EQ(cgpu_round(&bench->core, 0, &turn), 0);
	for (n = 0; n < 4; n++) {
		cursor = rounds = 0;
		while (cgpu_timeslices_next(&bench->core, 0, n & 1 ? 0xc001 : 0, &cursor, &slice) == 0) {
			CHECK(rounds++ < 4);
			cgpu_timeslices_done(&bench->core, &slice, n & 2 ? NV_ERR_INVALID_STATE : CGPU_CONTROL_FAILED);
		}
		CHECK_EQ(rounds, n == 0 || n & 1);
	}
}

TEST_ON(duplicates_of_groups_have_a_bound, fresh(1))
{
	struct caller first = busy(bench, 1, "", 1);
	u32 n;

	for (n = 1; n < CORE_TSG_IDS; n++)
		CHECK_EQ(bench_dup(bench, &first, 0xc001, DEVICE, 100000 + n, 0xc001, 100), NV_OK);
	CHECK_EQ(bench_dup(bench, &first, 0xc001, DEVICE, 200000, 0xc001, 100), NV_ERR_INSUFFICIENT_RESOURCES);
	CHECK_EQ(make(bench, &first, 0xc001, DEVICE, 200000, GROUP), NV_ERR_INSUFFICIENT_RESOURCES);
}

/*
 * A part of 256 MiB in 15109, with 20 places: a twentieth of one half of the numbers, and as much of the other as of
 * memory.
 */
#define PART (960 / 20 + 960 * 256 / 15110)

TEST_ON(numbers_of_the_card_are_shared_out, fresh(1))
{
	struct caller first = busy(bench, 1, "", 1), second = busy(bench, 2, "", 1);
	u32 n;

	for (n = 1; n < PART; n++)
		CHECK_EQ(make(bench, &first, 0xc001, DEVICE, 100000 + n, GROUP), NV_OK);
	CHECK_EQ(make(bench, &first, 0xc001, DEVICE, 200000, GROUP), NV_ERR_NO_FREE_FIFOS);
	CHECK_EQ(bench->call.no_room, CGPU_NO_ROOM_LEFT);
	/* One for itself has a group, too; a duplicate has no number of its own. */
	CHECK_EQ(make(bench, &first, 0xc001, DEVICE, 200000, CHANNEL), NV_ERR_NO_FREE_FIFOS);
	CHECK_EQ(bench_dup(bench, &first, 0xc001, DEVICE, 200000, 0xc001, 100), NV_OK);
	CHECK_EQ(bench_rm_free(bench, &first, 0xc001, 100001), NV_OK);
	CHECK_EQ(make(bench, &first, 0xc001, DEVICE, 200001, CHANNEL), NV_OK);
	CHECK_EQ(make(bench, &first, 0xc001, DEVICE, 200002, GROUP), NV_ERR_NO_FREE_FIFOS);
	for (n = 2; n < PART; n++)
		CHECK_EQ(make(bench, &first, 0xc001, 100, 300000 + n, CHANNEL), NV_OK);
	CHECK_EQ(make(bench, &first, 0xc001, 100, 400000, CHANNEL), NV_ERR_NO_FREE_FIFOS);
	CHECK_EQ(make(bench, &second, 0xc002, DEVICE, 100000, GROUP), NV_OK);
	bench_invariants(bench->core.state);
	/* The owner of a number may be under way at a crash; in any case the number counts again. */
	CHECK_EQ(cgpu_state_recover(bench->core.state), 0);
	bench_invariants(bench->core.state);
	CHECK_EQ(make(bench, &first, 0xc001, DEVICE, 200002, GROUP), NV_ERR_NO_FREE_FIFOS);
}

TEST_ON(what_the_driver_had_comes_back, fresh(1))
{
	busy(bench, 1, "", 1);
	apply(bench);
	CHECK(driver.us[100] > 1024);
	CHECK_EQ(bench_write(bench, "0/policy", "5"), 0);
	apply(bench);
	CHECK_EQ(driver.us[100], 1024);
}

TEST_ON(hidden_groups_win_nothing, fresh(1))
{
	struct caller first = busy(bench, 1, "", 1), other = first;
	u32 one, n, sum = 0;

	apply(bench);
	one = driver.us[100];
	other.tgid = 2000;
	bench_cuda_start(bench, &other, 0xcf00);
	for (n = 0; n < 40; n++) {
		CHECK_EQ(make(bench, &other, 0xcf00, DEVICE, 1000 + 2 * n, GROUP), NV_OK);
		CHECK_EQ(make(bench, &other, 0xcf00, 1000 + 2 * n, 1001 + 2 * n, CHANNEL), NV_OK);
	}
	for (n = 0; n < 3; n++) {
		cgpu_samples_begin(&bench->core, 0, CGPU_SAMPLES_WHOLE);
		cgpu_ran(&bench->core, 0, 1001, MS);
		apply(bench);
	}
	for (n = 0; n < 40; n++)
		sum += driver.us[1000 + 2 * n];
	CHECK(sum + driver.us[100] <= one + 40);
}

TEST_ON(a_bound_group_is_where_it_was_bound, fresh(1))
{
	struct caller first = busy(bench, 1, "", 1);
	struct channel_ask ask = { 0xc001, DEVICE, 170, GROUP, NV2080_ENGINE_TYPE_COPY0, 0 };
	u32 bytes = bench->core.abi->NVA06F_CTRL_BIND_PARAMS.bytes, one;

	CHECK_EQ(bench_channel(bench, &first, &ask), NV_OK);
	apply(bench);
	one = driver.us[100];
	CHECK_EQ(driver.us[170], one);
	put32(bench->segment[0], 0, GR);
	CHECK_EQ(bench_control(bench, &first, 0xc001, 170, NVA06C_CTRL_CMD_BIND, bytes), NV_OK);
	CHECK_EQ(bench->call.round, 1);
	apply(bench);
	CHECK(driver.us[170] <= one / 2 && driver.us[100] <= one / 2);
	/* Cards before Ampere do not hold a group to what it names. */
	ask.object = 180;
	CHECK_EQ(bench_channel(bench, &first, &ask), NV_OK);
	apply(bench);
	CHECK_EQ(driver.us[180], one);
	ask = (struct channel_ask){ 0xc001, 180, 181, TURING_CHANNEL_GPFIFO_A, NV2080_ENGINE_TYPE_COPY0, 0 };
	CHECK_EQ(bench_channel(bench, &first, &ask), NV_OK);
	apply(bench);
	CHECK(driver.us[180] <= one / 3 + 1);
}

/* The driver makes a group for it, which has no handle. */
TEST_ON(a_bare_channel_brings_gates, two_busy(1, "", ""))
{
	u64 ran[16];

	CHECK_EQ(make(bench, &tenant[1], 0xc001, DEVICE, 160, CHANNEL), NV_OK);
	run(bench, 400 * MS, ran);
	CHECK_EQ(ran[1], ran[2]);
	CHECK_EQ(ran[1] + ran[2], 400 * MS);
	CHECK_EQ(bench_rm_free(bench, &tenant[1], 0xc001, 160), NV_OK);
	apply(bench);
	CHECK(!driver.stopped[101] && !driver.stopped[201]);
}

/* Made and freed in the middle of another one's turn, again and again. */
TEST_ON(a_bare_channel_ends_no_turn, two_busy(2, ":1", ":1"))
{
	u64 ran[3] = { 0 }, end, until;
	u32 without_tsg = 0, was = 1;

	for (end = bench->now + 2000 * MS; bench->now < end; bench->now = until) {
		until = apply(bench);
		if (!driver.stopped[201] && was && until > bench->now + MS / 5)
			until = bench->now + MS / 5;
		ran[1] += driver.stopped[101] ? 0 : until - bench->now;
		ran[2] += driver.stopped[201] ? 0 : until - bench->now;
		was = driver.stopped[201];
		if (was)
			continue;
		if (without_tsg)
			CHECK_EQ(bench_rm_free(bench, &tenant[1], 0xc001, 160), NV_OK);
		else
			CHECK_EQ(make(bench, &tenant[1], 0xc001, DEVICE, 160, CHANNEL), NV_OK);
		without_tsg = !without_tsg;
	}
	CHECK(ran[1] > ran[2] * 98 / 100 && ran[1] < ran[2] * 102 / 100);
}

/* A container keeps the descriptor of its group's client from everybody, and makes another. */
TEST_ON(a_group_that_nobody_reaches_brings_gates, two_busy(1, "", ""))
{
	struct cgpu_timeslice slice;
	struct cgpu_round turn;
	u64 ran[16];
	u32 cursor = 0;

	CHECK_EQ(cgpu_round(&bench->core, 0, &turn), 0);
	CHECK(turn.timeslices);
	while (cgpu_timeslices_next(&bench->core, 0, 0, &cursor, &slice) == 0)
		cgpu_timeslices_done(&bench->core, &slice, slice.client == 0xc001 ? CGPU_CONTROL_FAILED : NV_OK);
	CHECK_EQ(bench->turned, 1);
	bench_invariants(bench->core.state);
	CHECK_EQ(cgpu_round(&bench->core, 0, &turn), 0);
	CHECK(turn.channels);
	/* The timeslice comes back with a call of its own. */
	cursor = 0;
	CHECK_EQ(cgpu_timeslices_next(&bench->core, 0, 0xc001, &cursor, &slice), 0);
	cgpu_timeslices_done(&bench->core, &slice, NV_OK);
	run(bench, 20 * MS, ran);
	CHECK_EQ(ran[1], 20 * MS);
	CHECK_EQ(ran[2], 20 * MS);
}

TEST_ON(a_failure_that_comes_late_changes_nothing, two_busy(1, "", ""))
{
	struct cgpu_timeslice searched, own;
	struct cgpu_round turn;
	u32 cursor = 0, own_cursor = 0;

	CHECK_EQ(cgpu_round(&bench->core, 0, &turn), 0);
	/* One walk has begun on a group when a call of its client brings the descriptor. */
	CHECK_EQ(cgpu_timeslices_next(&bench->core, 0, 0, &cursor, &searched), 0);
	CHECK_EQ(cgpu_timeslices_next(&bench->core, 0, searched.client, &own_cursor, &own), 0);
	CHECK_EQ(own.object, searched.object);
	cgpu_timeslices_done(&bench->core, &own, NV_OK);
	cgpu_timeslices_done(&bench->core, &searched, CGPU_CONTROL_FAILED);
	CHECK_EQ(bench->core.state->gpu[0].share.sched.settings.time_slices, 1);
	own_cursor = 0;
	CHECK_EQ(cgpu_timeslices_next(&bench->core, 0, searched.client, &own_cursor, &own), -ENOENT);
}

TEST_ON(a_container_does_not_divide, fresh(1))
{
	static const u32 refused[] = { NVA06C_CTRL_CMD_MAKE_REALTIME, NVA06C_CTRL_CMD_SET_INTERLEAVE_LEVEL,
		NVA06F_CTRL_CMD_SET_INTERLEAVE_LEVEL, NVA06F_CTRL_CMD_RESTART_RUNLIST,
		NV0080_CTRL_CMD_FIFO_SET_CHANNEL_PROPERTIES, NV0080_CTRL_CMD_FIFO_STOP_RUNLIST,
		NV0080_CTRL_CMD_FIFO_START_RUNLIST, NV2080_CTRL_CMD_GPU_SET_COMPUTE_POLICY_CONFIG,
		NV2080_CTRL_CMD_FIFO_CONFIG_CTXSW_TIMEOUT, NV2080_CTRL_CMD_FIFO_DISABLE_CHANNELS,
		NV2080_CTRL_CMD_FIFO_DISABLE_CHANNELS_FOR_KEY_ROTATION,
		NV2080_CTRL_CMD_FIFO_DISABLE_CHANNELS_FOR_KEY_ROTATION_V2,
		NV2080_CTRL_CMD_FIFO_DISABLE_USERMODE_CHANNELS, NV2080_CTRL_CMD_FIFO_OBJSCHED_SET_STATE,
		NV2080_CTRL_CMD_FIFO_RUNLIST_SET_SCHED_POLICY };
	struct caller first = busy(bench, 1, "", 1);
	size_t i;

	for (i = 0; i < sizeof(refused) / sizeof(refused[0]); i++)
		CHECK_EQ(bench_control(bench, &first, 0xc001, 100, refused[i], 8), NV_ERR_INSUFFICIENT_PERMISSIONS);
	apply(bench);
	/* Taken for done, and left as it is. */
	CHECK_EQ(bench_control(bench, &first, 0xc001, 100, NVA06C_CTRL_CMD_SET_TIMESLICE, 8), NV_OK);
	CHECK_EQ(bench->verdict, CGPU_ANSWER);
	CHECK_EQ(bench_write(bench, "0/policy", "5"), 0);
	apply(bench);
	driver.calls = 0;
	CHECK_EQ(bench_control(bench, &first, 0xc001, 100, NVA06C_CTRL_CMD_SET_TIMESLICE, 8), NV_OK);
	CHECK_EQ(bench->verdict, CGPU_EXECUTE);
	CHECK_EQ(bench_write(bench, "0/policy", "1"), 0);
	apply(bench);
	CHECK_EQ(driver.calls, 1);
}

/* A call that was judged before there was a group would run on one that another thread makes under the same handle. */
TEST_ON(the_driver_is_asked_of_no_group_that_is_not_there, fresh(1))
{
	const struct nv_layout_NVA06F_CTRL_GPFIFO_SCHEDULE_PARAMS *at =
		&bench->core.abi->NVA06F_CTRL_GPFIFO_SCHEDULE_PARAMS;
	struct caller first = busy(bench, 1, "", 1);
	const struct {
		u32 command, bytes;
	} asked[] = { { NVA06C_CTRL_CMD_SET_TIMESLICE, bench->core.abi->NVA06C_CTRL_TIMESLICE_PARAMS.bytes },
		{ NVA06C_CTRL_CMD_GPFIFO_SCHEDULE, at->bytes }, { NVC36F_CTRL_CMD_GPFIFO_SCHEDULE, at->bytes },
		{ NVA06C_CTRL_CMD_BIND, bench->core.abi->NVA06F_CTRL_BIND_PARAMS.bytes } };
	size_t i;

	for (i = 0; i < sizeof(asked) / sizeof(asked[0]); i++) {
		/* No object, and one that is no group. */
		CHECK_EQ(bench_control(bench, &first, 0xc001, 999, asked[i].command, asked[i].bytes),
			NV_ERR_OBJECT_NOT_FOUND);
		CHECK_EQ(bench_control(bench, &first, 0xc001, DEVICE, asked[i].command, asked[i].bytes),
			NV_ERR_OBJECT_NOT_FOUND);
		CHECK_EQ(cgpu_call_changes(bench->core.abi, &bench->call), 1);
	}
}

TEST_ON(the_compute_policy_is_the_default, fresh(1))
{
	const struct nv_layout_NV2080_CTRL_GPU_GET_COMPUTE_POLICY_CONFIG_PARAMS *at =
		&bench->core.abi->NV2080_CTRL_GPU_GET_COMPUTE_POLICY_CONFIG_PARAMS;
	struct caller first = busy(bench, 1, "", 1);

	memset(bench->segment[0], 0, at->bytes);
	put32(bench->segment[0], at->numConfigs, 1);
	put32(bench->segment[0], at->configList + 4, 3);
	CHECK_EQ(bench_control(bench, &first, 0xc001, 0xd1, NV2080_CTRL_CMD_GPU_GET_COMPUTE_POLICY_CONFIG, at->bytes),
		NV_OK);
	CHECK_EQ(get32(bench->segment[0], at->configList + 4), 0);
	CHECK_EQ(get32(bench->segment[0], at->numConfigs), 1);
	CHECK_EQ(bench_control(bench, &first, 0xc001, 0xd1, NV2080_CTRL_CMD_GPU_GET_COMPUTE_POLICY_CONFIG, 8),
		NV_ERR_INVALID_PARAM_STRUCT);
}

/*
 * Channels are disabled in place of timeslices, while a container changes runlists all the time or fills the samples.
 */

static int divided_by(struct bench *bench, const char *who)
{
	char text[128];

	CHECK(bench_read(bench, "0/sched", text, sizeof(text)) > 0);
	return strstr(text, who) != NULL;
}

static struct bench *two(void)
{
	struct bench *bench = fresh(4);

	tenant[1] = busy(bench, 1, "", 2);
	tenant[2] = busy(bench, 2, "", 2);
	apply(bench);
	CHECK(divided_by(bench, "divided_by=time_slices"));
	/* Runlist changes of the start do not count any more. */
	bench->now += 1000 * MS;
	apply(bench);
	return bench;
}

TEST_ON(a_storm_on_a_runlist_is_met_with_gates, two())
{
	u64 ran[16];
	u32 n;

	/* As many as programs make that start. */
	for (n = 0; n < 40; n++)
		schedule(bench, &tenant[1], 1, 1);
	apply(bench);
	CHECK(divided_by(bench, "divided_by=time_slices"));
	for (n = 0; n < 40; n++)
		schedule(bench, &tenant[1], 1, 1);
	apply(bench);
	CHECK(divided_by(bench, "divided_by=gates"));
	run(bench, 400 * MS, ran);
	CHECK(ran[1] >= 198 * MS && ran[1] <= 202 * MS);
	CHECK(ran[2] >= 198 * MS && ran[2] <= 202 * MS);
	/* The storm goes on, and so do gates. */
	for (n = 0; n < 20; n++) {
		u32 k;

		for (k = 0; k < 70; k++)
			schedule(bench, &tenant[1], 1, 1);
		run(bench, 300 * MS, ran);
		CHECK(divided_by(bench, "divided_by=gates"));
	}
	run(bench, 2500 * MS, ran);
	CHECK(divided_by(bench, "divided_by=time_slices"));
	CHECK(!driver.stopped[101] && !driver.stopped[201]);
}

TEST_ON(a_storm_of_channels_counts_too, two())
{
	u32 n;

	for (n = 0; n < 40; n++) {
		CHECK_EQ(make(bench, &tenant[1], 0xc001, 100, 150, CHANNEL), NV_OK);
		CHECK_EQ(bench_rm_free(bench, &tenant[1], 0xc001, 150), NV_OK);
	}
	apply(bench);
	CHECK(divided_by(bench, "divided_by=gates"));
}

/* Without channel control timeslices are all there is. */
TEST_ON(not_where_gates_do_not_work, two())
{
	u32 n;

	CHECK_EQ(bench_write(bench, "0/policy", "2"), 0);
	driver.status = NV_ERR_NOT_SUPPORTED;
	apply(bench);
	bench->now += SLICE;
	apply(bench);
	CHECK(divided_by(bench, "divided_by=nobody"));
	CHECK_EQ(bench_write(bench, "0/policy", "4"), 0);
	for (n = 0; n < 200; n++)
		schedule(bench, &tenant[1], 1, 1);
	apply(bench);
	CHECK(divided_by(bench, "divided_by=time_slices"));
}
