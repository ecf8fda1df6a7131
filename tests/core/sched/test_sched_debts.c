// SPDX-License-Identifier: Apache-2.0
/* What containers owe each other when their kernels run on, and how it is paid. */
#include "scheduler.h"

TEST(overruns_change_hands)
{
	start(CGPU_SCHED_WEIGHT, 0);
	join(0, 1, 0);
	join(1, 1, 0);
	turn_is(0, 0, SLICE);
	turn_is(SLICE, 1, 2 * SLICE);
	/* A kernel of slot 0 kept the card for three quarters of that. */
	CHECK_EQ(cgpu_sched_ran(&sched, 0, SLICE * 3 / 4, 2 * SLICE), 0);
	turn_is(2 * SLICE, 1, 2 * SLICE + SLICE * 3 / 4);
	turn_is(2 * SLICE + SLICE * 3 / 4, 0, 3 * SLICE);
	turn_is(3 * SLICE, 1, 4 * SLICE);
	CHECK_EQ(sched.slot[0].granted, 2 * SLICE);
	CHECK_EQ(sched.slot[1].granted, SLICE);
	/* More than the turn had is not given back. */
	CHECK_EQ(cgpu_sched_ran(&sched, 0, 40 * SLICE, 3 * SLICE + MS), 0);
	turn_is(3 * SLICE + MS, 1, 4 * SLICE + MS);
	CHECK_EQ(cgpu_sched_ran(&sched, 0, SLICE, 3 * SLICE + MS), 0);
	turn_is(3 * SLICE + MS, 1, 4 * SLICE + MS);
	/* Time of its own turn is counted, and changes nothing. */
	CHECK_EQ(cgpu_sched_ran(&sched, 1, SLICE, 3 * SLICE + 2 * MS), 0);
	turn_is(3 * SLICE + 2 * MS, 1, 4 * SLICE + MS);
}

TEST(debts_end)
{
	u64 now = 0;
	u32 n;

	start(CGPU_SCHED_WEIGHT, 0);
	join(0, 1, 0);
	join(1, 1, 0);
	cgpu_sched_decide(&sched, 0, &decision);
	/* Everybody owes: the rounds in which nobody has anything are passed over. */
	CHECK_EQ(cgpu_sched_ran(&sched, 1, ~0ull, 0), 0);
	CHECK_EQ(sched.balance[1], -(s64)CGPU_SCHED_DEBT_MAX);
	CHECK_EQ(cgpu_sched_ran(&sched, 1, 1, 0), 0);
	CHECK_EQ(sched.balance[1], -(s64)CGPU_SCHED_DEBT_MAX);
	cgpu_sched_decide(&sched, ~0ull - 30000 * MS, &decision);
	CHECK_EQ(sched.balance[0] > 0, decision.grantee == 0);
	CHECK(decision.until > ~0ull - 30000 * MS);
	now = decision.until;
	for (n = 0; n < 4; n++) {
		cgpu_sched_decide(&sched, now, &decision);
		CHECK(decision.until > now && decision.until <= now + SLICE);
		now = decision.until;
	}
	/* At the end of time nothing runs over. */
	cgpu_sched_decide(&sched, ~0ull, &decision);
	CHECK_EQ(decision.until, CGPU_SCHED_FOREVER);
	CHECK_EQ(cgpu_sched_ran(&sched, 1, ~0ull, ~0ull), 0);
	CHECK_EQ(sched.slot[1].ran, ~0ull);
}

/* The rounds in which nobody has anything to give are passed over, and the proportion of what is owed stays. */
TEST(all_may_owe)
{
	start(CGPU_SCHED_WEIGHT, 0);
	join(0, 1, 0);
	join(1, 2, 0);
	join(2, 1, 1);
	CHECK_EQ(cgpu_sched_process(&sched, 2, 0, 0), 0);
	cgpu_sched_decide(&sched, 0, &decision);
	CHECK_EQ(decision.grantee, 0);
	CHECK_EQ(cgpu_sched_ran(&sched, 1, 100 * SLICE, 0), 0);
	CHECK_EQ(cgpu_sched_ran(&sched, 2, 5 * SLICE, 0), 0);
	cgpu_sched_decide(&sched, 71 * SLICE, &decision);
	/* Slot 1 owes 100 slices and gets two a round; slot 0 owes 70 and gets one. */
	CHECK_EQ(decision.grantee, 1);
	CHECK_EQ(decision.until, 73 * SLICE);
	CHECK_EQ(sched.balance[0], -20 * (s64)SLICE);
	CHECK_EQ(sched.balance[2], -5 * (s64)SLICE);
}

/* Two take part in time that is not held; a third owes, and is away. */
TEST(who_is_away_pays_off)
{
	u64 now;

	start(CGPU_SCHED_PREEMPTIVE, 0);
	sched.settings.time_slices = 0;
	join(0, 1, 0);
	join(1, 1, 0);
	join(2, 1, 0);
	turn_is(0, 0, SLICE);
	CHECK_EQ(cgpu_sched_ran(&sched, 2, 3 * SLICE, 0), 0);
	CHECK_EQ(cgpu_sched_process(&sched, 2, 0, 0), 0);
	for (now = 0; now < 4 * SLICE; now += SLICE) {
		cgpu_sched_decide(&sched, now, &decision);
		CHECK_EQ(decision.open, (1u << (now / SLICE % 2)) | 4);
	}
	CHECK_EQ(sched.balance[2], -2 * (s64)SLICE);
	cgpu_sched_decide(&sched, 4 * SLICE, &decision);
	CHECK_EQ(sched.balance[2], -(s64)SLICE);
	/* Who pauses in its turn has no more of it. */
	CHECK_EQ(decision.grantee, 0);
	CHECK_EQ(cgpu_sched_process(&sched, 0, 0, 4 * SLICE + MS), 0);
	cgpu_sched_decide(&sched, 4 * SLICE + MS, &decision);
	CHECK_EQ(decision.grantee, 1);
	CHECK_EQ(cgpu_sched_process(&sched, 0, 1, 4 * SLICE + MS), 0);
	cgpu_sched_decide(&sched, 4 * SLICE + MS, &decision);
	CHECK_EQ(decision.grantee, 1);
	for (now = 6 * SLICE; now < 12 * SLICE; now += SLICE)
		cgpu_sched_decide(&sched, now, &decision);
	CHECK_EQ(sched.balance[2], 0);
	/* Nobody has work: whoever starts may. */
	CHECK_EQ(cgpu_sched_process(&sched, 0, 0, now), 0);
	CHECK_EQ(cgpu_sched_process(&sched, 1, 0, now), 0);
	cgpu_sched_decide(&sched, now, &decision);
	CHECK_EQ(decision.gated, 0);
	CHECK_EQ(decision.open, 7);
	CHECK_EQ(decision.until, CGPU_SCHED_FOREVER);
}

TEST(the_last_one_pays_off_alone)
{
	start(CGPU_SCHED_WEIGHT, 0);
	join(0, 1, 0);
	join(1, 1, 0);
	turn_is(0, 0, SLICE);
	turn_is(SLICE, 1, 2 * SLICE);
	CHECK_EQ(cgpu_sched_ran(&sched, 0, 4 * SLICE, SLICE), 0);
	CHECK_EQ(cgpu_sched_leave(&sched, 1, SLICE), 0);
	cgpu_sched_decide(&sched, SLICE, &decision);
	CHECK_EQ(decision.gated, 0);
	CHECK_EQ(sched.balance[0], -3 * (s64)SLICE);
	cgpu_sched_decide(&sched, 3 * SLICE, &decision);
	CHECK_EQ(sched.balance[0], -1 * (s64)SLICE);
	cgpu_sched_decide(&sched, 9 * SLICE, &decision);
	CHECK_EQ(sched.balance[0], 0);
	CHECK_EQ(cgpu_sched_join(&sched, 1, 1, 0, 9 * SLICE), 0);
	turn_is(9 * SLICE, 1, 10 * SLICE);
	/* Who has just begun its turn when the others go keeps it when they come again. */
	turn_is(10 * SLICE, 0, 11 * SLICE);
	CHECK_EQ(cgpu_sched_leave(&sched, 0, 11 * SLICE - 1), 0);
	cgpu_sched_decide(&sched, 11 * SLICE - 1, &decision);
	CHECK_EQ(decision.gated, 0);
	CHECK_EQ(cgpu_sched_join(&sched, 0, 1, 0, 11 * SLICE), 0);
	turn_is(11 * SLICE, 1, 12 * SLICE - 1);
}

TEST(classes_owe_each_other)
{
	start(CGPU_SCHED_PREEMPTIVE, 0);
	join(0, 1, 1);
	join(1, 1, 0);
	cgpu_sched_decide(&sched, 0, &decision);
	CHECK_EQ(decision.open, 2);
	cgpu_sched_decide(&sched, SLICE, &decision);
	CHECK_EQ(decision.open, 1);
	/* The other one's kernel had half of that. */
	CHECK_EQ(cgpu_sched_ran(&sched, 1, SLICE / 2, 2 * SLICE), 0);
	CHECK_EQ(sched.lag, (s64)(80 * SLICE - 20 * SLICE + 50 * SLICE));
	cgpu_sched_decide(&sched, 2 * SLICE, &decision);
	CHECK_EQ(decision.open, 1);
	/* The other way round. */
	CHECK_EQ(cgpu_sched_change(&sched, 0, 1, 0, 2 * SLICE), 0);
	CHECK_EQ(cgpu_sched_change(&sched, 1, 1, 1, 2 * SLICE), 0);
	CHECK_EQ(cgpu_sched_process(&sched, 1, 0, 2 * SLICE), 0);
	cgpu_sched_decide(&sched, 2 * SLICE, &decision);
	cgpu_sched_decide(&sched, 3 * SLICE, &decision);
	CHECK_EQ(sched.lag, 0);
	CHECK_EQ(cgpu_sched_ran(&sched, 1, ~0ull, 3 * SLICE), 0);
	CHECK_EQ(sched.lag, -100 * (s64)CGPU_SCHED_DEBT_MAX);
	CHECK_EQ(cgpu_sched_ran(&sched, 1, 1, 3 * SLICE), 0);
	CHECK_EQ(sched.lag, -100 * (s64)CGPU_SCHED_DEBT_MAX);
	CHECK_EQ(cgpu_sched_process(&sched, 1, 1, 3 * SLICE), 0);
	cgpu_sched_decide(&sched, 3 * SLICE + 9 * SLICE, &decision);
	CHECK_EQ(decision.open, 1);
}

TEST(alone_the_high_class_is_no_longer_behind)
{
	start(CGPU_SCHED_PREEMPTIVE, 0);
	join(0, 1, 1);
	join(1, 1, 0);
	cgpu_sched_decide(&sched, 0, &decision);
	CHECK_EQ(cgpu_sched_process(&sched, 1, 0, SLICE), 0);
	CHECK_EQ(sched.lag, (s64)(80 * SLICE));
	cgpu_sched_decide(&sched, SLICE, &decision);
	cgpu_sched_decide(&sched, 2 * SLICE, &decision);
	CHECK_EQ(sched.lag, (s64)(60 * SLICE));
	cgpu_sched_decide(&sched, 9 * SLICE, &decision);
	CHECK_EQ(sched.lag, 0);
	/* A kernel of the low class that runs then takes nothing that was asked for. */
	CHECK_EQ(cgpu_sched_ran(&sched, 1, MS, 9 * SLICE), 0);
	CHECK_EQ(sched.lag, 0);
	sched.lag = 100 * (s64)CGPU_SCHED_DEBT_MAX;
	CHECK_EQ(cgpu_sched_process(&sched, 1, 1, 9 * SLICE), 0);
	cgpu_sched_decide(&sched, 9 * SLICE, &decision);
	CHECK_EQ(cgpu_sched_ran(&sched, 1, SLICE, 10 * SLICE), 0);
	CHECK_EQ(sched.lag, 100 * (s64)CGPU_SCHED_DEBT_MAX);
}
