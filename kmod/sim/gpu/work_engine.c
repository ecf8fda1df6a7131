// SPDX-License-Identifier: Apache-2.0
/*
 * One engine of the simulated card: its runlist, the group whose context is loaded, the kernel that runs, and the time
 * of the next change. In an interleaved runlist, each group of level LOW comes once, each group of level MEDIUM before
 * every LOW group, and each group of level HIGH before every LOW and every MEDIUM group. ctrla06c.h
 * (NVA06C_CTRL_CMD_SET_INTERLEAVE_LEVEL) says how often each level comes; NVIDIA has not published the order. The
 * driver gives realtime groups the level HIGH and puts them first.
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
	const struct work_group *record = &work->group[group];
	uint32_t at = record->next_channel, left;

	if (!record->scheduled)
		return false;
	for (left = record->channels; left; left--) {
		if (work->channel[at].enabled && work->channel[at].count)
			return true;
		at = work->channel[at].next;
	}
	return false;
}

/* The number of places in the interleaved runlist. */
static uint64_t runlist_length(const struct work_engine *engine)
{
	uint64_t high = engine->begin[1], medium = engine->begin[2] - high, low = engine->begin[3] - engine->begin[2];

	if (low)
		return low * (medium * (high + 1) + high + 1);
	return medium ? medium * (high + 1) : high;
}

/* The group at a place of the interleaved runlist, which repeats higher levels before each group of a lower level. */
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

/* Whether a group other than `group` has work and may run. WORK_NONE: whether any group does. */
static bool runlist_has_other(const struct work *work, const struct work_engine *engine, uint32_t group)
{
	uint32_t index;

	for (index = 0; index < engine->begin[WORK_LEVELS]; index++) {
		if (engine->order[index] != group && group_is_runnable(work, engine->order[index]))
			return true;
	}
	return false;
}

/* The next runnable group after the cursor, or WORK_NONE. *place: its place in the interleaved runlist. */
static uint32_t runlist_next(const struct work *work, const struct work_engine *engine, uint64_t *place)
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

/* Append the scheduled groups of a level to the runlist. */
static void runlist_append(struct work *work, struct work_engine *engine, uint32_t level, bool realtime)
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
	engine->cursor = runlist_length(engine) - 1; /* so that runlist_next() starts with the first place */
	engine_leave(engine, WORK_EXPIRED);
}

void runlist_submit(struct work *work, uint32_t number)
{
	struct work_engine *engine = &work->engine[number];

	memset(engine->begin, 0, sizeof(engine->begin));
	runlist_append(work, engine, WORK_LEVEL_HIGH, true);
	runlist_append(work, engine, WORK_LEVEL_HIGH, false);
	engine->begin[1] = engine->begin[3];
	runlist_append(work, engine, WORK_LEVEL_MEDIUM, false);
	engine->begin[2] = engine->begin[3];
	runlist_append(work, engine, WORK_LEVEL_LOW, false);
	/* Without interleaving, the whole list counts as one level, so that each group comes once, in this order. */
	if (!work->interleaved)
		engine->begin[1] = engine->begin[2] = engine->begin[3];
	runlist_restart(engine);
}

/* Nanoseconds that a kernel has to run until it can be preempted; 0 for a kernel that has not begun. */
static uint64_t until_preemptible(const struct work_item *item)
{
	uint64_t whole = item->kernel.length, grain = item->kernel.grain, over, left = whole - item->progress;

	if (!item->progress)
		return 0;
	if (!grain)
		return left;
	over = item->progress % grain;
	if (!over)
		return 0;
	return grain - over < left ? grain - over : left;
}

uint64_t engine_next(const struct work *work, const struct work_engine *engine)
{
	const struct work_item *item;
	const struct work_channel *channel;
	uint64_t left, leaves;

	if (engine->state == WORK_IDLE)
		return WORK_NEVER;
	if (engine->state != WORK_RUNNING)
		return engine->until;
	channel = &work->channel[engine->channel];
	item = &channel->items[channel->first];
	left = item->kernel.length - item->progress;
	leaves = engine->leave == WORK_STAYS ? engine->slice_left : until_preemptible(item);
	return work->now + (leaves < left ? leaves : left);
}

void engine_spend(struct work *work, struct work_engine *engine, uint64_t ns)
{
	struct work_channel *channel;

	switch (engine->state) {
	case WORK_IDLE:
		engine->idle += ns;
		return;
	case WORK_SWITCHING:
	case WORK_SAVING:
		engine->switching += ns;
		if (engine->for_group != WORK_NONE)
			work->group[engine->for_group].switching += ns;
		return;
	case WORK_RUNNING:
		channel = &work->channel[engine->channel];
		work_head(channel)->progress += ns;
		engine->slice_left -= ns < engine->slice_left ? ns : engine->slice_left;
		engine->busy += ns;
		channel->busy += ns;
		work->group[channel->group].busy += ns;
		return;
	}
}

void engine_leave(struct work_engine *engine, enum work_leave why)
{
	if (engine->state != WORK_IDLE && engine->state != WORK_SAVING && why > engine->leave)
		engine->leave = why;
}

/* Take the loaded group off the engine. Channels of it that were disabled for scheduling only may no longer run. */
static void unload(struct work *work, struct work_engine *engine)
{
	const struct work_group *group = &work->group[engine->loaded];
	uint32_t at = group->next_channel, left;

	for (left = group->channels; left; left--) {
		work->channel[at].lingers = false;
		at = work->channel[at].next;
	}
	engine->channel = WORK_NONE;
	engine->leave = WORK_STAYS;
	engine->state = WORK_IDLE;
}

/* Begin to save the context of the loaded group, which takes setup.save_ns. */
static void save(struct work *work, struct work_engine *engine)
{
	engine->for_group = engine->loaded;
	engine->loaded = WORK_NONE;
	if (work->setup.save_ns) {
		engine->state = WORK_SAVING;
		engine->until = work->now + work->setup.save_ns;
	}
}

void engine_drop(struct work *work, struct work_engine *engine)
{
	unload(work, engine);
	save(work, engine);
}

/* The loaded group's next channel with work that may run. A channel whose kernel was cut in the middle comes first. */
static uint32_t next_channel(const struct work *work, const struct work_engine *engine)
{
	const struct work_group *group = &work->group[engine->loaded];
	uint32_t at = group->next_channel, left;

	if (!group->scheduled)
		return WORK_NONE;
	for (left = group->channels; left; left--) {
		const struct work_channel *channel = &work->channel[at];

		if ((channel->enabled || channel->lingers) && channel->count)
			return at;
		at = channel->next;
	}
	return WORK_NONE;
}

/* Complete the kernel that runs. */
static void finish_kernel(struct work *work, struct work_engine *engine)
{
	struct work_channel *channel = &work->channel[engine->channel];
	struct work_group *group = &work->group[channel->group];
	uint64_t tag = work_head(channel)->kernel.tag;
	uint32_t index = engine->channel;

	channel->first = channel->first + 1 < channel->size ? channel->first + 1 : 0;
	channel->count--;
	channel->completed++;
	group->completed++;
	group->next_channel = channel->next;
	engine->channel = WORK_NONE;
	if (work->done)
		work->done(work->done_ctx, index, tag);
}

/* Load the next runnable group. False: there is none. */
static bool load(struct work *work, struct work_engine *engine)
{
	uint32_t group = runlist_next(work, engine, &engine->cursor);

	if (group == WORK_NONE)
		return false;
	engine->leave = WORK_STAYS;
	engine->slice_left = work->group[group].slice;
	engine->state = WORK_RUNNING;
	if (group == engine->loaded)
		return true;
	engine->loaded = group;
	if (work->setup.switch_ns) {
		engine->for_group = group;
		engine->state = WORK_SWITCHING;
		engine->until = work->now + work->setup.switch_ns;
	}
	return true;
}

/* The loaded group gives the engine to the next one, perhaps itself, at a point where the kernel can be preempted. */
static void hand_over(struct work *work, struct work_engine *engine)
{
	bool forced = engine->leave == WORK_FORCED, is_cut = false;
	uint32_t loaded = engine->loaded;
	uint64_t place;

	if (engine->channel != WORK_NONE)
		is_cut = work_head(&work->channel[engine->channel])->progress > 0;
	if (!forced && runlist_next(work, engine, &place) == loaded) {
		unload(work, engine);
		load(work, engine);
		return;
	}
	unload(work, engine);
	if (is_cut)
		save(work, engine);
	else if (forced)
		engine->loaded = WORK_NONE;
}

/* True: call again, as there is more to do at work->now. */
static bool settle_running(struct work *work, struct work_engine *engine)
{
	struct work_item *item;

	if (engine->channel != WORK_NONE) {
		item = work_head(&work->channel[engine->channel]);
		if (item->progress == item->kernel.length) {
			finish_kernel(work, engine);
			return true;
		}
	} else {
		engine->channel = next_channel(work, engine);
		if (engine->channel == WORK_NONE) {
			/* The group's context stays loaded until another group is loaded. */
			unload(work, engine);
			return true;
		}
		work->group[engine->loaded].next_channel = engine->channel;
		item = work_head(&work->channel[engine->channel]);
	}
	if (!engine->slice_left && engine->leave == WORK_STAYS)
		engine->leave = WORK_EXPIRED;
	if (engine->leave != WORK_STAYS && !until_preemptible(item)) {
		hand_over(work, engine);
		return true;
	}
	return false;
}

void engine_settle(struct work *work, struct work_engine *engine)
{
	bool more = true;

	while (more) {
		switch (engine->state) {
		case WORK_IDLE:
			more = load(work, engine);
			break;
		case WORK_RUNNING:
			more = settle_running(work, engine);
			break;
		case WORK_SWITCHING:
			more = engine->until <= work->now;
			if (more)
				engine->state = WORK_RUNNING;
			break;
		case WORK_SAVING:
			more = engine->until <= work->now;
			if (more)
				engine->state = WORK_IDLE;
			break;
		}
	}
}
