// SPDX-License-Identifier: Apache-2.0
/* The simulated card's groups, channels and queues. */
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

uint32_t work_group_add(struct work *work, uint32_t engine)
{
	uint32_t index = 0;

	while (index < WORK_GROUPS && work->group[index].used)
		index++;
	if (engine >= work->setup.engines || index == WORK_GROUPS)
		return WORK_NONE;
	work->group[index] = (struct work_group){
		.used = true,
		.scheduled = true,
		.engine = engine,
		.level = WORK_LEVEL_LOW,
		.serial = ++work->serial,
		.slice = work_slice(WORK_SLICE_DEFAULT),
		.turn = WORK_NONE,
	};
	if (index >= work->groups)
		work->groups = index + 1;
	return index;
}

static void join(struct work *work, uint32_t index, uint32_t number)
{
	struct work_channel *channel = &work->channel[index];
	struct work_group *group = &work->group[number];

	if (!group->channels) {
		channel->next = channel->prev = group->turn = index;
	} else {
		channel->next = group->turn;
		channel->prev = work->channel[group->turn].prev;
		work->channel[channel->prev].next = index;
		work->channel[channel->next].prev = index;
	}
	group->channels++;
}

uint32_t work_channel_add(struct work *work, uint32_t group, uint32_t queue)
{
	uint32_t index = 0;
	struct work_item *items;

	while (index < WORK_CHANNELS && work->channel[index].used)
		index++;
	if (!work_group_exists(work, group) || work->group[group].channels == WORK_GROUP_CHANNELS ||
		index == WORK_CHANNELS || !queue || queue > WORK_QUEUE_MAX)
		return WORK_NONE;
	items = calloc(queue, sizeof(*items));
	if (!items)
		return WORK_NONE;
	work->channel[index] = (struct work_channel){
		.used = true,
		.enabled = true,
		.group = group,
		.serial = ++work->serial,
		.items = items,
		.size = queue,
	};
	join(work, index, group);
	runlist_submit(work, work->group[group].engine);
	work_settle(work);
	return index;
}

static void leave_group(struct work *work, uint32_t index)
{
	struct work_channel *channel = &work->channel[index];
	struct work_group *group = &work->group[channel->group];

	work->channel[channel->prev].next = channel->next;
	work->channel[channel->next].prev = channel->prev;
	if (group->turn == index)
		group->turn = channel->next;
	group->channels--;
	if (!group->channels)
		group->turn = WORK_NONE;
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
	uint32_t engine;

	if (!work_channel_exists(work, channel))
		return -ENOENT;
	engine = work->group[work->channel[channel].group].engine;
	remove_channel(work, channel);
	runlist_submit(work, engine);
	work_settle(work);
	return 0;
}

int work_group_remove(struct work *work, uint32_t group)
{
	struct work_engine *engine;

	if (!work_group_exists(work, group))
		return -ENOENT;
	engine = &work->engine[work->group[group].engine];
	while (work->group[group].channels)
		remove_channel(work, work->group[group].turn);
	if (engine->loaded == group)
		engine_drop(work, engine);
	if (engine->for_group == group)
		engine->for_group = WORK_NONE;
	work->group[group].used = false;
	runlist_submit(work, work->group[group].engine);
	work_settle(work);
	return 0;
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
	channel->items[(channel->first + channel->count) % channel->size] = (struct work_item){
		.kernel = *kernel,
		.submitted = work->now,
	};
	channel->count++;
	channel->submitted++;
	work->group[channel->group].submitted++;
	work_settle(work);
	return 0;
}
