// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
/* Events of a GPU: changes of settings and slots, and the accounting of the time that has passed. */
#include "sched/deficit.h"

#define WEIGHT_MAX CGPU_CONFIG_MAX_SCHD_WEIGHT_MAX
#define LAG_MAX ((s64)(CGPU_SCHED_DEBT_MAX * 100))

_Static_assert(CGPU_SCHED_SLOTS == CGPU_CONFIG_MAX_INST_MAX && WEIGHT_MAX == CGPU_CONFIG_MAX_INST_MAX,
	"a slot for each container, and at most the weight of all");

void cgpu_sched_defaults(struct cgpu_sched_settings *settings)
{
	memset(settings, 0, sizeof(*settings));
	settings->policy = CGPU_CONFIG_POLICY_DEFAULT;
	settings->max_inst = CGPU_CONFIG_MAX_INST_DEFAULT;
	settings->prio_ratio = CGPU_CONFIG_PRIO_RATIO_DEFAULT;
	settings->time_slices = 1;
	settings->slice = CGPU_SCHED_SLICE_DEFAULT;
}

static int valid(const struct cgpu_sched_settings *settings)
{
	return cgpu_policy_in_bounds(settings->policy, settings->max_inst, settings->prio_ratio) &&
		settings->time_slices <= 1 && settings->slice >= CGPU_SCHED_SLICE_MIN &&
		settings->slice <= CGPU_SCHED_SLICE_MAX;
}

static struct cgpu_sched_slot *joined(struct cgpu_sched *sched, u32 slot)
{
	return slot < CGPU_SCHED_SLOTS && sched->slot[slot].joined ? &sched->slot[slot] : NULL;
}

static void add_lag(struct cgpu_sched *sched, s64 lag)
{
	lag += sched->lag;
	if (lag > LAG_MAX)
		lag = LAG_MAX;
	if (lag < -LAG_MAX)
		lag = -LAG_MAX;
	sched->lag = lag;
}

/* Settle how far the high class is behind or ahead, after so much time for the class that has the card. */
static void settle_lag(struct cgpu_sched *sched, s64 passed)
{
	s64 ratio = sched->settings.prio_ratio;

	if (sched->contended) {
		add_lag(sched, passed * (sched->phase == CGPU_SCHED_HIGH ? ratio - 100 : ratio));
	} else if (sched->phase == CGPU_SCHED_LOW) {
		/* A class without work is owed nothing; being ahead wears off. */
		add_lag(sched, passed * ratio);
		if (sched->lag > 0)
			sched->lag = 0;
	} else if (sched->lag > 0) {
		add_lag(sched, passed * (ratio - 100));
		if (sched->lag < 0)
			sched->lag = 0;
	}
}

static void settle_grant(struct cgpu_sched *sched, u64 passed)
{
	s64 balance;

	if (!sched->rounds)
		return;
	if (sched->grantee < CGPU_SCHED_SLOTS)
		sched->slot[sched->grantee].granted += passed;
	balance = sched->balance[sched->grantee];
	if (!sched->lone) {
		core_sched_balance(sched, sched->grantee, -(s64)passed);
		return;
	}
	/* A lone slot keeps nobody waiting: it runs up no debt, and pays off the one that it has. */
	if (balance > 0)
		balance = balance > (s64)passed ? balance - (s64)passed : 0;
	else
		balance = -balance > (s64)passed ? balance + (s64)passed : 0;
	sched->balance[sched->grantee] = balance;
}

void core_sched_settle(struct cgpu_sched *sched, u64 now)
{
	u64 passed;

	if (now <= sched->now)
		return;
	passed = now - sched->now;
	sched->now = now;
	if (passed > CGPU_SCHED_DEBT_MAX)
		passed = CGPU_SCHED_DEBT_MAX;
	sched->phase_used += passed;
	settle_lag(sched, (s64)passed);
	settle_grant(sched, passed);
}

int cgpu_sched_init(struct cgpu_sched *sched, const struct cgpu_sched_settings *settings, u64 now)
{
	if (!valid(settings))
		return -EINVAL;
	memset(sched, 0, sizeof(*sched));
	sched->settings = *settings;
	sched->now = now;
	sched->since = now;
	sched->grantee = CGPU_SCHED_NONE;
	sched->current[CGPU_SCHED_LOW] = SCHED_IDLE;
	sched->current[CGPU_SCHED_HIGH] = SCHED_IDLE;
	return 0;
}

int cgpu_sched_set(struct cgpu_sched *sched, const struct cgpu_sched_settings *settings, u64 now)
{
	if (!valid(settings))
		return -EINVAL;
	core_sched_settle(sched, now);
	/* A grant goes on, and is no longer than one of the new settings: no slot loses its grant however often they change. */
	sched->settings = *settings;
	sched->plans.made = 0;
	return 0;
}

int cgpu_sched_join(struct cgpu_sched *sched, u32 slot, u32 weight, u32 highprio, u64 now)
{
	struct cgpu_sched_slot *found;

	if (slot >= CGPU_SCHED_SLOTS || weight > WEIGHT_MAX || highprio > 1)
		return -EINVAL;
	found = &sched->slot[slot];
	if (found->joined)
		return -EEXIST;
	core_sched_settle(sched, now);
	memset(found, 0, sizeof(*found));
	found->joined = 1;
	found->weight = weight;
	found->highprio = highprio;
	found->class = highprio;
	sched->balance[slot] = 0;
	sched->plans.made = 0;
	return 0;
}

int cgpu_sched_leave(struct cgpu_sched *sched, u32 slot, u64 now)
{
	struct cgpu_sched_slot *found = joined(sched, slot);

	if (!found)
		return -EINVAL;
	core_sched_settle(sched, now);
	memset(found, 0, sizeof(*found));
	sched->balance[slot] = 0;
	sched->plans.made = 0;
	/* The next slot in this place is not charged for the rest of the grant. */
	if (sched->grantee == slot)
		sched->rounds = 0;
	return 0;
}

int cgpu_sched_change(struct cgpu_sched *sched, u32 slot, u32 weight, u32 highprio, u64 now)
{
	struct cgpu_sched_slot *found = joined(sched, slot);

	if (!found || weight > WEIGHT_MAX || highprio > 1)
		return -EINVAL;
	core_sched_settle(sched, now);
	/* The slot takes its debt into the other class, and no credit. */
	if (found->highprio != highprio && sched->balance[slot] > 0)
		sched->balance[slot] = 0;
	found->weight = weight;
	found->highprio = highprio;
	sched->plans.made = 0;
	return 0;
}

int cgpu_sched_process(struct cgpu_sched *sched, u32 slot, u32 open, u64 now)
{
	struct cgpu_sched_slot *found = joined(sched, slot);

	if (!found)
		return -EINVAL;
	core_sched_settle(sched, now);
	found->process = open != 0;
	sched->plans.made = 0;
	return 0;
}

void cgpu_sched_skip(struct cgpu_sched *sched, u64 now)
{
	if (now > sched->now)
		sched->now = now;
}

/* A slot ran in the other class's phase. */
static void move_lag(struct cgpu_sched *sched, u32 highprio, u64 ns, u64 back)
{
	if (highprio && sched->phase == CGPU_SCHED_LOW)
		add_lag(sched, -(s64)ns * 100);
	if (!highprio && sched->phase == CGPU_SCHED_HIGH && sched->contended)
		add_lag(sched, (s64)back * 100);
}

/* A slot ran when it was without the grant: it owes that, and the slot with the grant gets it back. */
static void move_grant(struct cgpu_sched *sched, u32 slot, u64 ns, u64 back)
{
	core_sched_balance(sched, slot, -(s64)ns);
	sched->slot[slot].granted += ns;
	if (!sched->lone)
		core_sched_balance(sched, sched->grantee, (s64)back);
	if (sched->grantee < CGPU_SCHED_SLOTS) {
		u64 *granted = &sched->slot[sched->grantee].granted;

		*granted -= back < *granted ? back : *granted;
	}
}

int cgpu_sched_ran(struct cgpu_sched *sched, u32 slot, u64 ns, u64 now)
{
	struct cgpu_sched_slot *found = joined(sched, slot);
	u64 back;

	if (!found)
		return -EINVAL;
	core_sched_settle(sched, now);
	found->ran = ns > ~0ull - found->ran ? ~0ull : found->ran + ns;
	if (sched->rounds ? slot == sched->grantee : found->class == sched->phase)
		return 0;
	if (core_sched_policy_of(sched)->undivided)
		return 0;
	if (ns > CGPU_SCHED_DEBT_MAX)
		ns = CGPU_SCHED_DEBT_MAX;
	/* A slot gets back no more than it was charged with. */
	back = sched->now - sched->since - sched->refunded;
	if (back > ns)
		back = ns;
	sched->refunded += back;
	move_lag(sched, found->class, ns, back);
	if (sched->rounds)
		move_grant(sched, slot, ns, back);
	return 0;
}
