// SPDX-License-Identifier: Apache-2.0
/*
 * One engine of the simulated card: its runlist, the group whose context is loaded, the kernel that runs, and the time
 * of the next change.
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

/* The group's next channel with work that may run, or WORK_NONE. A channel whose kernel was cut in the middle comes first. */
static uint32_t runnable_channel(const struct work *work, uint32_t number)
{
	const struct work_group *group = &work->group[number];
	uint32_t at = group->next_channel, left;

	if (!group->scheduled)
		return WORK_NONE;
	for (left = group->channels; left; left--) {
		if (work->channel[at].enabled && work->channel[at].count)
			return at;
		at = work->channel[at].next;
	}
	return WORK_NONE;
}

/* The next runnable group after the cursor, or WORK_NONE. *place: its place in the runlist. */
static uint32_t runlist_next(const struct work *work, const struct work_engine *engine, uint32_t *place)
{
	uint32_t at = engine->cursor, left;

	for (left = engine->length; left; left--) {
		at = at + 1 < engine->length ? at + 1 : 0;
		if (runnable_channel(work, engine->runlist[at]) != WORK_NONE) {
			*place = at;
			return engine->runlist[at];
		}
	}
	return WORK_NONE;
}

void runlist_restart(struct work_engine *engine)
{
	engine->cursor = engine->length - 1; /* so that runlist_next() starts with the first place */
	engine_leave(engine, WORK_EXPIRED);
}

void runlist_submit(struct work *work, uint32_t number)
{
	struct work_engine *engine = &work->engine[number];
	uint32_t index;

	engine->length = 0;
	for (index = 0; index < work->groups; index++) {
		const struct work_group *group = &work->group[index];

		if (group->used && group->scheduled && group->channels && group->engine == number)
			engine->runlist[engine->length++] = (uint16_t)index;
	}
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

/* Take the loaded group off the engine. */
static void unload(struct work_engine *engine)
{
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
	unload(engine);
	save(work, engine);
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
	uint32_t loaded = engine->loaded, place;

	if (engine->channel != WORK_NONE)
		is_cut = work_head(&work->channel[engine->channel])->progress > 0;
	if (!forced && runlist_next(work, engine, &place) == loaded) {
		unload(engine);
		load(work, engine);
		return;
	}
	unload(engine);
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
		engine->channel = runnable_channel(work, engine->loaded);
		if (engine->channel == WORK_NONE) {
			/* The group's context stays loaded until another group is loaded. */
			unload(engine);
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
