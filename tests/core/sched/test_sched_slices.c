// SPDX-License-Identifier: Apache-2.0
/* Time slices of channel groups, as the hardware has them. */
#include "scheduler.h"

static struct cgpu_sched_timeslice slices[CGPU_SCHED_SLOTS];
static u32 groups[CGPU_SCHED_SLOTS];

static void start_with(u32 policy, u32 time_slices, u64 slice)
{
	start(policy, 0);
	sched.settings.time_slices = time_slices;
	sched.settings.slice = slice;
	memset(groups, 0, sizeof(groups));
}

static void join_with(u32 slot, u32 weight, u32 active)
{
	CHECK_EQ(cgpu_sched_join(&sched, slot, weight, 0, 0), 0);
	groups[slot] = active;
}

/* The hardware's form is 8 bits and a shift by up to 15, in units of 1024 ns. */
TEST(the_nearest_slice_is_taken)
{
	struct cgpu_sched_timeslice slice;
	u64 ns;

	for (ns = 1; ns < 100000000000ull; ns = ns * 17 / 16 + 1) {
		u64 error, units;

		cgpu_sched_quantise(ns, &slice);
		CHECK_EQ(slice.ns, slice.us * 1024);
		for (units = slice.us; units > 255; units /= 2)
			CHECK_EQ(units % 2, 0);
		CHECK(slice.us >= 1 && slice.us <= 255u << 15);
		error = slice.ns > ns ? slice.ns - ns : ns - slice.ns;
		if (ns > 128 * 1024 && ns <= (255ull << 15) * 1024)
			CHECK(error * 255 <= ns);
		else if (ns <= 128 * 1024)
			CHECK(error <= 1024);
	}
	cgpu_sched_quantise(0, &slice);
	CHECK_EQ(slice.us, 1);
	cgpu_sched_quantise(~0ull, &slice);
	CHECK_EQ(slice.us, 255u << 15);
	cgpu_sched_quantise(1024 * 1024, &slice);
	CHECK_EQ(slice.us, 1024);
	/* Just below the next shift it is rounded up into that. */
	cgpu_sched_quantise(511 * 1024 + 512, &slice);
	CHECK_EQ(slice.us, 512);
}

TEST(slices_follow_the_policy)
{
	start_with(CGPU_SCHED_SOFT, 1, 2000000);
	join_with(0, 1, 1);
	join_with(1, 2, 1);
	join_with(2, 0, 1);
	join_with(3, 4, 0);
	CHECK_EQ(cgpu_sched_timeslices(&sched, groups, slices), 0);
	CHECK_EQ(slices[0].us, 1952);
	CHECK_EQ(slices[1].us, 2 * 1952);
	CHECK_EQ(slices[2].us, 0);
	CHECK_EQ(slices[3].us, 0);
	CHECK_EQ(slices[4].us, 0);
	sched.settings.policy = CGPU_SCHED_PREEMPTIVE;
	CHECK_EQ(cgpu_sched_timeslices(&sched, groups, slices), 0);
	CHECK_EQ(slices[1].us, 1952);
	groups[3] = CGPU_SCHED_GROUPS_MAX + 1;
	CHECK_EQ(cgpu_sched_timeslices(&sched, groups, slices), -EINVAL);
}

TEST(other_policies_leave_them)
{
	u32 policy;

	for (policy = 0; policy < 6; policy++) {
		start_with(policy, 0, 2000000);
		join_with(0, 1, 1);
		CHECK_EQ(cgpu_sched_timeslices(&sched, groups, slices), 0);
		CHECK_EQ(slices[0].us, 0);
		sched.settings.time_slices = 1;
		CHECK_EQ(cgpu_sched_timeslices(&sched, groups, slices), 0);
		CHECK_EQ(slices[0].us != 0, policy == CGPU_SCHED_PREEMPTIVE || policy == CGPU_SCHED_SOFT);
	}
}

/* The slices of any number of groups add up to no more than one group's, but for that one's rounding. */
TEST(many_groups_are_no_larger_share)
{
	u64 slice;
	u32 many, weight;

	for (slice = CGPU_SCHED_SLICE_MIN; slice <= CGPU_SCHED_SLICE_MAX; slice *= 10) {
		for (weight = 1; weight <= 25; weight += 8) {
			for (many = 1; many <= CGPU_SCHED_GROUPS_MAX; many = many * 3 / 2 + 1) {
				u64 mine, other;

				start_with(CGPU_SCHED_SOFT, 1, slice);
				join_with(0, weight, many);
				join_with(1, 1, 1);
				CHECK_EQ(cgpu_sched_timeslices(&sched, groups, slices), 0);
				mine = slices[0].ns * many;
				other = slices[1].ns * weight;
				CHECK(mine <= other + other / 128);
				/* Nor is it much smaller, where the parts are not. */
				if (many <= 8)
					CHECK(mine >= other - other / 50);
			}
		}
	}
}

/* Small parts cost switches: everybody's slice becomes longer, within bounds. */
TEST(small_parts_are_stretched)
{
	start_with(CGPU_SCHED_PREEMPTIVE, 1, 2000000);
	join_with(0, 1, 16);
	join_with(1, 1, 1);
	CHECK_EQ(cgpu_sched_timeslices(&sched, groups, slices), 0);
	CHECK(slices[0].us >= 256);
	CHECK(slices[1].ns > 2000000 && slices[1].ns <= 6010000);
	groups[0] = CGPU_SCHED_GROUPS_MAX;
	CHECK_EQ(cgpu_sched_timeslices(&sched, groups, slices), 0);
	CHECK(slices[1].ns <= 51000000);
	CHECK(slices[0].us >= 1);
}

/* The bound on a pass gives way where a part would be less than the hardware has. */
TEST(no_part_is_less_than_a_unit)
{
	u32 n;

	start_with(CGPU_SCHED_PREEMPTIVE, 1, 1000000);
	for (n = 0; n < CGPU_SCHED_SLOTS; n++)
		join_with(n, 1, n ? 1 : CGPU_SCHED_GROUPS_MAX);
	CHECK_EQ(cgpu_sched_timeslices(&sched, groups, slices), 0);
	CHECK_EQ(slices[0].us, 1);
	CHECK(slices[0].ns * CGPU_SCHED_GROUPS_MAX <= slices[24].ns);
}
