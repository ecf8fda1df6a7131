// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
/* The policies by which GPU time is divided: a row of traits for each. docs/scheduling.md says what each promises. */
#include "policies.h"

_Static_assert(CGPU_SCHED_POLICIES == CGPU_CONFIG_POLICY_MAX + 1, "the configuration takes each of them");

/* cgpu/config/schema.json names them. */
const char *const cgpu_policy_names[CGPU_SCHED_POLICIES] = { CGPU_CONFIG_POLICY_NAMES };

const struct cgpu_policy cgpu_policies[CGPU_SCHED_POLICIES] = {
	[CGPU_SCHED_FAIR] = { .by_number = 1, .keeps_idle = 1, .keeps_free = 1, .heavier = CGPU_SCHED_FAIR },
	[CGPU_SCHED_PREEMPTIVE] = { .by_number = 1, .timeslices = 1, .heavier = CGPU_SCHED_WEIGHT },
	[CGPU_SCHED_WEIGHT] = { .keeps_idle = 1, .heavier = CGPU_SCHED_WEIGHT },
	[CGPU_SCHED_FIXED] = { .keeps_idle = 1, .keeps_free = 1, .heavier = CGPU_SCHED_FIXED },
	[CGPU_SCHED_SOFT] = { .timeslices = 1, .heavier = CGPU_SCHED_SOFT },
	[CGPU_SCHED_NATIVE] = { .undivided = 1, .heavier = CGPU_SCHED_NATIVE },
};

u32 cgpu_policy_for_weight(u32 policy, u32 weight)
{
	return weight > 1 ? cgpu_policies[policy].heavier : policy;
}

u32 cgpu_policy_before_weight(u32 policy)
{
	u32 i;

	for (i = 0; i < CGPU_SCHED_POLICIES; i++) {
		if (i != policy && cgpu_policies[i].heavier == policy)
			return i;
	}
	return policy;
}
