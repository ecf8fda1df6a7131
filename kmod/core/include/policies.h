/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* The policies by which the time of a GPU is divided. */
#ifndef CGPU_POLICIES_H
#define CGPU_POLICIES_H

#include "cgpu_types.h"
#include "config_defaults.h"

enum cgpu_sched_policy {
	CGPU_SCHED_FAIR = 0,
	CGPU_SCHED_PREEMPTIVE = 1,
	CGPU_SCHED_WEIGHT = 2,
	CGPU_SCHED_FIXED = 3,
	CGPU_SCHED_SOFT = 4,
	CGPU_SCHED_NATIVE = 5,
	CGPU_SCHED_POLICIES,
};

/* Traits of a policy: policies.c has a row for each. */
struct cgpu_policy {
	u32 by_number; /* each container counts once, whatever its weight */
	u32 keeps_idle; /* the time of a container without work stays its own */
	u32 keeps_free; /* the time of places that no container has is nobody's */
	u32 timeslices; /* the card's own timeslices divide the time, where they can be set */
	u32 undivided; /* the driver's own scheduling: nothing is touched, and nothing owed */
	u32 heavier; /* the policy that a GPU gets with a container of a weight above 1 */
};
extern const struct cgpu_policy cgpu_policies[CGPU_SCHED_POLICIES];
extern const char *const cgpu_policy_names[CGPU_SCHED_POLICIES];
/* The policy that a GPU has once a container of this weight is on it. */
u32 cgpu_policy_for_weight(u32 policy, u32 weight);
/* The policy that a GPU had before it got one by that. */
u32 cgpu_policy_before_weight(u32 policy);

/* Whether what is set for a GPU lies within the bounds of the configuration. */
static inline int cgpu_policy_in_bounds(u32 policy, u32 max_inst, u32 prio_ratio)
{
	return policy <= CGPU_CONFIG_POLICY_MAX && max_inst >= CGPU_CONFIG_MAX_INST_MIN &&
		max_inst <= CGPU_CONFIG_MAX_INST_MAX && prio_ratio >= CGPU_CONFIG_PRIO_RATIO_MIN &&
		prio_ratio <= CGPU_CONFIG_PRIO_RATIO_MAX;
}

#endif
