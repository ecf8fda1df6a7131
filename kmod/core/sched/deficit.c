// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0
/*
 * Grants go round by deficit: once in a round each member gets its units' worth of time; its grant lasts until that is used
 * up. Who has used more than it had starts below zero in the next round, and is passed over while it is there.
 */
#include "sched/deficit.h"

/* A grant shorter than this part of a slice is not worth the switch: it is kept for the next round. */
#define WORTH(slice) ((s64)((slice) / 8))

static inline u32 units_of(const struct cgpu_policy *policy, const struct cgpu_sched_slot *slot)
{
	if (!slot->joined || slot->weight == 0)
		return 0;
	return policy->by_number ? 1 : slot->weight;
}

u32 core_sched_units(const struct cgpu_sched *sched, u32 slot)
{
	return units_of(core_sched_policy_of(sched), &sched->slot[slot]);
}

void core_sched_plan(const struct cgpu_sched *sched, struct cgpu_sched_plans *plans)
{
	struct cgpu_sched_plan *low = &plans->of[CGPU_SCHED_LOW];
	const struct cgpu_policy *policy = core_sched_policy_of(sched);
	u32 n;

	memset(plans, 0, sizeof(*plans));
	plans->made = 1;
	for (n = 0; n < CGPU_SCHED_SLOTS; n++) {
		const struct cgpu_sched_slot *slot = &sched->slot[n];
		struct cgpu_sched_plan *of = slot->highprio ? &plans->of[CGPU_SCHED_HIGH] : low;
		u32 unit = units_of(policy, slot), busy = slot->process, held = policy->keeps_idle && of == low;

		plans->there |= slot->joined << n;
		if (unit == 0)
			continue;
		of->slots |= 1u << n;
		/* Work that comes to an enabled slot starts at once, and the caller tells of it; nothing is lost if none comes. */
		if (!busy && !held) {
			plans->free |= 1u << n;
			continue;
		}
		of->unit[n] = unit;
		of->members++;
		of->units += unit;
	}
	if (policy->keeps_free && low->units < sched->settings.max_inst) {
		low->unit[SCHED_IDLE] = sched->settings.max_inst - low->units;
		low->members++;
		low->units = sched->settings.max_inst;
	}
}

void core_sched_balance(struct cgpu_sched *sched, u32 place, s64 ns)
{
	s64 balance = sched->balance[place] + ns;

	if (balance < -(s64)CGPU_SCHED_DEBT_MAX)
		balance = -(s64)CGPU_SCHED_DEBT_MAX;
	sched->balance[place] = balance;
}

/* What is left of a grant is lost. */
static void give_up(struct cgpu_sched *sched, u32 place)
{
	if (sched->balance[place] > 0)
		sched->balance[place] = 0;
}

/* One place's share of so many rounds. Who takes no part pays off what it owes, and gets nothing. */
static void credit(struct cgpu_sched *sched, const struct cgpu_sched_plan *plan, u32 place, u64 rounds)
{
	u32 unit = plan->unit[place];
	s64 balance = sched->balance[place];

	if (unit == 0 && place != SCHED_IDLE)
		unit = core_sched_units(sched, place);
	balance += (s64)(rounds * unit * sched->settings.slice);
	if (plan->unit[place] == 0 && balance > 0)
		balance = 0;
	sched->balance[place] = balance;
}

/* Whether a place is of this class at all. */
static int belongs(const struct cgpu_sched *sched, u32 class, u32 place)
{
	if (place == SCHED_IDLE)
		return class == CGPU_SCHED_LOW;
	return !!sched->slot[place].highprio == (class == CGPU_SCHED_HIGH);
}

/* Go round once, from the place after the last grant. 1: a grant begins. */
static int go_round(struct cgpu_sched *sched, u32 class, const struct cgpu_sched_plan *plan)
{
	u32 place = sched->current[class];
	u32 n;

	for (n = 0; n < SCHED_PLACES; n++) {
		place = place + 1 < SCHED_PLACES ? place + 1 : 0;
		if (!belongs(sched, class, place))
			continue;
		credit(sched, plan, place, 1);
		if (plan->unit[place] && sched->balance[place] >= WORTH(sched->settings.slice)) {
			sched->current[class] = place;
			return 1;
		}
	}
	return 0;
}

/* All members owe more than a round gives. Pass over the rounds in which none of them would get a grant. */
static void skip_rounds(struct cgpu_sched *sched, u32 class, const struct cgpu_sched_plan *plan)
{
	u64 fewest = ~0ull;
	u32 n;

	for (n = 0; n < SCHED_PLACES; n++) {
		u64 round = plan->unit[n] * sched->settings.slice;
		s64 missing = WORTH(sched->settings.slice) - sched->balance[n] - (s64)round;
		u64 rounds = 0;

		if (plan->unit[n] == 0)
			continue;
		if (missing > 0)
			rounds = ((u64)missing + round - 1) / round;
		if (rounds < fewest)
			fewest = rounds;
	}
	for (n = 0; fewest && n < SCHED_PLACES; n++) {
		if (belongs(sched, class, n))
			credit(sched, plan, n, fewest);
	}
}

/* A weight or the slice may have become smaller during the grant. */
static void trim(struct cgpu_sched *sched, u32 place, u32 unit)
{
	s64 most = (s64)(unit * sched->settings.slice) + WORTH(sched->settings.slice);

	if (sched->balance[place] > most)
		sched->balance[place] = most;
}

u32 core_sched_grant(struct cgpu_sched *sched, u32 class, const struct cgpu_sched_plan *plan, u32 *begun)
{
	u32 place = sched->current[class];

	*begun = 0;
	trim(sched, place, plan->unit[place]);
	if (plan->unit[place] && sched->balance[place] > 0)
		return place;
	give_up(sched, place);
	*begun = 1;
	if (!go_round(sched, class, plan)) {
		skip_rounds(sched, class, plan);
		go_round(sched, class, plan);
	}
	return sched->current[class];
}

/*
 * It has a grant as well, which it keeps when another one comes. Else a short pause of the other one would end the round, and
 * who pauses in each of its grants would have nearly all grants.
 */
u32 core_sched_lone(struct cgpu_sched *sched, u32 class, const struct cgpu_sched_plan *plan)
{
	u32 place = sched->current[class];

	trim(sched, place, plan->unit[place]);
	if (plan->unit[place])
		return place;
	give_up(sched, place);
	for (place = 0; !plan->unit[place];)
		place++;
	credit(sched, plan, place, 1);
	sched->current[class] = place;
	return place;
}
