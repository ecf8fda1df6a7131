/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* Rounds within a class, and functions that the parts of a GPU's scheduler share. */
#ifndef CGPU_SCHED_TURN_H
#define CGPU_SCHED_TURN_H

#include "sched/scheduler.h"

/* The place behind the slots: time that nobody gets. */
#define SCHED_IDLE CGPU_SCHED_SLOTS
#define SCHED_PLACES (CGPU_SCHED_SLOTS + 1)

static inline const struct cgpu_policy *core_sched_policy_of(const struct cgpu_sched *sched)
{
	return &cgpu_policies[sched->settings.policy];
}

/* Whether slots have the card in rounds, by enabling and disabling channels; else the card's timeslices divide it in
 * a class. */
static inline int core_sched_takes_rounds(const struct cgpu_sched *sched)
{
	return core_sched_policy_of(sched)->keeps_idle || !sched->settings.time_slices;
}

/* Units of a slot under the policy, whether or not it takes part; 0: it gets nothing. */
u32 core_sched_units(const struct cgpu_sched *sched, u32 slot);
void core_sched_plan(const struct cgpu_sched *sched, struct cgpu_sched_plans *plans);
/* Find the place of a class that has the grant; its plan has members. A new grant begins where the last is over;
 * *begun says so. */
u32 core_sched_grant(struct cgpu_sched *sched, u32 class, const struct cgpu_sched_plan *plan, u32 *begun);
/* Book the time since the last call. */
void core_sched_settle(struct cgpu_sched *sched, u64 now);
/* The same where the plan has one member only. */
u32 core_sched_lone(struct cgpu_sched *sched, u32 class, const struct cgpu_sched_plan *plan);
/* Change a balance within its bounds. */
void core_sched_balance(struct cgpu_sched *sched, u32 place, s64 ns);

#endif
