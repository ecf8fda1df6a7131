// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
/*
 * Grants go round by deficit: once in a round each member gets its units' worth of time; its grant lasts until that is
 * used up. A member that has used more than it had starts below zero in the next round, and is passed over while it is
 * there.
 */
#include "sched/deficit.h"

/* A grant shorter than this part of a slice is not worth the switch: it is kept for the next round. */
#define WORTH(slice) ((s64)((slice) / 8))

/*
 * The switches of a round. The grant of a member at work begins with one, which takes as much of a short grant as of a long
 * one. So that the time of kernels goes by units, the members at work pay for all switches by their units: each grant has
 * the time of one switch more, and its part of all of them less. The round stays as long as its units say.
 */
struct switches {
	u64 each; /* ns */
	u32 members, units; /* of those at work */
};

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
		plans->busy |= slot->process << n;
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

/* Take away the rest of a grant. */
static void give_up(struct cgpu_sched *sched, u32 place)
{
	if (sched->balance[place] > 0)
		sched->balance[place] = 0;
}

/* An estimate must not outweigh the units, however short a slice is. */
static u64 switch_of(const struct cgpu_sched *sched)
{
	u64 most = sched->settings.slice / 8;

	return most > CGPU_SCHED_SWITCH ? CGPU_SCHED_SWITCH : most;
}

static int at_work(const struct cgpu_sched *sched, const struct cgpu_sched_plan *plan, u32 place)
{
	return place != SCHED_IDLE && plan->unit[place] && sched->slot[place].process;
}

static struct switches switches_of(const struct cgpu_sched *sched, const struct cgpu_sched_plan *plan)
{
	struct switches switches = { .units = 1 };
	u32 idle = plan->unit[SCHED_IDLE], n;

	/* Where each has one unit, what each pays is its own switch. While both classes want the card grants are cut into pieces,
	 * with a switch before each. */
	if (sched->contended || plan->units - idle == plan->members - (idle != 0))
		return switches;
	switches.each = switch_of(sched);
	switches.units = 0;
	for (n = 0; n < CGPU_SCHED_SLOTS; n++) {
		if (!at_work(sched, plan, n))
			continue;
		switches.members++;
		switches.units += plan->unit[n];
	}
	return switches;
}

static u64 grant_of(
	const struct cgpu_sched *sched, const struct cgpu_sched_plan *plan, const struct switches *switches, u32 place)
{
	u64 grant = plan->unit[place] * sched->settings.slice;

	if (!at_work(sched, plan, place))
		return grant;
	return grant + switches->each - switches->each * plan->unit[place] * switches->members / switches->units;
}

/* Give a place its share of so many rounds. A place that takes no part pays off its debt, and gets nothing. */
static void credit(struct cgpu_sched *sched, const struct cgpu_sched_plan *plan, const struct switches *switches,
	u32 place, u64 rounds)
{
	u64 grant = grant_of(sched, plan, switches, place);
	s64 balance = sched->balance[place];

	if (plan->unit[place] == 0 && place != SCHED_IDLE)
		grant = core_sched_units(sched, place) * sched->settings.slice;
	balance += (s64)(rounds * grant);
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
static int go_round(
	struct cgpu_sched *sched, u32 class, const struct cgpu_sched_plan *plan, const struct switches *switches)
{
	u32 place = sched->current[class];
	u32 n;

	for (n = 0; n < SCHED_PLACES; n++) {
		place = place + 1 < SCHED_PLACES ? place + 1 : 0;
		if (!belongs(sched, class, place))
			continue;
		credit(sched, plan, switches, place, 1);
		if (plan->unit[place] && sched->balance[place] >= WORTH(sched->settings.slice)) {
			sched->current[class] = place;
			return 1;
		}
	}
	return 0;
}

/* All members owe more than a round gives. Pass over the rounds in which none of them would get a grant. */
static void skip_rounds(
	struct cgpu_sched *sched, u32 class, const struct cgpu_sched_plan *plan, const struct switches *switches)
{
	u64 fewest = ~0ull;
	u32 n;

	for (n = 0; n < SCHED_PLACES; n++) {
		u64 round = grant_of(sched, plan, switches, n);
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
			credit(sched, plan, switches, n, fewest);
	}
}

/* A weight or the slice may have become smaller during the grant. */
static void trim(struct cgpu_sched *sched, u32 place, u32 unit)
{
	s64 most = (s64)(unit * sched->settings.slice + switch_of(sched)) + WORTH(sched->settings.slice);

	if (sched->balance[place] > most)
		sched->balance[place] = most;
}

u32 core_sched_grant(struct cgpu_sched *sched, u32 class, const struct cgpu_sched_plan *plan, u32 *begun)
{
	u32 place = sched->current[class];
	struct switches switches;

	*begun = 0;
	trim(sched, place, plan->unit[place]);
	if (plan->unit[place] && sched->balance[place] > 0)
		return place;
	give_up(sched, place);
	*begun = 1;
	switches = switches_of(sched, plan);
	if (!go_round(sched, class, plan, &switches)) {
		skip_rounds(sched, class, plan, &switches);
		go_round(sched, class, plan, &switches);
	}
	return sched->current[class];
}

/*
 * The lone member has a grant as well, which it keeps when another member comes. Else a short pause of the other one
 * would end the round, and a member that pauses in each of its grants would have nearly all grants.
 */
u32 core_sched_lone(struct cgpu_sched *sched, u32 class, const struct cgpu_sched_plan *plan)
{
	const struct switches none = { .units = 1 };
	u32 place = sched->current[class];

	trim(sched, place, plan->unit[place]);
	if (plan->unit[place])
		return place;
	give_up(sched, place);
	for (place = 0; !plan->unit[place];)
		place++;
	credit(sched, plan, &none, place, 1);
	sched->current[class] = place;
	return place;
}
