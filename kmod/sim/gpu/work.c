// SPDX-License-Identifier: Apache-2.0
/* The simulated card's groups, channels and queues, and their figures. */
#include <errno.h>
#include <stdlib.h>

#include "work_inside.h"

struct work *work_create(const struct work_setup *setup)
{
	struct work *work;
	uint32_t index;

	if (!setup->engines || setup->engines > WORK_ENGINES || setup->switch_ns > WORK_LONGEST ||
		setup->save_ns > WORK_LONGEST || setup->command_ns > WORK_LONGEST)
		return NULL;
	work = calloc(1, sizeof(*work));
	if (!work)
		return NULL;
	work->setup = *setup;
	for (index = 0; index < WORK_ENGINES; index++)
		work->engine[index].loaded = work->engine[index].channel = WORK_NONE;
	return work;
}

void work_destroy(struct work *work)
{
	uint32_t index;

	if (!work)
		return;
	for (index = 0; index < WORK_CHANNELS; index++)
		free(work->channel[index].items);
	free(work->commands);
	free(work);
}

void work_on_done(struct work *work, work_done_fn done, void *ctx)
{
	work->done = done;
	work->done_ctx = ctx;
}

uint32_t work_group_add(struct work *work, uint32_t engine, bool scheduled)
{
	uint32_t index = 0;

	while (index < WORK_GROUPS && work->group[index].used)
		index++;
	if (engine >= work->setup.engines || index == WORK_GROUPS)
		return WORK_NONE;
	work->group[index] = (struct work_group){
		.used = true,
		.scheduled = scheduled,
		.engine = engine,
		.serial = ++work->serial,
		.slice = work_slice(WORK_SLICE_DEFAULT),
		.next_channel = WORK_NONE,
	};
	if (index >= work->groups)
		work->groups = index + 1;
	return index;
}

/* A scheduled group has changed: make its runlist anew. */
static void changed(struct work *work, uint32_t group)
{
	if (work->group[group].scheduled)
		runlist_submit(work, work->group[group].engine);
	work_settle(work);
}

static void join(struct work *work, uint32_t index, uint32_t number)
{
	struct work_channel *channel = &work->channel[index];
	struct work_group *group = &work->group[number];

	if (!group->channels) {
		channel->next = channel->prev = group->next_channel = index;
	} else {
		channel->next = group->next_channel;
		channel->prev = work->channel[group->next_channel].prev;
		work->channel[channel->prev].next = index;
		work->channel[channel->next].prev = index;
	}
	group->channels++;
}

uint32_t work_channel_add(struct work *work, uint32_t group, uint32_t queue, bool enabled)
{
	uint32_t index = 0;

	while (index < WORK_CHANNELS && work->channel[index].used)
		index++;
	if (!work_group_exists(work, group) || work->group[group].channels == WORK_GROUP_CHANNELS ||
		index == WORK_CHANNELS || !queue || queue > WORK_QUEUE_MAX)
		return WORK_NONE;
	work->channel[index] = (struct work_channel){
		.used = true,
		.enabled = enabled,
		.group = group,
		.serial = ++work->serial,
		.size = queue,
	};
	join(work, index, group);
	changed(work, group);
	return index;
}

static void leave_group(struct work *work, uint32_t index)
{
	struct work_channel *channel = &work->channel[index];
	struct work_group *group = &work->group[channel->group];

	work->channel[channel->prev].next = channel->next;
	work->channel[channel->next].prev = channel->prev;
	if (group->next_channel == index)
		group->next_channel = channel->next;
	group->channels--;
	if (!group->channels)
		group->next_channel = WORK_NONE;
	group->cancelled += channel->count;
}

static void remove_channel(struct work *work, uint32_t index)
{
	struct work_channel *channel = &work->channel[index];
	struct work_engine *engine = &work->engine[work->group[channel->group].engine];

	if (engine->channel == index)
		engine_drop(work, engine);
	leave_group(work, index);
	free(channel->items);
	memset(channel, 0, sizeof(*channel));
}

int work_channel_remove(struct work *work, uint32_t channel)
{
	uint32_t group;

	if (!work_channel_exists(work, channel))
		return -ENOENT;
	group = work->channel[channel].group;
	remove_channel(work, channel);
	changed(work, group);
	return 0;
}

int work_group_remove(struct work *work, uint32_t group)
{
	struct work_engine *engine;

	if (!work_group_exists(work, group))
		return -ENOENT;
	engine = &work->engine[work->group[group].engine];
	while (work->group[group].channels)
		remove_channel(work, work->group[group].next_channel);
	if (engine->loaded == group)
		engine_drop(work, engine);
	if (engine->for_group == group)
		engine->for_group = WORK_NONE;
	work->group[group].used = false;
	changed(work, group);
	return 0;
}

static bool has_queue(struct work_channel *channel)
{
	if (!channel->items)
		channel->items = calloc(channel->size, sizeof(*channel->items));
	return channel->items != NULL;
}

int work_submit(struct work *work, uint32_t number, const struct work_kernel *kernel)
{
	struct work_channel *channel;

	if (!work_channel_exists(work, number))
		return -ENOENT;
	if (!kernel->length || kernel->length > WORK_LONGEST)
		return -EINVAL;
	channel = &work->channel[number];
	if (channel->count == channel->size)
		return -EAGAIN;
	if (!has_queue(channel))
		return -ENOMEM;
	channel->items[(channel->first + channel->count) % channel->size] = (struct work_item){ .kernel = *kernel };
	channel->count++;
	channel->submitted++;
	work->group[channel->group].submitted++;
	work_settle(work);
	return 0;
}

uint64_t work_now(const struct work *work)
{
	return work->now;
}

int work_engine_figures(const struct work *work, uint32_t number, struct work_engine_figures *figures)
{
	const struct work_engine *engine;

	if (number >= work->setup.engines)
		return -ENOENT;
	engine = &work->engine[number];
	*figures = (struct work_engine_figures){
		.busy = engine->busy,
		.switching = engine->switching,
		.idle = engine->idle,
		.group = engine->loaded,
		.channel = engine->state == WORK_RUNNING ? engine->channel : WORK_NONE,
	};
	return 0;
}

static uint64_t queued(const struct work *work, const struct work_group *group)
{
	uint32_t at = group->next_channel, left;
	uint64_t sum = 0;

	for (left = group->channels; left; left--) {
		sum += work->channel[at].count;
		at = work->channel[at].next;
	}
	return sum;
}

int work_group_figures(const struct work *work, uint32_t number, struct work_group_figures *figures)
{
	const struct work_group *group;

	if (!work_group_exists(work, number))
		return -ENOENT;
	group = &work->group[number];
	*figures = (struct work_group_figures){
		.busy = group->busy,
		.switching = group->switching,
		.submitted = group->submitted,
		.completed = group->completed,
		.cancelled = group->cancelled,
		.queued = queued(work, group),
	};
	return 0;
}

int work_channel_figures(const struct work *work, uint32_t number, struct work_channel_figures *figures)
{
	const struct work_channel *channel;

	if (!work_channel_exists(work, number))
		return -ENOENT;
	channel = &work->channel[number];
	*figures = (struct work_channel_figures){
		.busy = channel->busy,
		.submitted = channel->submitted,
		.completed = channel->completed,
		.queued = channel->count,
	};
	return 0;
}
