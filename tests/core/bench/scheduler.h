/* SPDX-License-Identifier: Apache-2.0 */
/* Parts of the tests of a GPU's scheduler: one scheduler, and a reader of its decision. */
#ifndef CGPU_TEST_SCHED_BENCH_H
#define CGPU_TEST_SCHED_BENCH_H

#include "bench.h"
#include "sched/scheduler.h"

#define MS 1000000ull
#define SLICE CGPU_SCHED_SLICE_DEFAULT
#define SWITCH CGPU_SCHED_SWITCH

static struct cgpu_sched sched;
static struct cgpu_sched_decision decision;

static inline void start(u32 policy, u64 now)
{
	struct cgpu_sched_settings settings;

	cgpu_sched_defaults(&settings);
	settings.policy = policy;
	CHECK_EQ(cgpu_sched_init(&sched, &settings, now), 0);
}

static inline void join(u32 slot, u32 weight, u32 highprio)
{
	CHECK_EQ(cgpu_sched_join(&sched, slot, weight, highprio, 0), 0);
	CHECK_EQ(cgpu_sched_process(&sched, slot, 1, 0), 0);
}

static __attribute__((unused)) void start_two(u32 policy, u32 first_weight, u32 second_weight)
{
	start(policy, 0);
	join(0, first_weight, 0);
	join(1, second_weight, 0);
}

/* The grant of so many units, beside so many members at work with so many units, itself included. */
static inline u64 grant(u32 unit, u32 members, u32 units)
{
	return unit * SLICE + SWITCH - (u64)SWITCH * unit * members / units;
}

/* Decide now, and return whose channels may run by that. */
static inline u32 open_at(u64 now)
{
	cgpu_sched_decide(&sched, now, &decision);
	return decision.open;
}

/* From now until then the channels of this slot run, and no other's. */
static inline void turn_is(u64 now, u32 slot, u64 until)
{
	cgpu_sched_decide(&sched, now, &decision);
	CHECK_EQ(decision.grantee, slot);
	CHECK_EQ(decision.open, slot == CGPU_SCHED_NONE ? 0 : 1u << slot);
	CHECK_EQ(decision.until, until);
	CHECK_EQ(decision.gated, 1);
}

#endif
