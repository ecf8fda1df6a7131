// SPDX-License-Identifier: Apache-2.0
/*
 * Runlists of the simulated card. Interleaved, a group of level LOW is in the list once, one of MEDIUM before each of the
 * LOW, one of HIGH before each of both (ctrla06c.h, NVA06C_CTRL_CMD_SET_INTERLEAVE_LEVEL, gives how often; in which order
 * is not published). The driver makes the groups that are realtime HIGH, and puts them first.
 */
#include "work_inside.h"

uint64_t work_slice(uint64_t us)
{
	uint64_t timeout = us ? us : 1;
	uint32_t scale = 0;

	while (timeout > WORK_SLICE_TIMEOUT_MAX && scale < WORK_SLICE_SCALE_MAX) {
		timeout >>= 1;
		scale++;
	}
	if (timeout > WORK_SLICE_TIMEOUT_MAX)
		timeout = WORK_SLICE_TIMEOUT_MAX;
	return (timeout << scale) * WORK_SLICE_UNIT;
}

/* Whether a channel of the group has work and may run. */
static bool group_is_runnable(const struct work *work, uint32_t group)
{
	const struct work_group *of = &work->group[group];
	uint32_t at = of->next_channel, left;

	if (!of->scheduled)
		return false;
	for (left = of->channels; left; left--) {
		if (work->channel[at].enabled && work->channel[at].count)
			return true;
		at = work->channel[at].next;
	}
	return false;
}

static uint64_t runlist_length(const struct work_engine *engine)
{
	uint64_t high = engine->begin[1], medium = engine->begin[2] - high, low = engine->begin[3] - engine->begin[2];

	if (low)
		return low * (medium * (high + 1) + high + 1);
	return medium ? medium * (high + 1) : high;
}

/* The group at a place of the list, which repeats those of the higher levels before each of the lower ones. */
static uint32_t runlist_at(const struct work_engine *engine, uint64_t place)
{
	uint64_t high = engine->begin[1], medium = engine->begin[2] - high, low = engine->begin[3] - engine->begin[2];
	uint64_t mediums = medium * (high + 1), round = mediums + high + 1, within;

	if (!low && !medium)
		return engine->order[place];
	within = low ? place % round : place;
	if (within < mediums) {
		if (within % (high + 1) < high)
			return engine->order[within % (high + 1)];
		return engine->order[high + within / (high + 1)];
	}
	if (within - mediums < high)
		return engine->order[within - mediums];
	return engine->order[engine->begin[2] + place / round];
}

static bool runlist_has_other(const struct work *work, const struct work_engine *engine, uint32_t group)
{
	uint32_t index;

	for (index = 0; index < engine->begin[WORK_LEVELS]; index++) {
		if (engine->order[index] != group && group_is_runnable(work, engine->order[index]))
			return true;
	}
	return false;
}

uint32_t runlist_next(const struct work *work, const struct work_engine *engine, uint64_t *place)
{
	uint64_t length = runlist_length(engine), at = engine->cursor, left;

	if (!runlist_has_other(work, engine, WORK_NONE))
		return WORK_NONE;
	for (left = length; left; left--) {
		at = at + 1 < length ? at + 1 : 0;
		if (group_is_runnable(work, runlist_at(engine, at))) {
			*place = at;
			return runlist_at(engine, at);
		}
	}
	return WORK_NONE;
}

static uint32_t level_of(const struct work *work, const struct work_group *group)
{
	if (group->realtime)
		return WORK_LEVEL_HIGH;
	return work->interleaved ? group->level : WORK_LEVEL_LOW;
}

/* Those of a level, behind what is in the list already. */
static void append(struct work *work, struct work_engine *engine, uint32_t level, bool realtime)
{
	uint32_t index, number = (uint32_t)(engine - work->engine);

	for (index = 0; index < work->groups; index++) {
		const struct work_group *group = &work->group[index];

		if (group->used && group->scheduled && group->channels && group->engine == number &&
			group->realtime == realtime && level_of(work, group) == level)
			engine->order[engine->begin[WORK_LEVELS]++] = (uint16_t)index;
	}
}

void runlist_restart(struct work_engine *engine)
{
	engine->cursor = runlist_length(engine) - 1; /* the next one is the first */
	engine_leave(engine, WORK_EXPIRED);
}

void runlist_submit(struct work *work, uint32_t number)
{
	struct work_engine *engine = &work->engine[number];

	memset(engine->begin, 0, sizeof(engine->begin));
	append(work, engine, WORK_LEVEL_HIGH, true);
	append(work, engine, WORK_LEVEL_HIGH, false);
	engine->begin[1] = engine->begin[3];
	append(work, engine, WORK_LEVEL_MEDIUM, false);
	engine->begin[2] = engine->begin[3];
	append(work, engine, WORK_LEVEL_LOW, false);
	/* Each once, in order, unless levels count. */
	if (!work->interleaved)
		engine->begin[1] = engine->begin[2] = engine->begin[3];
	runlist_restart(engine);
}
