/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Between registry and ledger on one side and the scheduler of each GPU (scheduler.h) on the other. All is called under the
 * lock, after the record has changed.
 */
#ifndef CGPU_SCHED_H
#define CGPU_SCHED_H

#include "state/state.h"

/* --- follow.c --- */

/* A GPU is new, or found again by recovery with the instances that it has. Its TSG lists are empty. */
void core_sched_begin(struct cgpu_state *state, u32 gpu);
void core_sched_added(struct cgpu_state *state, u32 gpu, u32 number);
void core_sched_removed(struct cgpu_state *state, u32 gpu, u32 number);
/* The weight or priority of one instance has changed. */
void core_sched_changed(struct cgpu_state *state, u32 gpu, u32 number);
/* A GPU's policy, max_inst or prio_ratio has changed, or the engine's means there. */
void core_sched_policy(struct cgpu_state *state, u32 gpu);
/* The groups or channels of one instance have changed. */
void core_sched_channels(struct cgpu_state *state, u32 gpu, u32 number);
/* Whether an instance that asked for priority was seen at work. Nothing happens to others. */
void core_sched_seen(struct cgpu_state *state, u32 gpu, u32 number, u32 at_work);
/* Each change of a runlist may have the card begin it anew, which gives all of it to the first group there. Programs
 * that start make so many in a second; more would be a way to win time. */
#define CORE_RUNLIST_CHANGES 64u
void core_sched_runlist_changed(struct cgpu_state *state, u32 gpu);
/* Mechanism that divides the time of a GPU at this moment. */
enum core_divided_by {
	CORE_DIVIDED_BY_DRIVER, /* as its policy says */
	CORE_DIVIDED_BY_TIMESLICES,
	CORE_DIVIDED_BY_CHANNELS, /* they are enabled and disabled */
	CORE_DIVIDED_BY_NOBODY, /* the driver does not do what the policy needs */
};
enum core_divided_by core_sched_divided_by(const struct core_share *share);
/* Whether the card's own timeslices can divide the time of a GPU. */
u32 core_sched_by_slices(const struct core_share *share);
/* Weight that is left to give out: max_inst minus the weights of all instances. */
u32 core_sched_free_weight(struct cgpu_state *state, u32 gpu);
/* Log that a scheduling control does not work. Without the lock. */
void core_sched_failure_line(struct cgpu_core *core, u32 gpu, const char *control, u32 status, const char *follows);

/* Whether the driver says of a group or channel that it is gone. Its record follows. */
static inline int core_sched_has_gone(u32 status)
{
	return status == NV_ERR_OBJECT_NOT_FOUND || status == NV_ERR_INVALID_OBJECT_HANDLE ||
		status == NV_ERR_INVALID_OBJECT || status == NV_ERR_INVALID_CLIENT;
}

/* --- channels.c --- */

/* Have channels tried again that the driver did not enable or disable, where it is time. */
void core_channels_retry(struct cgpu_state *state, u32 gpu, u64 now);
/* The same of one TSG list, at once: something else is decided for it. */
void core_channels_retry_list(struct cgpu_state *state, u32 gpu, u32 number);

/* --- timeslices.c --- */

void core_timeslices_compute(struct cgpu_state *state, u32 gpu);

/* Whether enabling and disabling channels tells the GPU time of each instance at this moment. */
static inline int core_sched_rounds_tell(const struct core_share *share)
{
	return share->sched.rounds && !share->enable_fail;
}

#endif
