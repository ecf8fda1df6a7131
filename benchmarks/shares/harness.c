// SPDX-License-Identifier: Apache-2.0
#include <stdlib.h>
#include <time.h>

#include "harness.h"

struct member {
	uint32_t group[SHARES_GROUPS];
	uint32_t channel[SHARES_GROUPS];
	uint32_t program[SHARES_GROUPS];
	uint64_t slice[SHARES_GROUPS]; /* us, as set last */
	uint64_t reported; /* ns of GPU time */
	uint64_t closes; /* when the call acts that closes its gate; WORK_NEVER: none is on its way */
	uint64_t idle_until; /* when it had no work last */
	bool here, was_here, open, has_work, waits;
};

struct bench {
	const struct shares_case *what;
	struct shares_result *result;
	struct work *work;
	struct work_play *play;
	struct cgpu_sched sched;
	struct member member[SHARES_CONTAINERS];
	uint64_t wake; /* the scheduler wants to be asked again then */
	bool changed;
};

static uint64_t processor_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* GPU time that a container has used, contexts and all. */
static struct shares_figures used(const struct bench *bench, uint32_t slot)
{
	const struct shares_container *of = &bench->what->container[slot];
	struct shares_figures sum = bench->result->container[slot];
	struct work_group_figures figures;
	uint32_t index;

	if (!bench->member[slot].here)
		return sum;
	for (index = 0; index < of->groups; index++) {
		work_group_figures(bench->work, bench->member[slot].group[index], &figures);
		sum.busy += figures.busy;
		sum.switching += figures.switching;
		sum.completed += figures.completed;
	}
	return sum;
}

static uint64_t used_time(const struct bench *bench, uint32_t slot)
{
	struct shares_figures figures = used(bench, slot);

	return figures.busy + figures.switching;
}

static int join(struct bench *bench, uint32_t slot)
{
	const struct shares_container *of = &bench->what->container[slot];
	struct member *member = &bench->member[slot];
	struct work_program program = of->program;
	uint64_t now = work_now(bench->work);
	uint32_t index;

	program.start += now;
	program.end = program.end == WORK_NEVER ? WORK_NEVER : program.end + now;
	member->here = member->was_here = member->open = true;
	member->closes = WORK_NEVER;
	if (cgpu_sched_join(&bench->sched, slot, of->weight, of->highprio, now))
		return -1;
	for (index = 0; index < of->groups; index++) {
		member->group[index] = work_group_add(bench->work, 0);
		program.channel = work_channel_add(bench->work, member->group[index], program.depth);
		member->channel[index] = program.channel;
		member->program[index] = work_play_add(bench->play, &program);
		if (program.channel == WORK_NONE || member->program[index] == WORK_NONE)
			return -1;
	}
	if (of->groups)
		cgpu_sched_process(&bench->sched, slot, 1, now);
	if (bench->what->tells)
		cgpu_sched_work(&bench->sched, slot, 0, now);
	bench->changed = true;
	return 0;
}

static void leave(struct bench *bench, uint32_t slot)
{
	uint32_t index;

	bench->result->container[slot] = used(bench, slot);
	bench->member[slot].here = false;
	for (index = 0; index < bench->what->container[slot].groups; index++)
		work_group_remove(bench->work, bench->member[slot].group[index]);
	cgpu_sched_leave(&bench->sched, slot, work_now(bench->work));
	bench->changed = true;
}

static bool has_work(const struct bench *bench, uint32_t slot)
{
	const struct member *member = &bench->member[slot];
	uint32_t index;

	for (index = 0; member->here && index < bench->what->container[slot].groups; index++) {
		if (work_play_has_work(bench->play, member->program[index]))
			return true;
	}
	return false;
}

/* How long a container that came out of idleness has waited for the card. */
static void watch_wait(struct bench *bench, uint32_t slot, uint32_t running)
{
	struct member *member = &bench->member[slot];
	struct shares_figures *figures = &bench->result->container[slot];
	uint64_t waited = work_now(bench->work) - member->idle_until;

	if (!member->waits || bench->what->container[slot].groups == 0)
		return;
	if (waited > figures->waited)
		figures->waited = waited;
	if (member->group[0] == running)
		member->waits = false;
}

static void watch_work(struct bench *bench)
{
	uint64_t now = work_now(bench->work);
	struct work_engine_figures engine;
	uint32_t slot, running;

	work_engine_figures(bench->work, 0, &engine);
	running = engine.channel == WORK_NONE ? WORK_NONE : engine.group;
	for (slot = 0; slot < bench->what->containers; slot++) {
		struct member *member = &bench->member[slot];
		bool has = has_work(bench, slot);

		if (has && !member->has_work) {
			member->waits = true;
			member->idle_until = now;
		}
		if (has != member->has_work && member->here && bench->what->tells) {
			cgpu_sched_work(&bench->sched, slot, has, now);
			bench->changed = true;
		}
		member->has_work = has;
		if (!has)
			member->waits = false;
		watch_wait(bench, slot, running);
	}
}

static void set_gate(struct bench *bench, uint32_t slot, bool open)
{
	struct member *member = &bench->member[slot];

	if (member->open == open || !bench->what->levers)
		return;
	member->open = open;
	work_channels_disable(bench->work, member->channel, bench->what->container[slot].groups, !open, false);
	bench->result->levers++;
	member->closes = open ? WORK_NEVER : work_now(bench->work) + bench->what->card.command_ns;
}

static void set_slices(struct bench *bench)
{
	struct cgpu_sched_time_slice slices[CGPU_SCHED_SLOTS];
	uint32_t groups[CGPU_SCHED_SLOTS] = { 0 }, slot, index;

	for (slot = 0; slot < bench->what->containers; slot++)
		groups[slot] = bench->member[slot].here ? bench->what->container[slot].groups : 0;
	if (cgpu_sched_time_slices(&bench->sched, groups, slices))
		return;
	for (slot = 0; slot < bench->what->containers; slot++) {
		for (index = 0; index < groups[slot]; index++) {
			if (!slices[slot].us || slices[slot].us == bench->member[slot].slice[index])
				continue;
			bench->member[slot].slice[index] = slices[slot].us;
			work_group_timeslice(bench->work, bench->member[slot].group[index], slices[slot].us);
			bench->result->levers++;
		}
	}
}

/*
 * Gates open as late as they close, so what runs until they act is part of the turn before: it shifts turns, and makes none
 * longer. What runs on beyond that is somebody else's time.
 */
static void gates_act(struct bench *bench)
{
	uint32_t slot;

	for (slot = 0; slot < bench->what->containers; slot++) {
		struct member *member = &bench->member[slot];

		if (!member->here || member->closes > work_now(bench->work))
			continue;
		member->reported = used_time(bench, slot);
		member->closes = WORK_NEVER;
	}
}

static uint64_t next_closing(const struct bench *bench)
{
	uint64_t next = WORK_NEVER;
	uint32_t slot;

	for (slot = 0; slot < bench->what->containers; slot++) {
		if (bench->member[slot].here && bench->member[slot].closes < next)
			next = bench->member[slot].closes;
	}
	return next;
}

static void report(struct bench *bench, uint64_t now)
{
	uint32_t slot;

	for (slot = 0; slot < bench->what->containers; slot++) {
		struct member *member = &bench->member[slot];
		uint64_t ran;

		if (!member->here || member->closes != WORK_NEVER)
			continue;
		ran = used_time(bench, slot) - member->reported;
		if (ran)
			cgpu_sched_ran(&bench->sched, slot, ran, now);
		member->reported += ran;
	}
}

static void decide(struct bench *bench)
{
	uint64_t now = work_now(bench->work), start = processor_ns();
	struct cgpu_sched_decision decision;
	uint32_t slot;

	report(bench, now);
	cgpu_sched_decide(&bench->sched, now, &decision);
	bench->result->deciding += processor_ns() - start;
	bench->result->decisions++;
	bench->wake = decision.until == CGPU_SCHED_FOREVER ? WORK_NEVER : decision.until;
	for (slot = 0; slot < bench->what->containers; slot++) {
		if (bench->member[slot].here && bench->what->container[slot].groups)
			set_gate(bench, slot, !decision.gated || (decision.open >> slot & 1));
	}
	if (bench->changed && bench->what->levers)
		set_slices(bench);
	bench->changed = false;
}

/* When the next container comes or goes. */
static uint64_t next_member(const struct bench *bench)
{
	uint64_t next = WORK_NEVER;
	uint32_t slot;

	for (slot = 0; slot < bench->what->containers; slot++) {
		const struct shares_container *of = &bench->what->container[slot];
		const struct member *member = &bench->member[slot];
		uint64_t at = member->here ? of->leave : member->was_here ? WORK_NEVER : of->join;

		if (at < next)
			next = at;
	}
	return next;
}

static int move_members(struct bench *bench)
{
	uint64_t now = work_now(bench->work);
	uint32_t slot;

	for (slot = 0; slot < bench->what->containers; slot++) {
		if (bench->member[slot].here && bench->what->container[slot].leave <= now)
			leave(bench, slot);
		else if (!bench->member[slot].was_here && bench->what->container[slot].join <= now && join(bench, slot))
			return -1;
	}
	return 0;
}

static bool anyone_has_work(const struct bench *bench)
{
	uint32_t slot;

	for (slot = 0; slot < bench->what->containers; slot++) {
		if (bench->member[slot].has_work)
			return true;
	}
	return false;
}

static void advance(struct bench *bench, uint64_t until)
{
	struct work_engine_figures before, after;
	bool wanted = anyone_has_work(bench);

	work_engine_figures(bench->work, 0, &before);
	work_play_advance(bench->play, until);
	work_engine_figures(bench->work, 0, &after);
	if (wanted)
		bench->result->idle_with_work += after.idle - before.idle;
}

static uint64_t least(uint64_t left, uint64_t right)
{
	return left < right ? left : right;
}

static int run(struct bench *bench, uint64_t *samples)
{
	const struct shares_case *what = bench->what;
	uint64_t sampled = 0, now = 0, next;
	uint32_t slot;

	while (!move_members(bench)) {
		watch_work(bench);
		gates_act(bench);
		if (bench->changed || bench->wake <= now) {
			decide(bench);
			watch_work(bench);
		}
		if (samples && what->sample && now >= (sampled + 1) * what->sample) {
			for (slot = 0; slot < what->containers; slot++) {
				samples[sampled * what->containers + slot] = used_time(bench, slot);
			}
			sampled++;
		}
		if (now >= what->duration)
			return 0;
		next = least(
			least(work_play_next(bench->play), bench->wake), least(next_member(bench), what->duration));
		next = least(next, next_closing(bench));
		if (samples && what->sample)
			next = least(next, (sampled + 1) * what->sample);
		advance(bench, next);
		now = work_now(bench->work);
	}
	return -1;
}

static void finish(struct bench *bench)
{
	struct work_engine_figures engine;
	uint32_t slot;

	for (slot = 0; slot < bench->what->containers; slot++)
		bench->result->container[slot] = used(bench, slot);
	work_engine_figures(bench->work, 0, &engine);
	bench->result->busy = engine.busy;
	bench->result->switching = engine.switching;
	bench->result->idle = engine.idle;
}

int shares_run(const struct shares_case *what, struct shares_result *result, uint64_t *samples)
{
	struct bench *bench = calloc(1, sizeof(*bench));
	int status = -1;
	uint32_t slot;

	memset(result, 0, sizeof(*result));
	if (!bench)
		return -1;
	bench->what = what;
	bench->result = result;
	bench->wake = WORK_NEVER;
	bench->work = work_create(&what->card);
	bench->play = bench->work ? work_play_create(bench->work) : NULL;
	for (slot = 0; slot < what->containers && slot < SHARES_CONTAINERS; slot++)
		status = what->container[slot].groups > SHARES_GROUPS ? -2 : status;
	if (bench->play && status == -1 && what->containers <= SHARES_CONTAINERS &&
		!cgpu_sched_init(&bench->sched, &what->settings, 0)) {
		status = run(bench, samples);
		finish(bench);
	}
	work_play_destroy(bench->play);
	work_destroy(bench->work);
	free(bench);
	return status;
}
