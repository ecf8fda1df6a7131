// SPDX-License-Identifier: Apache-2.0
/* Scheduler and card, joined: decisions become scheduling controls, and runs are reported. */
#include "inside.h"

/* GPU time that a container has used, contexts and all. */
uint64_t shares_used(const struct shares *shares, uint32_t slot)
{
	struct shares_figures figures;

	shares_figures(shares, slot, &figures);
	return figures.busy + figures.switching;
}

static bool has_work(const struct shares *shares, uint32_t slot)
{
	const struct member *member = &shares->member[slot];
	struct work_channel_figures figures;
	uint32_t index;

	for (index = 0; member->here && index < member->of.groups; index++) {
		if (work_channel_figures(shares->work, member->channel[index], &figures) == 0 && figures.queued)
			return true;
	}
	return false;
}

static bool is_on_card(const struct member *member, uint32_t running)
{
	uint32_t index;

	for (index = 0; index < member->of.groups; index++) {
		if (running != WORK_NONE && member->group[index] == running)
			return true;
	}
	return false;
}

/* Note how long a container has waited for the card: one that came out of idleness, and any that has work. */
static void watch_wait(struct shares *shares, struct member *member, uint32_t running)
{
	uint64_t now = work_now(shares->work), waited = now - member->idle_until;

	if (!member->here || !member->has_work || is_on_card(member, running))
		member->served = now;
	else if (now - member->served > member->figures.starved)
		member->figures.starved = now - member->served;
	if (!member->waits || member->of.groups == 0)
		return;
	if (waited > member->figures.waited)
		member->figures.waited = waited;
	if (member->group[0] == running)
		member->waits = false;
}

static void watch_work(struct shares *shares)
{
	uint64_t now = work_now(shares->work);
	struct work_engine_figures engine;
	uint32_t slot, running;

	work_engine_figures(shares->work, 0, &engine);
	running = engine.channel == WORK_NONE ? WORK_NONE : engine.group;
	for (slot = 0; slot < SHARES_CONTAINERS; slot++) {
		struct member *member = &shares->member[slot];
		bool has = has_work(shares, slot);

		if (has && !member->has_work) {
			member->waits = true;
			member->idle_until = now;
			member->served = now;
		}
		if (has != member->has_work && member->here) {
			cgpu_sched_process(&shares->sched, slot, has, now);
			shares->changed = true;
		}
		member->has_work = has;
		if (!has)
			member->waits = false;
		watch_wait(shares, member, running);
	}
}

static void set_channels(struct shares *shares, uint32_t slot, bool open)
{
	struct member *member = &shares->member[slot];

	if (member->open == open || !shares->setup.controls)
		return;
	member->open = open;
	work_channels_disable(shares->work, member->channel, member->of.groups, !open);
	member->closes = open ? WORK_NEVER : work_now(shares->work) + shares->setup.card.command_ns;
}

static void set_slices(struct shares *shares)
{
	struct cgpu_sched_timeslice slices[CGPU_SCHED_SLOTS];
	uint32_t groups[CGPU_SCHED_SLOTS] = { 0 }, slot, index;

	for (slot = 0; slot < SHARES_CONTAINERS; slot++)
		groups[slot] = shares->member[slot].here ? shares->member[slot].of.groups : 0;
	if (cgpu_sched_timeslices(&shares->sched, groups, slices))
		return;
	for (slot = 0; slot < SHARES_CONTAINERS; slot++) {
		for (index = 0; index < groups[slot]; index++) {
			if (!slices[slot].us || slices[slot].us == shares->member[slot].slice[index])
				continue;
			shares->member[slot].slice[index] = slices[slot].us;
			work_group_timeslice(shares->work, shares->member[slot].group[index], slices[slot].us);
		}
	}
}

/*
 * Channels are enabled as late as they are disabled, so kernels that run until then are part of the turn before: they
 * shift turns, and make none longer. Kernels that run on beyond that use another container's time.
 */
static void disabling_acts(struct shares *shares)
{
	uint32_t slot;

	for (slot = 0; slot < SHARES_CONTAINERS; slot++) {
		struct member *member = &shares->member[slot];

		if (!member->here || member->closes > work_now(shares->work))
			continue;
		member->reported = shares_used(shares, slot);
		member->closes = WORK_NEVER;
	}
}

static uint64_t next_closing(const struct shares *shares)
{
	uint64_t next = WORK_NEVER;
	uint32_t slot;

	for (slot = 0; slot < SHARES_CONTAINERS; slot++) {
		if (shares->member[slot].here && shares->member[slot].closes < next)
			next = shares->member[slot].closes;
	}
	return next;
}

void shares_report(struct shares *shares)
{
	uint64_t now = work_now(shares->work);
	uint32_t slot;

	for (slot = 0; slot < SHARES_CONTAINERS; slot++) {
		struct member *member = &shares->member[slot];
		uint64_t ran;

		if (!member->here || member->closes != WORK_NEVER)
			continue;
		ran = shares_used(shares, slot) - member->reported;
		if (ran)
			cgpu_sched_ran(&shares->sched, slot, ran, now);
		member->reported += ran;
	}
}

static void decide(struct shares *shares)
{
	uint64_t now = work_now(shares->work);
	struct cgpu_sched_decision decision;
	uint32_t slot;

	shares_report(shares);
	cgpu_sched_decide(&shares->sched, now, &decision);
	shares->wake = decision.until == CGPU_SCHED_FOREVER ? WORK_NEVER : decision.until;
	for (slot = 0; slot < SHARES_CONTAINERS; slot++) {
		if (shares->member[slot].here && shares->member[slot].of.groups)
			set_channels(shares, slot, !decision.gated || (decision.open >> slot & 1));
	}
	if (shares->changed && shares->setup.controls)
		set_slices(shares);
	shares->changed = false;
}

static bool anyone_has_work(const struct shares *shares)
{
	uint32_t slot;

	for (slot = 0; slot < SHARES_CONTAINERS; slot++) {
		if (shares->member[slot].has_work)
			return true;
	}
	return false;
}

static void pass(struct shares *shares, uint64_t until)
{
	struct work_engine_figures before, after;
	bool wanted = anyone_has_work(shares);

	work_engine_figures(shares->work, 0, &before);
	play_advance(shares, until);
	work_engine_figures(shares->work, 0, &after);
	if (wanted)
		shares->idle_with_work += after.idle - before.idle;
}

static uint64_t least(uint64_t left, uint64_t right)
{
	return left < right ? left : right;
}

void shares_advance(struct shares *shares, uint64_t until)
{
	uint64_t now = work_now(shares->work);

	while (now < until) {
		watch_work(shares);
		disabling_acts(shares);
		if (shares->changed || shares->wake <= now) {
			decide(shares);
			watch_work(shares);
		}
		pass(shares, least(least(play_next(shares), shares->wake), least(next_closing(shares), until)));
		now = work_now(shares->work);
	}
}
