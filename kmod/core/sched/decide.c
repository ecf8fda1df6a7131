// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
/* Decides which slots may run now, and until when. */
#include "sched/deficit.h"

/*
 * Which class has the card. While both want it, one slice at a time, so that the high class is never a slice away from its
 * part; it comes first where nothing is owed either way.
 */
static void choose_class(struct cgpu_sched *sched, const struct cgpu_sched_plan *plan)
{
	u32 low = plan[CGPU_SCHED_LOW].members, high = plan[CGPU_SCHED_HIGH].members;
	u32 phase = high ? CGPU_SCHED_HIGH : CGPU_SCHED_LOW;

	sched->contended = low && high;
	if (sched->contended) {
		if (sched->phase_used < sched->settings.slice)
			return;
		phase = sched->lag >= 0 ? CGPU_SCHED_HIGH : CGPU_SCHED_LOW;
		sched->phase_used = 0;
	}
	if (phase == sched->phase)
		return;
	sched->phase = phase;
	sched->phase_used = 0;
	sched->since = sched->now;
	sched->refunded = 0;
}

/*
 * While both classes want the card, channel enable and disable gives the slots their rounds under each policy: a class
 * has the card for a slice at a time, and a card that begins its runlist anew each time would give all of that to the
 * first group on it.
 */
static void choose_grant(struct cgpu_sched *sched, const struct cgpu_sched_plan *plan)
{
	u32 grantee = CGPU_SCHED_NONE, begun = 0;
	u32 rounds = (core_sched_takes_rounds(sched) || sched->contended) && plan->members;

	sched->lone = plan->members == 1;
	if (rounds && sched->lone) {
		grantee = core_sched_lone(sched, sched->phase, plan);
	} else if (rounds) {
		grantee = core_sched_grant(sched, sched->phase, plan, &begun);
	}
	if (begun || grantee != sched->grantee || rounds != sched->rounds) {
		sched->since = sched->now;
		sched->refunded = 0;
	}
	sched->grantee = grantee;
	sched->rounds = rounds;
}

static u32 enabled_slots(const struct cgpu_sched *sched)
{
	u32 own = sched->plans.of[sched->phase].slots;

	if (sched->rounds)
		own = sched->grantee < CGPU_SCHED_SLOTS ? 1u << sched->grantee : 0;
	return own | sched->plans.free;
}

static u64 end_of_decision(const struct cgpu_sched *sched)
{
	u64 left = CGPU_SCHED_FOREVER;

	if (sched->contended)
		left = sched->settings.slice - sched->phase_used;
	if (sched->rounds && !sched->lone && (u64)sched->balance[sched->grantee] < left)
		left = (u64)sched->balance[sched->grantee];
	return left < CGPU_SCHED_FOREVER - sched->now ? sched->now + left : CGPU_SCHED_FOREVER;
}

/* The driver's own scheduling: nothing is touched, and nothing is owed afterwards. */
static void decide_undivided(struct cgpu_sched *sched, struct cgpu_sched_decision *decision)
{
	memset(sched->balance, 0, sizeof(sched->balance));
	sched->lag = 0;
	sched->rounds = 0;
	sched->contended = 0;
	sched->phase = CGPU_SCHED_LOW;
	sched->grantee = CGPU_SCHED_NONE;
	decision->grantee = CGPU_SCHED_NONE;
	decision->until = CGPU_SCHED_FOREVER;
	decision->open = sched->plans.there;
}

/* A newcomer does not wait for the time of units that were nobody's and are its own now. */
static void cut_idle_grant(struct cgpu_sched *sched)
{
	s64 most = (s64)(sched->plans.of[CGPU_SCHED_LOW].unit[SCHED_IDLE] * sched->settings.slice);

	if (sched->balance[SCHED_IDLE] > most)
		sched->balance[SCHED_IDLE] = most;
}

static void plan(struct cgpu_sched *sched)
{
	u32 undivided = core_sched_policy_of(sched)->undivided, n;
	u32 idle = sched->plans.of[CGPU_SCHED_LOW].unit[SCHED_IDLE];

	core_sched_plan(sched, &sched->plans);
	if (sched->plans.of[CGPU_SCHED_LOW].unit[SCHED_IDLE] < idle)
		cut_idle_grant(sched);
	/* Without classes nobody runs in the other one's phase. */
	for (n = 0; n < CGPU_SCHED_SLOTS; n++)
		sched->slot[n].class = undivided ? CGPU_SCHED_LOW : sched->slot[n].highprio;
}

void cgpu_sched_decide(struct cgpu_sched *sched, u64 now, struct cgpu_sched_decision *decision)
{
	core_sched_settle(sched, now);
	if (!sched->plans.made)
		plan(sched);
	memset(decision, 0, sizeof(*decision));
	if (core_sched_policy_of(sched)->undivided) {
		decide_undivided(sched, decision);
		return;
	}
	choose_class(sched, sched->plans.of);
	choose_grant(sched, &sched->plans.of[sched->phase]);
	decision->grantee = sched->grantee;
	decision->until = end_of_decision(sched);
	decision->open = enabled_slots(sched);
	decision->gated = decision->open != sched->plans.there || sched->contended || (sched->rounds && !sched->lone);
}
