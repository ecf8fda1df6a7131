// SPDX-License-Identifier: Apache-2.0
/* The scheduler of one GPU: its settings, and its turns. */
#include "scheduler.h"

TEST(settings_are_checked)
{
	struct cgpu_sched_settings good, bad;

	start(CGPU_SCHED_WEIGHT, 0);
	cgpu_sched_defaults(&good);
	CHECK_EQ(good.policy, 1);
	CHECK_EQ(good.max_inst, 20);
	CHECK_EQ(good.prio_ratio, 80);
#define REFUSED(field, value)                                \
	bad = good;                                          \
	bad.field = (value);                                 \
	CHECK_EQ(cgpu_sched_set(&sched, &bad, 0), -EINVAL);  \
	CHECK_EQ(cgpu_sched_init(&sched, &bad, 0), -EINVAL); \
	CHECK_EQ(sched.settings.policy, CGPU_SCHED_WEIGHT)
	REFUSED(policy, 6);
	REFUSED(max_inst, 0);
	REFUSED(max_inst, 26);
	REFUSED(prio_ratio, 19);
	REFUSED(prio_ratio, 100);
	REFUSED(time_slices, 2);
	REFUSED(slice, CGPU_SCHED_SLICE_MIN - 1);
	REFUSED(slice, CGPU_SCHED_SLICE_MAX + 1);
	good.slice = CGPU_SCHED_SLICE_MAX;
	CHECK_EQ(cgpu_sched_set(&sched, &good, 0), 0);
	CHECK_EQ(sched.settings.policy, CGPU_SCHED_PREEMPTIVE);
}

TEST(slots_are_checked)
{
	start(CGPU_SCHED_WEIGHT, 0);
	CHECK_EQ(cgpu_sched_join(&sched, 25, 1, 0, 0), -EINVAL);
	CHECK_EQ(cgpu_sched_join(&sched, ~0u, 1, 0, 0), -EINVAL);
	CHECK_EQ(cgpu_sched_join(&sched, 0, 26, 0, 0), -EINVAL);
	CHECK_EQ(cgpu_sched_join(&sched, 0, 1, 2, 0), -EINVAL);
	CHECK_EQ(cgpu_sched_leave(&sched, 0, 0), -EINVAL);
	CHECK_EQ(cgpu_sched_process(&sched, 0, 1, 0), -EINVAL);
	CHECK_EQ(cgpu_sched_ran(&sched, 0, 1, 0), -EINVAL);
	CHECK_EQ(cgpu_sched_change(&sched, 0, 1, 0, 0), -EINVAL);
	join(24, 25, 1);
	CHECK_EQ(cgpu_sched_join(&sched, 24, 1, 0, 0), -EEXIST);
	CHECK_EQ(cgpu_sched_change(&sched, 24, 26, 0, 0), -EINVAL);
	CHECK_EQ(cgpu_sched_change(&sched, 24, 1, 2, 0), -EINVAL);
	CHECK_EQ(cgpu_sched_leave(&sched, 25, 0), -EINVAL);
	CHECK_EQ(cgpu_sched_leave(&sched, 24, 0), 0);
	CHECK_EQ(sched.slot[24].joined, 0);
}

TEST(a_place_is_handed_on_without_a_debt)
{
	start_two(CGPU_SCHED_WEIGHT, 4, 1);
	turn_is(0, 0, grant(4, 2, 5));
	CHECK_EQ(cgpu_sched_leave(&sched, 0, SLICE), 0);
	CHECK_EQ(cgpu_sched_join(&sched, 0, 1, 0, SLICE), 0);
	CHECK_EQ(cgpu_sched_process(&sched, 0, 1, 3 * SLICE), 0);
	CHECK_EQ(sched.balance[0], 0);
	CHECK_EQ(sched.slot[0].granted, 0);
	turn_is(3 * SLICE, 1, 4 * SLICE);
	turn_is(4 * SLICE, 0, 5 * SLICE);
}

TEST(turns_go_round_by_weight)
{
	const u64 two = grant(2, 2, 3), one = grant(1, 2, 3), round = two + one;

	start(CGPU_SCHED_WEIGHT, 0);
	join(0, 2, 0);
	join(9, 1, 0);
	turn_is(0, 0, two);
	turn_is(SLICE, 0, two);
	turn_is(two, 9, round);
	turn_is(round, 0, round + two);
	/* A later time does not go back. */
	turn_is(SLICE, 0, round + two);
	/* A caller that comes late has given the time away, and takes it from the next turns. */
	turn_is(round + 3 * two, 9, 2 * round + 2 * two);
	turn_is(2 * round + 2 * two, 9, 3 * round + two);
	turn_is(3 * round + two, 9, 4 * round);
	turn_is(4 * round, 0, 4 * round + two);
	CHECK_EQ(sched.slot[0].granted, 4 * two);
}

/* During the switches of a round the card works for no container: the rest of the round goes by weight. */
TEST(switches_are_paid_by_weight)
{
	start_two(CGPU_SCHED_WEIGHT, 1, 4);
	join(2, 3, 0);
	turn_is(0, 0, grant(1, 3, 8));
	CHECK_EQ(4 * (grant(1, 3, 8) - SWITCH), grant(4, 3, 8) - SWITCH);
	turn_is(grant(1, 3, 8), 1, grant(1, 3, 8) + grant(4, 3, 8));
	turn_is(grant(1, 3, 8) + grant(4, 3, 8), 2, 8 * SLICE);
	/* The card does not switch to a container without work. */
	CHECK_EQ(cgpu_sched_process(&sched, 1, 0, 8 * SLICE), 0);
	turn_is(8 * SLICE, 0, 8 * SLICE + grant(1, 2, 4));
	cgpu_sched_decide(&sched, 8 * SLICE + grant(1, 2, 4), &decision);
	CHECK_EQ(decision.until, 12 * SLICE + grant(1, 2, 4));
}

/* The estimate of a switch does not outweigh the units of a short slice. */
TEST(a_switch_counts_for_an_eighth_of_a_slice)
{
	const u64 slice = CGPU_SCHED_SLICE_MIN;

	start_two(CGPU_SCHED_WEIGHT, 1, 4);
	sched.settings.slice = slice;
	turn_is(0, 0, slice + slice / 8 - slice / 8 * 2 / 5);
}

/* A newcomer has its first grant within a round: it does not wait for time of its own that was nobody's before. */
TEST(a_newcomer_has_its_grant_within_a_round)
{
	start(CGPU_SCHED_FIXED, 0);
	sched.settings.max_inst = 10;
	join(0, 2, 0);
	turn_is(0, 0, 2 * SLICE);
	turn_is(2 * SLICE, CGPU_SCHED_NONE, 10 * SLICE);
	join(1, 8, 0);
	turn_is(2 * SLICE, 0, 2 * SLICE + grant(2, 2, 10));
	turn_is(2 * SLICE + grant(2, 2, 10), 1, 12 * SLICE);
	CHECK_EQ(cgpu_sched_leave(&sched, 1, 12 * SLICE), 0);
	turn_is(12 * SLICE, CGPU_SCHED_NONE, 20 * SLICE);
	CHECK_EQ(cgpu_sched_join(&sched, 1, 1, 0, 12 * SLICE), 0);
	CHECK_EQ(cgpu_sched_process(&sched, 1, 1, 12 * SLICE), 0);
	turn_is(12 * SLICE, CGPU_SCHED_NONE, 19 * SLICE);
	/* The part of that time that has passed was nobody's, and is not taken off the rest. */
	CHECK_EQ(cgpu_sched_join(&sched, 2, 1, 0, 16 * SLICE), 0);
	CHECK_EQ(cgpu_sched_process(&sched, 2, 1, 16 * SLICE), 0);
	turn_is(16 * SLICE, CGPU_SCHED_NONE, 19 * SLICE);
	turn_is(19 * SLICE, 0, 19 * SLICE + grant(2, 3, 4));
}

TEST(unused_parts_are_nobodys)
{
	start(CGPU_SCHED_FIXED, 0);
	join(3, 5, 0);
	turn_is(0, 3, 5 * SLICE);
	turn_is(5 * SLICE, CGPU_SCHED_NONE, 20 * SLICE);
	turn_is(20 * SLICE, 3, 25 * SLICE);
	/* A run in nobody's time shortens the container's next turns. */
	turn_is(25 * SLICE, CGPU_SCHED_NONE, 40 * SLICE);
	CHECK_EQ(cgpu_sched_ran(&sched, 3, 7 * SLICE, 40 * SLICE), 0);
	turn_is(40 * SLICE, CGPU_SCHED_NONE, 47 * SLICE);
	turn_is(47 * SLICE, CGPU_SCHED_NONE, 62 * SLICE);
	turn_is(62 * SLICE, 3, 65 * SLICE);
	CHECK_EQ(sched.slot[3].ran, 7 * SLICE);
}

TEST(what_is_left_of_a_turn_is_no_credit)
{
	const u64 more = SLICE / 8 + SWITCH;
	struct cgpu_sched_settings settings;

	start_two(CGPU_SCHED_WEIGHT, 8, 1);
	turn_is(0, 0, grant(8, 2, 9));
	/* A smaller weight ends the turn sooner; a part of a slice more is the most that stays. */
	CHECK_EQ(cgpu_sched_change(&sched, 0, 1, 0, SLICE), 0);
	turn_is(SLICE, 0, 2 * SLICE + more);
	settings = sched.settings;
	settings.policy = CGPU_SCHED_FIXED;
	CHECK_EQ(cgpu_sched_set(&sched, &settings, 2 * SLICE), 0);
	turn_is(2 * SLICE, 0, 2 * SLICE + more);
	turn_is(2 * SLICE + more, 1, 3 * SLICE + more);
	turn_is(3 * SLICE + more, CGPU_SCHED_NONE, 21 * SLICE + more);
	/* So with a change of class. */
	turn_is(21 * SLICE + more, 0, 22 * SLICE + more);
	CHECK_EQ(cgpu_sched_change(&sched, 0, 1, 1, 21 * SLICE + more), 0);
	CHECK_EQ(sched.balance[0], 0);
}

/* The rest of the turn is neither lost nor more than a turn of the new policy. */
TEST(a_turn_outlasts_a_change_of_policy)
{
	struct cgpu_sched_settings weight, fair;

	start_two(CGPU_SCHED_WEIGHT, 4, 4);
	weight = fair = sched.settings;
	fair.policy = CGPU_SCHED_FAIR;
	turn_is(0, 0, 4 * SLICE);
	CHECK_EQ(cgpu_sched_set(&sched, &fair, 3 * SLICE), 0);
	turn_is(3 * SLICE, 0, 4 * SLICE);
	CHECK_EQ(cgpu_sched_set(&sched, &weight, 3 * SLICE), 0);
	turn_is(3 * SLICE, 0, 4 * SLICE);
	turn_is(4 * SLICE, 1, 8 * SLICE);
	/* A longer one ends with a turn of the new policy. */
	CHECK_EQ(cgpu_sched_set(&sched, &fair, 4 * SLICE), 0);
	turn_is(4 * SLICE, 1, 5 * SLICE + SLICE / 8 + SWITCH);
	turn_is(5 * SLICE + SLICE / 8 + SWITCH, CGPU_SCHED_NONE, 23 * SLICE + SLICE / 8 + SWITCH);
	/* Time without an owner is not kept for any container. */
	CHECK_EQ(cgpu_sched_set(&sched, &weight, 6 * SLICE), 0);
	turn_is(6 * SLICE, 0, 10 * SLICE);
}

TEST(a_pause_ends_the_turn)
{
	u64 now = SLICE / 4;
	u32 n;

	start(CGPU_SCHED_PREEMPTIVE, 0);
	sched.settings.time_slices = 0;
	for (n = 0; n < 3; n++)
		join(n, 1, 0);
	turn_is(0, 0, SLICE);
	CHECK_EQ(cgpu_sched_process(&sched, 0, 0, now), 0);
	cgpu_sched_decide(&sched, now, &decision);
	CHECK_EQ(cgpu_sched_process(&sched, 0, 1, now), 0);
	/* The container comes back at once, and to no more than the others have. */
	turn_is(now, 1, now + SLICE);
	turn_is(now + SLICE, 2, now + 2 * SLICE);
	turn_is(now + 2 * SLICE, 0, now + 3 * SLICE);
	turn_is(now + 3 * SLICE, 1, now + 4 * SLICE);
}

/* One low container at a time: a slice is too short to be divided by the card. */
TEST(priority_takes_turns_where_the_card_divides)
{
	u64 now;
	u32 n, seen = 0;

	start(CGPU_SCHED_SOFT, 0);
	sched.settings.prio_ratio = 20;
	for (n = 0; n < 4; n++)
		join(n, 1, n == 3);
	CHECK_EQ(cgpu_sched_process(&sched, 3, 0, 0), 0);
	cgpu_sched_decide(&sched, 0, &decision);
	CHECK_EQ(decision.gated, 0);
	CHECK_EQ(cgpu_sched_process(&sched, 3, 1, SLICE), 0);
	for (now = SLICE; now < 16 * SLICE; now += SLICE) {
		cgpu_sched_decide(&sched, now, &decision);
		CHECK_EQ(decision.until, now + SLICE);
		CHECK_EQ(decision.open, 1u << decision.grantee);
		seen += 1u << (8 * decision.grantee);
	}
	CHECK_EQ(seen, 0x03040404);
	CHECK_EQ(cgpu_sched_process(&sched, 3, 0, now), 0);
	cgpu_sched_decide(&sched, now, &decision);
	CHECK_EQ(decision.gated, 0);
}

TEST(native_forgets)
{
	struct cgpu_sched_settings settings;

	start(CGPU_SCHED_WEIGHT, 0);
	join(0, 1, 0);
	join(1, 0, 1);
	settings = sched.settings;
	settings.policy = CGPU_SCHED_NATIVE;
	cgpu_sched_decide(&sched, 0, &decision);
	CHECK_EQ(decision.gated, 1);
	CHECK_EQ(decision.open, 1);
	CHECK_EQ(cgpu_sched_ran(&sched, 1, MS, MS), 0);
	CHECK_EQ(sched.balance[1], -(s64)MS);
	CHECK_EQ(cgpu_sched_set(&sched, &settings, MS), 0);
	cgpu_sched_decide(&sched, MS, &decision);
	CHECK_EQ(decision.gated, 0);
	CHECK_EQ(decision.open, 3);
	CHECK_EQ(sched.balance[1], 0);
	CHECK_EQ(cgpu_sched_ran(&sched, 1, MS, 2 * MS), 0);
	CHECK_EQ(sched.balance[1], 0);
	CHECK_EQ(sched.slot[1].ran, 2 * MS);
}

/* Debts of containers whose kernels run on, and how they are paid. */

TEST(overruns_change_hands)
{
	start_two(CGPU_SCHED_WEIGHT, 1, 1);
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

	start_two(CGPU_SCHED_WEIGHT, 1, 1);
	cgpu_sched_decide(&sched, 0, &decision);
	/* All containers owe: rounds without a grant are passed over. */
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

/* Rounds without a grant are passed over, and the proportion of debts stays. */
TEST(all_may_owe)
{
	start_two(CGPU_SCHED_WEIGHT, 1, 2);
	join(2, 1, 1);
	CHECK_EQ(cgpu_sched_process(&sched, 2, 0, 0), 0);
	cgpu_sched_decide(&sched, 0, &decision);
	CHECK_EQ(decision.grantee, 0);
	CHECK_EQ(cgpu_sched_ran(&sched, 1, 100 * SLICE, 0), 0);
	CHECK_EQ(cgpu_sched_ran(&sched, 2, 5 * SLICE, 0), 0);
	cgpu_sched_decide(&sched, 71 * SLICE, &decision);
	/* Slot 1 owes 100 slices and gets two a round; slot 0 owes 70 and gets one. */
	CHECK_EQ(decision.grantee, 1);
	CHECK_EQ(decision.until, 71 * SLICE + 51 * grant(2, 2, 3) - 100 * SLICE);
	CHECK_EQ(sched.balance[0], (s64)(51 * grant(1, 2, 3)) - 71 * (s64)SLICE);
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
		CHECK_EQ(open_at(now), (1u << (now / SLICE % 2)) | 4);
	}
	CHECK_EQ(sched.balance[2], -2 * (s64)SLICE);
	cgpu_sched_decide(&sched, 4 * SLICE, &decision);
	CHECK_EQ(sched.balance[2], -(s64)SLICE);
	/* A container that pauses in its turn has no more of it. */
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
	/* No container has work: the first that starts may run. */
	CHECK_EQ(cgpu_sched_process(&sched, 0, 0, now), 0);
	CHECK_EQ(cgpu_sched_process(&sched, 1, 0, now), 0);
	cgpu_sched_decide(&sched, now, &decision);
	CHECK_EQ(decision.gated, 0);
	CHECK_EQ(decision.open, 7);
	CHECK_EQ(decision.until, CGPU_SCHED_FOREVER);
}

TEST(the_last_one_pays_off_alone)
{
	start_two(CGPU_SCHED_WEIGHT, 1, 1);
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
	/* A container that has just begun its turn when the others go keeps it when they come again. */
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
	CHECK_EQ(open_at(0), 2);
	CHECK_EQ(open_at(SLICE), 1);
	/* The other one's kernel had half of that. */
	CHECK_EQ(cgpu_sched_ran(&sched, 1, SLICE / 2, 2 * SLICE), 0);
	CHECK_EQ(sched.lag, (s64)(80 * SLICE - 20 * SLICE + 50 * SLICE));
	CHECK_EQ(open_at(2 * SLICE), 1);
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
	CHECK_EQ(open_at(3 * SLICE + 9 * SLICE), 1);
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
