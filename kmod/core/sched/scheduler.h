/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Decides which slot may use one GPU, and for how long: docs/scheduling.md has the policies. No locks, no clock and no
 * allocation of its own, and no pointers inside: the same calls with the same times give the same decisions. Times are
 * nanoseconds of one clock that does not go back; a call with an earlier time counts as made at the latest one seen.
 *
 * The caller does in a loop: say what has changed (work, processes, GPU time that was measured), ask for a decision,
 * enable and disable channels by it, and come back at its end, or when something changes before that.
 *
 * Functions that return an int give 0, or -EINVAL for a number out of range or a slot that is not there (-EEXIST: one that
 * is), and then nothing has changed.
 */
#ifndef CGPU_SCHED_GPU_H
#define CGPU_SCHED_GPU_H

#include "policies.h"

#define CGPU_SCHED_SLOTS 25u /* CGPU_MAX_INST; an instance's number is its slot */
#define CGPU_SCHED_NONE CGPU_SCHED_SLOTS /* no slot has the grant */
#define CGPU_SCHED_FOREVER (~0ull) /* until something changes */
#define CGPU_SCHED_SLICE_MIN (CGPU_CONFIG_SLICE_US_MIN * 1000ull)
#define CGPU_SCHED_SLICE_MAX (CGPU_CONFIG_SLICE_US_MAX * 1000ull)
#define CGPU_SCHED_SLICE_DEFAULT (CGPU_CONFIG_SLICE_US_DEFAULT * 1000ull)
/* No more than this is owed, however long a kernel ran on. */
#define CGPU_SCHED_DEBT_MAX 10000000000ull
/* ns that the card takes to change from one container to another: to save a context and to load one. An estimate, as no
 * source has the time; a test builds with another one. */
#ifndef CGPU_SCHED_SWITCH
#define CGPU_SCHED_SWITCH 50000u
#endif
#define CGPU_SCHED_GROUPS_MAX 4096u /* active channel groups of one instance on one runlist */

struct cgpu_sched_settings {
	u32 policy; /* enum cgpu_sched_policy */
	u32 max_inst, prio_ratio; /* as in the configuration */
	/* 1: the card's own timeslices divide the time under policies 1 and 4. 0: where they cannot be set, or kernels cannot
	 * be interrupted: enabling and disabling channels does that too. */
	u32 time_slices;
	u64 slice; /* of one unit of weight */
};

struct cgpu_sched_slot {
	u32 joined, weight, highprio;
	u32 process; /* it has an open GPU process, and so takes part */
	u32 spare;
	u32 class; /* as of the last decision: what is reported after a change was used before it */
	u64 granted; /* ns that it was given the card alone, less what others ran in them, more what it ran beyond them */
	u64 ran; /* ns of GPU time, as reported */
};

/* Channels that the caller enables and disables. */
struct cgpu_sched_decision {
	u32 gated; /* 0: nothing has to be disabled */
	u32 open; /* bit n: the channels of slot n are enabled. Those of slots without work may be: they can start at once */
	u32 grantee; /* the slot that has the grant, or CGPU_SCHED_NONE: nobody's, or that of several */
	u32 spare;
	u64 until; /* ask again at this time */
};

/* Work is shared out in two classes: high priority and the others. */
enum { CGPU_SCHED_LOW, CGPU_SCHED_HIGH, CGPU_SCHED_CLASSES };

/* Slots that take part in a class at this moment, with their units. Last: the time that nobody gets. */
struct cgpu_sched_plan {
	u32 unit[CGPU_SCHED_SLOTS + 1];
	u32 members; /* places with units */
	u32 units; /* their sum */
	u32 slots; /* bit n: slot n is of this class and has a weight, whether or not it takes part */
};

/* Plans that follow from settings and slots alone: they stay from decision to decision. */
struct cgpu_sched_plans {
	u32 made; /* 0: one of them has changed since */
	u32 there; /* bit n: slot n is there */
	u32 free; /* bit n: the channels of slot n may be enabled in the rounds of others */
	u32 busy; /* bit n: slot n has an open process, whatever its weight */
	struct cgpu_sched_plan of[CGPU_SCHED_CLASSES];
};

/* Read fields, but let only the functions below write them. */
struct cgpu_sched {
	struct cgpu_sched_settings settings;
	u64 now; /* the latest time seen */
	u64 since; /* begin of the grant or phase */
	u64 refunded; /* ns of it that others ran, given back to the slot that has the grant */
	s64 lag; /* hundredths of ns that the high class is behind prio_ratio; below 0: ahead */
	u64 phase_used; /* ns of the class's phase */
	u32 phase; /* the class that has the card */
	u32 contended; /* both classes want it */
	u32 grantee; /* a slot, or NONE: the time that nobody gets; meaningless unless rounds */
	u32 rounds; /* grants go round within the class */
	u32 lone; /* ... but there is no other member */
	u32 current[CGPU_SCHED_CLASSES]; /* the place that has the grant, or had it last, in each class */
	/* ns left of the grant; below 0: owed, from a kernel that ran on. Last: the time that nobody gets. */
	s64 balance[CGPU_SCHED_SLOTS + 1];
	struct cgpu_sched_slot slot[CGPU_SCHED_SLOTS];
	struct cgpu_sched_plans plans;
};

/* Timeslice of each active channel group of a slot. */
struct cgpu_sched_timeslice {
	u64 us; /* for NVA06C_CTRL_CMD_SET_TIMESLICE; 0: leave it as it is */
	u64 ns; /* what the hardware makes of it */
};

/* --- settings and slots --- */

/* Defaults of the configuration, with timeslices. */
void cgpu_sched_defaults(struct cgpu_sched_settings *settings);
int cgpu_sched_init(struct cgpu_sched *sched, const struct cgpu_sched_settings *settings, u64 now);
/* Change settings while slots are there. */
int cgpu_sched_set(struct cgpu_sched *sched, const struct cgpu_sched_settings *settings, u64 now);
/* weight: 0 to 25. Without an open process at first. */
int cgpu_sched_join(struct cgpu_sched *sched, u32 slot, u32 weight, u32 highprio, u64 now);
int cgpu_sched_leave(struct cgpu_sched *sched, u32 slot, u64 now);
int cgpu_sched_change(struct cgpu_sched *sched, u32 slot, u32 weight, u32 highprio, u64 now);

/* --- what happens --- */

/* The slot has now, or has no longer, an open GPU process. */
int cgpu_sched_process(struct cgpu_sched *sched, u32 slot, u32 open, u64 now);
/*
 * GPU time that a slot has used since the caller's last report of it. It is reported before the decision that follows,
 * so that it falls into the grant in which it was used. Time that a slot uses in another's grant is taken from its next
 * grants, and given back to the other. A caller that measures nothing but how long a disabled slot's work ran on
 * reports that.
 */
int cgpu_sched_ran(struct cgpu_sched *sched, u32 slot, u64 ns, u64 now);

/* Skip time in which no slot could have used the card: it counts for none. */
void cgpu_sched_skip(struct cgpu_sched *sched, u64 now);

/* --- what is to be done --- */

void cgpu_sched_decide(struct cgpu_sched *sched, u64 now, struct cgpu_sched_decision *decision);
/*
 * Timeslices on one runlist, for policies 1 and 4. groups: active channel groups of each slot there, at most
 * CGPU_SCHED_GROUPS_MAX. To be asked again when one of these, a weight or the policy has changed.
 */
int cgpu_sched_timeslices(
	const struct cgpu_sched *sched, const u32 *groups, struct cgpu_sched_timeslice slices[CGPU_SCHED_SLOTS]);
/* The nearest timeslice that the hardware has. */
void cgpu_sched_quantise(u64 ns, struct cgpu_sched_timeslice *slice);

#endif
