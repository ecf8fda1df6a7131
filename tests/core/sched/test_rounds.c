// SPDX-License-Identifier: Apache-2.0
/* Orders of the core for a card: which channels are enabled. */
#include "rounds.h"

/* How much longer a grant is than its unit says, for who is beside one of so many units: each round has two switches, which
 * the two pay by their weights. */
static u64 more_beside(u32 units)
{
	return CGPU_SCHED_SWITCH - CGPU_SCHED_SWITCH * 2 / (1 + units);
}

/* Kernels that cannot be interrupted: the call that disables a channel takes as long as they do. */
TEST_ON(who_runs_on_owes_it, two_busy(2, ":1", ":1"))
{
	u64 ran[16], begin, extra = 0;

	driver.takes = 5 * MS;
	begin = bench->now;
	run(bench, 4000 * MS, ran);
	/* Time that passed in calls was all the second one's. */
	extra = bench->now - begin - ran[1] - ran[2];
	CHECK(extra > 1000 * MS);
	CHECK(ran[1] > (ran[2] + extra) * 99 / 100 && ran[1] < (ran[2] + extra) * 101 / 100);
	CHECK(usage(bench, "0/c1/usage") > ran[1] * 99 / 100 && usage(bench, "0/c1/usage") < ran[1] * 101 / 100);
}

TEST_ON(changes_count_at_once, fresh(2))
{
	u64 ran[16];

	busy(bench, 1, ":1", 1);
	run(bench, 50 * MS, ran);
	CHECK_EQ(ran[1], 50 * MS);
	busy(bench, 2, ":1", 1);
	run(bench, 4 * SLICE, ran);
	run(bench, 400 * MS, ran);
	CHECK_EQ(ran[1], ran[2]);
	CHECK_EQ(bench_write(bench, "0/c2/weight", "3"), 0);
	CHECK_EQ(bench->turned, 1);
	run(bench, 8 * SLICE, ran);
	run(bench, 400 * MS, ran);
	CHECK_EQ(ran[1], 100 * MS + 50 * more_beside(3));
	CHECK_EQ(ran[2], 400 * MS - ran[1]);
	CHECK_EQ(bench_write(bench, "0/policy", "5"), 0);
	apply(bench);
	CHECK(!driver.stopped[101] && !driver.stopped[201]);
	CHECK(bench_is(bench, "0/sched", "divided_by=driver usage_from=none resolution=1000000000 slice=2000000\n"));
}

TEST_ON(an_idle_card_needs_no_turns, fresh(0))
{
	u64 ran[16], until;

	CHECK_EQ(bench_ctl(bench, "create id=a pid=1 gpu=0:1048576"), 0);
	CHECK_EQ(bench_ctl(bench, "create id=b pid=2 gpu=0:1048576"), 0);
	CHECK(apply(bench) == CGPU_ROUND_NEVER);
	bench->now += 3600 * 1000 * MS;
	caller = busy(bench, 3, "", 1);
	/* The hour without containers is no debt of any. */
	run(bench, 400 * MS, ran);
	CHECK_EQ(ran[3], 20 * MS);
	CHECK_EQ(usage(bench, "0/a/usage"), 0);
	CHECK_EQ(bench_rm_free(bench, &caller, 0xc003, DEVICE), NV_OK);
	CHECK_EQ(bench->turned, 1);
	until = apply(bench);
	CHECK(until == CGPU_ROUND_NEVER);
}

TEST_ON(batches_have_a_bound, fresh(2))
{
	struct caller first = busy(bench, 1, ":1", 1);
	u32 n;

	/* With so much memory it has the numbers for so many. */
	CHECK_EQ(bench_write(bench, "0/c1/memsize", "1073741824"), 0);
	for (n = 2; n <= 90; n++)
		CHECK_EQ(make(bench, &first, 0xc001, 100, 100 + n, CHANNEL), NV_OK);
	busy(bench, 2, ":1", 1);
	bench->now += SLICE;
	apply(bench);
	bench->now += SLICE;
	apply(bench);
	CHECK_EQ(driver.most, CGPU_CHANNEL_BATCH);
}

TEST_ON(a_channel_of_a_closed_container_is_closed, two_busy(2, ":1", ":1"))
{
	u32 n;

	apply(bench);
	CHECK(driver.stopped[101] != driver.stopped[201]);
	n = driver.stopped[101] ? 1 : 2;
	CHECK_EQ(make(bench, &tenant[n], 0xc000 + n, 100 * n, 100 * n + 2, CHANNEL), NV_OK);
	apply(bench);
	CHECK_EQ(driver.stopped[100 * n + 2], 1);
	/* The driver may have opened it. */
	driver.stopped[100 * n + 1] = 0;
	CHECK_EQ(bench_control(bench, &tenant[n], 0xc000 + n, 100 * n, NVA06C_CTRL_CMD_GPFIFO_SCHEDULE,
			 bench->core.abi->NVA06F_CTRL_GPFIFO_SCHEDULE_PARAMS.bytes),
		NV_OK);
	CHECK_EQ(bench->call.round, 1);
	apply(bench);
	CHECK_EQ(driver.stopped[100 * n + 1], 1);
}

/* Else calls in others' turns would each give a little of them. */
TEST_ON(scheduling_again_has_to_wait, two_busy(2, ":1", ":1"))
{
	u32 n, passed = 0;
	u64 ran[16];

	apply(bench);
	n = driver.stopped[101] ? 1 : 2;
	/* The first time is how every group begins. */
	CHECK_EQ(schedule(bench, &tenant[n], n, 1), NV_OK);
	CHECK_EQ(schedule(bench, &tenant[n], n, 0), NV_OK);
	while (passed < 8 && schedule(bench, &tenant[n], n, 1) == NV_OK)
		passed++;
	CHECK_EQ(passed, 1);
	CHECK_EQ(bench->verdict, CGPU_ANSWER);
	CHECK_EQ(schedule(bench, &tenant[n], n, 0), NV_OK);
	run(bench, 2 * SLICE, ran);
	CHECK_EQ(schedule(bench, &tenant[n], n, 1), NV_OK);
}

/* The transport may take a call back and make it anew: it is the same one. */
TEST_ON(scheduling_that_was_taken_back_has_not_to_wait, two_busy(2, ":1", ":1"))
{
	u32 n, tries;

	apply(bench);
	n = driver.stopped[101] ? 1 : 2;
	for (tries = 0; tries < 3; tries++) {
		bench->driver_result = -EINTR;
		CHECK_EQ(schedule(bench, &tenant[n], n, 1), -EINTR);
		CHECK_EQ(bench->verdict, CGPU_EXECUTE);
		bench->driver_result = 0;
		if (tries == 0)
			CHECK_EQ(schedule(bench, &tenant[n], n, 1), NV_OK);
	}
	CHECK_EQ(schedule(bench, &tenant[n], n, 1), NV_OK);
	schedule(bench, &tenant[n], n, 1);
	CHECK_EQ(bench->verdict, CGPU_ANSWER);
}

/* A change that the driver makes between the engine's question and its answer is not taken for the answer. */
TEST_ON(a_doubt_meanwhile_stays, two_busy(2, ":1", ":1"))
{
	u32 bytes = bench->core.abi->NVA06F_CTRL_GPFIFO_SCHEDULE_PARAMS.bytes, n;
	struct cgpu_channel_batch batch;
	struct cgpu_round turn;

	CHECK_EQ(cgpu_round(&bench->core, 0, &turn), 0);
	CHECK_EQ(cgpu_channels_next(&bench->core, 0, &batch), 0);
	CHECK_EQ(batch.disable, 1);
	n = batch.channel[0] / 100;
	CHECK_EQ(bench_control(bench, &tenant[n], 0xc000 + n, 100 * n, NVA06C_CTRL_CMD_GPFIFO_SCHEDULE, bytes), NV_OK);
	cgpu_channels_done(&bench->core, &batch, NV_OK);
	CHECK_EQ(cgpu_round(&bench->core, 0, &turn), 0);
	CHECK_EQ(turn.channels, 1);
	CHECK_EQ(cgpu_channels_next(&bench->core, 0, &batch), 0);
	CHECK_EQ(batch.channel[0], 100 * n + 1);
	cgpu_channels_done(&bench->core, &batch, NV_OK);
}

/* New channels of a container that must wait cost no other's turn. */
TEST_ON(stopping_what_is_new_prolongs_no_turn, two_busy(2, ":1", ":1"))
{
	u64 ran[16], until;
	u32 n;

	busy(bench, 3, ":1", 1);
	run(bench, 3 * SLICE, ran);
	until = apply(bench);
	while (driver.stopped[101]) {
		bench->now = until;
		until = apply(bench);
	}
	driver.takes = MS / 10;
	for (n = 0; n < 100 && !driver.stopped[101]; n++) {
		CHECK_EQ(make(bench, &tenant[2], 0xc002, 200, 210 + n, CHANNEL), NV_OK);
		apply(bench);
	}
	CHECK(n <= SLICE / driver.takes + 1);
}

/* A group that begins in others' turns may run a kernel that cannot be stopped. */
TEST_ON(beginning_in_others_turns_is_paid, two_busy(2, ":1", ":1"))
{
	s64 before;
	u64 until;

	until = apply(bench);
	while (driver.stopped[101]) {
		bench->now = until;
		until = apply(bench);
	}
	apply(bench);
	before = bench->core.state->gpu[0].share.sched.balance[1];
	driver.takes = 5 * MS;
	CHECK_EQ(schedule(bench, &tenant[2], 2, 1), NV_OK);
	apply(bench);
	CHECK(bench->core.state->gpu[0].share.sched.balance[1] <= before - (s64)(5 * MS));
}

TEST_ON(what_a_removed_container_left_stays_closed, two_busy(2, ":1", ":1"))
{
	apply(bench);
	CHECK_EQ(bench_ctl(bench, "destroy id=c1"), 0);
	CHECK_EQ(bench_ctl(bench, "destroy id=c2"), 0);
	apply(bench);
	CHECK(driver.stopped[101] && driver.stopped[201]);
}

TEST_ON(a_new_engine_tells_all_again, two_busy(2, ":1", ":2"))
{
	u64 ran[16];

	run(bench, 60 * MS, ran);
	CHECK_EQ(cgpu_state_recover(bench->core.state), 0);
	bench_invariants(bench->core.state);
	memset(driver.stopped, 0, sizeof(driver.stopped));
	run(bench, 600 * MS, ran);
	CHECK_EQ(ran[1], 200 * MS + 100 * more_beside(2));
	CHECK_EQ(ran[2], 600 * MS - ran[1]);
}

TEST_ON(without_enforcement_nothing_is_gated, two_busy(2, ":1", ":2"))
{
	u64 ran[16];

	apply(bench);
	bench_settings(bench, 0, 0);
	apply(bench);
	run(bench, 20 * MS, ran);
	CHECK_EQ(ran[1], 20 * MS);
	CHECK_EQ(ran[2], 20 * MS);
}

/* Channels that cannot be disabled or enabled: never, for a moment, or one of them. */

TEST_ON(a_driver_without_the_lever_is_told_of, two_busy(2, ":1", ":1"))
{
	u64 ran[16];

	driver.status = NV_ERR_NOT_SUPPORTED;
	run(bench, 20 * MS, ran);
	CHECK_EQ(ran[1], ran[2]);
	CHECK_EQ(driver.batches, 1);
	CHECK(strstr(bench->log, "GPU 0: the driver does not do FIFO_DISABLE_CHANNELS (status 0x56): only"));
	CHECK(bench_is(bench, "0/sched", "divided_by=nobody usage_from=none resolution=1000000000 slice=2000000\n"));
}

TEST_ON(a_failure_of_a_moment_ends_nothing, two_busy(2, ":1", ":1"))
{
	struct cgpu_channel_batch batch;
	struct cgpu_round turn;
	u64 ran[16];

	CHECK_EQ(cgpu_round(&bench->core, 0, &turn), 0);
	CHECK_EQ(cgpu_channels_next(&bench->core, 0, &batch), 0);
	cgpu_channels_done(&bench->core, &batch, CGPU_CONTROL_FAILED);
	CHECK_EQ(cgpu_channels_next(&bench->core, 0, &batch), -ENOENT);
	run(bench, 400 * MS, ran);
	CHECK_EQ(ran[1], ran[2]);
	/* The driver refuses calls that it has done before: gates go on. */
	driver.status = NV_ERR_INSUFFICIENT_PERMISSIONS;
	bench->now += SLICE;
	apply(bench);
	driver.status = NV_OK;
	run(bench, 400 * MS, ran);
	CHECK(ran[1] > 190 * MS && ran[2] > 190 * MS);
}

/*
 * No channel is changed, so no round passes: the granted container has the rest of it when channels can be set again.
 */
TEST_ON(while_gates_cannot_be_set_time_is_nobodys, two_busy(2, ":1", ":1"))
{
	u64 ran[16], first, second;
	u32 n;

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
}

/* Answer the next setting, after the round of a moment, with this status. Returns its channel; 0: none. */
static u32 tell_next(struct bench *bench, u32 status, u64 *until)
{
	struct cgpu_channel_batch batch;
	struct cgpu_round turn;
	u32 channel = 0;

	CHECK_EQ(cgpu_round(&bench->core, 0, &turn), 0);
	if (cgpu_channels_next(&bench->core, 0, &batch) == 0) {
		channel = batch.channel[0];
		CHECK_EQ(batch.count, 1);
		cgpu_channels_done(&bench->core, &batch, status);
		CHECK_EQ(cgpu_round(&bench->core, 0, &turn), 0);
	}
	*until = turn.until;
	return channel;
}

/* The channel may run on in the time of others, so it is tried again; one that has gone is not. */
TEST_ON(a_channel_that_was_not_disabled_is_tried_again, fresh(2))
{
	u64 until, failed;
	u32 channel, n;

	busy(bench, 2, ":1", 1);
	apply(bench);
	CHECK_EQ(bench_ctl(bench, "destroy id=c2"), 0);
	channel = tell_next(bench, NV_ERR_INVALID_STATE, &until);
	CHECK_EQ(channel, 201);
	for (n = 0; n < 3; n++) {
		failed = bench->now;
		CHECK(until <= failed + 100 * MS);
		CHECK_EQ(tell_next(bench, NV_OK, &until), 0);
		bench->now = failed + 100 * MS;
		CHECK_EQ(tell_next(bench, n == 2 ? NV_ERR_OBJECT_NOT_FOUND : NV_ERR_INVALID_STATE, &until), channel);
	}
	bench->now += 100 * MS;
	CHECK_EQ(tell_next(bench, NV_OK, &until), 0);
}

/* A timeslice that could not be set is tried again at once. */
TEST_ON(new_timeslices_do_not_end_the_wait_for_a_channel, fresh(2))
{
	struct cgpu_timeslice slice;
	u32 cursor = 0;
	u64 until;

	bench_settings(bench, 1, 1);
	CHECK_EQ(bench_write(bench, "0/policy", "2"), 0);
	busy(bench, 1, ":1", 1);
	busy(bench, 2, ":0", 1);
	CHECK_EQ(tell_next(bench, NV_ERR_INVALID_STATE, &until), 201);
	CHECK_EQ(bench_write(bench, "0/c1/weight", "2"), 0);
	while (tell_next(bench, NV_OK, &until))
		;
	CHECK_EQ(cgpu_timeslices_next(&bench->core, 0, 0xc002, &cursor, &slice), -ENOENT);
	bench->now += 100 * MS;
	CHECK_EQ(tell_next(bench, NV_OK, &until), 201);
}

TEST_ON(one_that_has_gone_holds_up_no_other, fresh(2))
{
	struct cgpu_channel_batch batch;
	struct cgpu_round turn;
	u32 applied = 0;

	busy(bench, 1, ":1", 6);
	busy(bench, 2, ":1", 6);
	CHECK_EQ(cgpu_round(&bench->core, 0, &turn), 0);
	while (cgpu_channels_next(&bench->core, 0, &batch) == 0) {
		CHECK(applied++ < 64);
		cgpu_channels_done(&bench->core, &batch,
			batch.count > 1 || batch.channel[0] % 100 == 3 ? NV_ERR_INVALID_OBJECT_HANDLE : NV_OK);
	}
	CHECK_EQ(applied, 7);
	CHECK(bench_is(bench, "0/sched", "divided_by=gates usage_from=gates resolution=2000000 slice=2000000\n"));
}
