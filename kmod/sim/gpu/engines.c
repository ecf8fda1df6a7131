// SPDX-License-Identifier: Apache-2.0
/* The driver's channel groups and channels on the engines of a simulated card. */
#include <errno.h>
#include <stdlib.h>
#include <time.h>

#include "doorbell.h"
#include "engines.h"

/* One engine for graphics and compute, those for copies, and one for all others, as video. */
#define GRAPHICS 0u
#define COPIES (NV2080_ENGINE_TYPE_COPY9 - NV2080_ENGINE_TYPE_COPY0 + 1)
#define OTHERS (COPIES + 1)
/* Estimates, as no source has them; docs/scheduling.md (How to measure) has the same. */
#define SWITCH_NS 30000u
#define SAVE_NS 20000u
#define COMMAND_NS 20000u
#define WAIT_STEP_NS 1000000u
#define WAIT_MOST_NS 1000000000u

uint64_t engines_time(const struct sim *sim)
{
	struct timespec now;

	if (!sim->follows_clock)
		return 0;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

uint32_t engines_status(int result)
{
	switch (result) {
	case 0:
		return NV_OK;
	case -EINVAL:
		return NV_ERR_INVALID_ARGUMENT;
	case -ENOMEM:
		return NV_ERR_NO_MEMORY;
	default:
		return NV_ERR_INVALID_STATE;
	}
}

static struct engines *create(struct sim *sim)
{
	static const struct work_setup setup = {
		.engines = OTHERS + 1, .switch_ns = SWITCH_NS, .save_ns = SAVE_NS, .command_ns = COMMAND_NS
	};
	struct engines *engines = calloc(1, sizeof(*engines));

	if (!engines)
		return NULL;
	engines->work = work_create(&setup);
	if (!engines->work) {
		free(engines);
		return NULL;
	}
	work_advance(engines->work, engines_time(sim));
	engines->next_sample = work_now(engines->work) + ENGINES_SAMPLE_NS;
	return engines;
}

uint32_t engines_need(struct sim *sim, uint32_t card)
{
	if (!sim->cards[card].engines)
		sim->cards[card].engines = create(sim);
	return sim->cards[card].engines ? NV_OK : NV_ERR_NO_MEMORY;
}

void engines_destroy(struct card *card)
{
	if (!card->engines)
		return;
	work_destroy(card->engines->work);
	free(card->engines);
	card->engines = NULL;
}

void engines_advance(struct sim *sim, uint32_t card)
{
	struct engines *engines = card == SIM_NO_CARD ? NULL : sim->cards[card].engines;

	if (engines)
		samples_advance(engines, engines_time(sim));
}

/* Nanoseconds until it may be over; 0: it is. */
static uint64_t pending(struct sim *sim, uint32_t card)
{
	const struct work *work;
	uint64_t left = 0;

	pthread_mutex_lock(&sim->lock);
	engines_advance(sim, card);
	work = sim->cards[card].engines ? sim->cards[card].engines->work : NULL;
	if (work && work_pending(work))
		left = work_next(work) - work_now(work);
	pthread_mutex_unlock(&sim->lock);
	return left < WAIT_STEP_NS ? left : WAIT_STEP_NS;
}

void engines_wait(struct sim *sim, uint32_t card)
{
	uint64_t begun = engines_time(sim), left = 1;
	struct timespec rest = { 0 };

	while (sim->follows_clock && left && engines_time(sim) - begun < WAIT_MOST_NS) {
		left = pending(sim, card);
		rest.tv_nsec = (long)left;
		if (left)
			nanosleep(&rest, NULL);
	}
}

static uint32_t engine_of(uint32_t type)
{
	if (type >= NV2080_ENGINE_TYPE_COPY0 && type <= NV2080_ENGINE_TYPE_COPY9)
		return 1 + type - NV2080_ENGINE_TYPE_COPY0;
	/* Unless told, it is the default runlist (kfifoGetDefaultRunlist). */
	return type <= NV2080_ENGINE_TYPE_GR7 ? GRAPHICS : OTHERS;
}

static void release(struct engines *engines, struct engine_group *group)
{
	struct engine_group **at = &engines->groups;

	if (--group->refs)
		return;
	samples_keep(engines, group);
	work_group_remove(engines->work, group->id);
	while (*at != group)
		at = &(*at)->next;
	*at = group->next;
	free(group);
}

static uint32_t make_group(struct sim *sim, const struct object *object, uint32_t engine, struct engine_group **made)
{
	const struct card *card = &sim->cards[object->card];
	struct engine_group *group;

	if (engines_need(sim, object->card) != NV_OK)
		return NV_ERR_NO_MEMORY;
	group = calloc(1, sizeof(*group));
	if (!group)
		return NV_ERR_NO_MEMORY;
	engines_advance(sim, object->card);
	group->engine = engine_of(engine);
	group->id = work_group_add(card->engines->work, group->engine, false);
	if (group->id == WORK_NONE) {
		free(group);
		return NV_ERR_NO_FREE_FIFOS;
	}
	group->refs = 1;
	group->card = object->card;
	group->process = object->client->process;
	group->is_bound = engine != NV2080_ENGINE_TYPE_NULL;
	group->timeslice = WORK_SLICE_DEFAULT;
	group->next = card->engines->groups;
	card->engines->groups = group;
	*made = group;
	return NV_OK;
}

uint32_t engines_group_add(struct sim *sim, struct object *object, uint32_t engine)
{
	return make_group(sim, object, engine, &object->group);
}

static uint32_t add_channel(struct engines *engines, struct engine_group *group, struct engine_channel *channel)
{
	/* kchangrpAddChannel_IMPL() */
	if (group->count == WORK_GROUP_CHANNELS)
		return NV_ERR_INSUFFICIENT_RESOURCES;
	channel->id = work_channel_add(engines->work, group->id, channel->queue, false);
	return channel->id == WORK_NONE ? NV_ERR_NO_FREE_FIFOS : NV_OK;
}

static uint32_t join(struct engines *engines, struct object *object, struct engine_group *group, uint32_t entries)
{
	struct engine_channel *channel = calloc(1, sizeof(*channel));
	uint32_t status;

	if (!channel)
		return NV_ERR_NO_MEMORY;
	channel->group = group;
	channel->queue = entries && entries < DOORBELL_QUEUE ? entries : DOORBELL_QUEUE;
	channel->is_stopped = true;
	status = add_channel(engines, group, channel);
	if (status != NV_OK) {
		free(channel);
		return status;
	}
	channel->next = group->channels;
	group->channels = channel;
	group->count++;
	group->refs++;
	object->group = group;
	object->channel = channel;
	return NV_OK;
}

uint32_t engines_channel_add(
	struct sim *sim, struct object *object, struct engine_group *group, uint32_t engine, uint32_t entries)
{
	/* A duplicate of a group can lie below another card. */
	uint32_t card = group ? group->card : object->card, status = NV_OK;
	struct engine_group *own = NULL;
	struct engines *engines;

	if (!group)
		status = make_group(sim, object, engine, &own);
	if (status != NV_OK)
		return status;
	engines_advance(sim, card);
	engines = sim->cards[card].engines;
	status = join(engines, object, own ? own : group, entries);
	/* The channel refers to its own group now; without a channel nothing needs that group. */
	if (own)
		release(engines, own);
	return status;
}

void engines_share(const struct object *source, struct object *copy)
{
	copy->group = source->group;
	if (copy->group)
		copy->group->refs++;
}

static void leave_group(struct engines *engines, struct engine_channel *channel)
{
	struct engine_channel **at = &channel->group->channels;

	while (*at != channel)
		at = &(*at)->next;
	*at = channel->next;
	channel->group->count--;
	work_channel_remove(engines->work, channel->id);
	free(channel);
}

void engines_leave(struct sim *sim, struct object *object)
{
	struct engines *engines;

	if (!object->group)
		return;
	engines = sim->cards[object->group->card].engines;
	engines_advance(sim, object->group->card);
	if (object->channel)
		leave_group(engines, object->channel);
	release(engines, object->group);
}

uint32_t engines_bind(struct sim *sim, struct engine_group *group, uint32_t type)
{
	struct engines *engines = sim->cards[group->card].engines;
	uint32_t engine = engine_of(type), id;
	struct engine_channel *channel;

	if (engine == group->engine) {
		group->is_bound = true;
		return NV_OK;
	}
	/* kfifoRunlistSetId */
	if (group->is_bound)
		return NV_ERR_INVALID_STATE;
	id = work_group_add(engines->work, engine, false);
	if (id == WORK_NONE)
		return NV_ERR_NO_FREE_FIFOS;
	samples_keep(engines, group);
	work_group_remove(engines->work, group->id);
	group->id = id;
	group->engine = engine;
	group->is_bound = true;
	group->sampled = 0;
	work_group_timeslice(engines->work, id, group->timeslice);
	for (channel = group->channels; channel; channel = channel->next)
		channel->id = work_channel_add(engines->work, id, channel->queue, false);
	return NV_OK;
}
