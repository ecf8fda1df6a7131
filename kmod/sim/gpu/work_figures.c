// SPDX-License-Identifier: Apache-2.0
/* What the simulated card counts. */
#include <errno.h>

#include "work_inside.h"

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
		.loads = engine->loads,
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
		.loads = group->loads,
		.submitted = group->submitted,
		.completed = group->completed,
		.cancelled = group->cancelled,
		.queued = queued(work, group),
		.slice = group->slice,
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
		.enabled = channel->enabled,
	};
	return 0;
}
