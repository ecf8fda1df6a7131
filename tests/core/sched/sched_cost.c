// SPDX-License-Identifier: Apache-2.0
/*
 * What the scheduler costs: for each policy the nanoseconds of one round of its caller's loop (who has work, what ran, the
 * decision), with 25 busy containers of which one has high priority and one pauses and goes on at every decision.
 */
#include <stdio.h>
#include <time.h>
#include "sched/scheduler.h"

#define ROUNDS 200000u

static double now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

static int start(struct cgpu_sched *sched, u32 policy, u32 time_slices)
{
	struct cgpu_sched_settings settings;
	u32 n;

	cgpu_sched_defaults(&settings);
	settings.policy = policy;
	settings.max_inst = CGPU_SCHED_SLOTS;
	settings.time_slices = time_slices;
	settings.slice = 1000000;
	if (cgpu_sched_init(sched, &settings, 0))
		return 1;
	for (n = 0; n < CGPU_SCHED_SLOTS; n++) {
		if (cgpu_sched_join(sched, n, 1, n == 0, 0) || cgpu_sched_process(sched, n, 1, 0))
			return 1;
	}
	return 0;
}

static double loop(struct cgpu_sched *sched)
{
	struct cgpu_sched_decision decision;
	double begin = now_ns();
	u64 now = 0;
	u32 i, n;

	for (i = 0; i < ROUNDS; i++) {
		cgpu_sched_decide(sched, now, &decision);
		now += 1000000;
		for (n = 0; n < CGPU_SCHED_SLOTS; n++)
			cgpu_sched_ran(sched, n, decision.open >> n & 1 ? 970000 : 1000, now);
		cgpu_sched_process(sched, 24, i & 1, now);
	}
	return (now_ns() - begin) / ROUNDS;
}

int main(void)
{
	static struct cgpu_sched sched;
	static const u32 modes[][2] = { { 0, 1 }, { 1, 0 }, { 1, 1 }, { 2, 1 }, { 3, 1 }, { 4, 0 }, { 4, 1 },
		{ 5, 1 } };
	size_t i;

	for (i = 0; i < sizeof(modes) / sizeof(modes[0]); i++) {
		if (start(&sched, modes[i][0], modes[i][1]))
			return 1;
		printf("policy %u time_slices %u: %.0f ns\n", modes[i][0], modes[i][1], loop(&sched));
	}
	printf("size %zu bytes\n", sizeof(sched));
	return 0;
}
