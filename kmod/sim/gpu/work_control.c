// SPDX-License-Identifier: Apache-2.0
/* The driver's calls on the simulated card's groups and channels, and the card's time, in which they act. */
#include <errno.h>
#include <stdlib.h>

#include "work_inside.h"

#define FIRST_ROOM 64u

static struct work_command *command_at(const struct work *work, uint32_t index)
{
	return &work->commands[(work->command_first + index) % work->command_room];
}

static bool make_room(struct work *work, uint32_t more)
{
	uint32_t room = work->command_room ? work->command_room : FIRST_ROOM, index;
	struct work_command *ring;

	while (room < work->command_count + more)
		room *= 2;
	if (room == work->command_room)
		return true;
	ring = calloc(room, sizeof(*ring));
	if (!ring)
		return false;
	for (index = 0; index < work->command_count; index++)
		ring[index] = *command_at(work, index);
	free(work->commands);
	work->commands = ring;
	work->command_room = room;
	work->command_first = 0;
	return true;
}

static void push(struct work *work, struct work_command command)
{
	command.at = work->now + work->setup.command_ns;
	*command_at(work, work->command_count++) = command;
}

static int on_group(struct work *work, uint32_t group, enum work_command_kind kind, uint64_t value)
{
	if (!work_group_exists(work, group))
		return -ENOENT;
	if (!make_room(work, 1))
		return -ENOMEM;
	push(work,
		(struct work_command){
			.kind = kind, .target = group, .value = value, .serial = work->group[group].serial });
	work_settle(work);
	return 0;
}

int work_channels_disable(struct work *work, const uint32_t *channels, uint32_t count, bool disable)
{
	uint32_t index;

	if (count > WORK_CHANNELS)
		return -EINVAL;
	for (index = 0; index < count; index++) {
		if (!work_channel_exists(work, channels[index]))
			return -ENOENT;
	}
	if (!make_room(work, count))
		return -ENOMEM;
	for (index = 0; index < count; index++)
		push(work,
			(struct work_command){ .kind = WORK_COMMAND_ENABLE,
				.target = channels[index],
				.value = !disable,
				.serial = work->channel[channels[index]].serial });
	work_settle(work);
	return 0;
}

int work_group_schedule(struct work *work, uint32_t group, bool enable)
{
	return on_group(work, group, WORK_COMMAND_SCHEDULE, enable);
}

int work_group_timeslice(struct work *work, uint32_t group, uint64_t us)
{
	return on_group(work, group, WORK_COMMAND_TIMESLICE, us);
}

static void apply_to_channel(struct work *work, const struct work_command *command)
{
	struct work_channel *channel = &work->channel[command->target];
	struct work_engine *engine;

	if (!channel->used || channel->serial != command->serial)
		return;
	engine = &work->engine[work->group[channel->group].engine];
	channel->enabled = command->value;
	if (!channel->enabled && engine->channel == command->target)
		engine_leave(engine, WORK_FORCED);
}

static void apply_to_group(struct work *work, const struct work_command *command)
{
	struct work_group *group = &work->group[command->target];
	struct work_engine *engine;

	if (!group->used || group->serial != command->serial)
		return;
	engine = &work->engine[group->engine];
	if (command->kind == WORK_COMMAND_TIMESLICE) {
		group->slice = work_slice(command->value);
		runlist_restart(engine);
		return;
	}
	group->scheduled = command->value;
	runlist_submit(work, group->engine);
	if (engine->loaded == command->target && !group->scheduled)
		engine_leave(engine, WORK_FORCED);
}

static void apply(struct work *work, const struct work_command *command)
{
	if (command->kind == WORK_COMMAND_ENABLE)
		apply_to_channel(work, command);
	else
		apply_to_group(work, command);
}

static uint64_t commands_next(const struct work *work)
{
	return work->command_count ? command_at(work, 0)->at : WORK_NEVER;
}

static void commands_apply(struct work *work)
{
	struct work_command command;

	while (commands_next(work) <= work->now) {
		command = *command_at(work, 0);
		work->command_first = (work->command_first + 1) % work->command_room;
		work->command_count--;
		apply(work, &command);
	}
}

uint32_t work_pending(const struct work *work)
{
	uint32_t sum = work->command_count, index;

	for (index = 0; index < work->setup.engines; index++)
		sum += work->engine[index].leave == WORK_FORCED || work->engine[index].state == WORK_SAVING;
	return sum;
}

uint64_t work_next(const struct work *work)
{
	uint64_t next = commands_next(work), at;
	uint32_t index;

	for (index = 0; index < work->setup.engines; index++) {
		at = engine_next(work, &work->engine[index]);
		if (at < next)
			next = at;
	}
	return next;
}

/* Engines settle one after the other; work that one engine's end gives another at the same time is done too. */
void work_settle(struct work *work)
{
	uint32_t index;

	work->kicked = true;
	if (work->inside)
		return;
	work->inside = true;
	while (work->kicked) {
		work->kicked = false;
		commands_apply(work);
		for (index = 0; index < work->setup.engines; index++)
			engine_settle(work, &work->engine[index]);
	}
	work->inside = false;
}

static void step(struct work *work, uint64_t to)
{
	uint32_t index;

	for (index = 0; index < work->setup.engines; index++)
		engine_spend(work, &work->engine[index], to - work->now);
	work->now = to;
	work_settle(work);
}

void work_advance(struct work *work, uint64_t until)
{
	uint64_t next;

	if (work->inside || until == WORK_NEVER)
		return;
	while ((next = work_next(work)) <= until)
		step(work, next);
	if (work->now < until)
		step(work, until);
}
