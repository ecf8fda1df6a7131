// SPDX-License-Identifier: Apache-2.0
/* One engine of the simulated card: whose context is loaded, what runs, and when that changes. */
#include "work_inside.h"

/* What is left until the kernel that runs can be preempted: 0 where it has not begun. */
static uint64_t until_boundary(const struct work_item *item)
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
	uint64_t left, boundary;

	if (engine->state == WORK_IDLE)
		return WORK_NEVER;
	if (engine->state != WORK_RUNNING)
		return engine->until;
	channel = &work->channel[engine->channel];
	item = &channel->items[channel->first];
	left = item->kernel.length - item->progress;
	boundary = engine->leave == WORK_STAYS ? engine->slice_left : until_boundary(item);
	return work->now + (boundary < left ? boundary : left);
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

/* What comes off the engine is no longer anything but disabled. */
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

/* The group's next channel that may run; the one that was cut in the middle goes on first. */
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

static void finish(struct work *work, struct work_engine *engine)
{
	struct work_channel *channel = &work->channel[engine->channel];
	struct work_group *group = &work->group[channel->group];
	const struct work_item *item = work_head(channel);
	struct work_done done = {
		.channel = engine->channel,
		.group = channel->group,
		.tag = item->kernel.tag,
		.submitted = item->submitted,
		.started = item->started,
		.ended = work->now,
	};

	channel->first = channel->first + 1 < channel->size ? channel->first + 1 : 0;
	channel->count--;
	channel->completed++;
	group->completed++;
	group->next_channel = channel->next;
	engine->channel = WORK_NONE;
	if (work->done)
		work->done(work->done_ctx, &done);
}

/* Loads the group that is next. False: nobody has work. */
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
	engine->loads++;
	work->group[group].loads++;
	if (work->setup.switch_ns) {
		engine->for_group = group;
		engine->state = WORK_SWITCHING;
		engine->until = work->now + work->setup.switch_ns;
	}
	return true;
}

/* At a point at which it can be preempted: whoever is next has it now, which may be the same group. */
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

/* True: there is more to do at this time. */
static bool settle_running(struct work *work, struct work_engine *engine)
{
	struct work_item *item;

	if (engine->channel != WORK_NONE) {
		item = work_head(&work->channel[engine->channel]);
		if (item->progress == item->kernel.length) {
			finish(work, engine);
			return true;
		}
	} else {
		engine->channel = next_channel(work, engine);
		if (engine->channel == WORK_NONE) {
			/* Its context stays loaded until somebody else's is. */
			unload(work, engine);
			return true;
		}
		work->group[engine->loaded].next_channel = engine->channel;
		item = work_head(&work->channel[engine->channel]);
	}
	if (!engine->slice_left && engine->leave == WORK_STAYS)
		engine->leave = WORK_EXPIRED;
	if (engine->leave != WORK_STAYS && !until_boundary(item)) {
		hand_over(work, engine);
		return true;
	}
	if (!item->progress)
		item->started = work->now;
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
