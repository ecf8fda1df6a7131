// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0
/*
 * The channel groups and channels of each instance: what gates and time slices are set for. Those of removed containers
 * that the driver has not dropped yet are strays, which get no GPU time.
 */
#include "ledger.h"
#include "registry.h"
#include "sched.h"

u32 core_runlist_of(u32 engine)
{
	/* None named is the graphics engine on cards that do not have to be told. */
	if (engine == NV2080_ENGINE_TYPE_NULL || (engine >= NV2080_ENGINE_TYPE_GR0 && engine <= NV2080_ENGINE_TYPE_GR7))
		return 0;
	engine -= NV2080_ENGINE_TYPE_GR7;
	return engine < CORE_RUNLISTS ? engine : CORE_RUNLISTS - 1;
}

static struct core_lane *lane_of(struct cgpu_state *state, const struct core_object *record)
{
	return &state->gpu[record->gpu].share.lane[record->lane];
}

/* A channel that no group on record holds: the driver makes one, which has no handle to set its time slice by. */
static int is_bare(const struct cgpu_state *state, const struct core_object *record)
{
	return record->kind == CORE_OBJECT_CHANNEL &&
		(record->parent == CORE_NONE || state->object[record->parent].kind != CORE_OBJECT_CHANNEL_GROUP);
}

static void put(struct cgpu_state *state, u32 object, u32 number)
{
	struct core_object *record = &state->object[object];
	struct core_lane *lane;

	record->lane = number;
	lane = lane_of(state, record);
	record->lane_before = CORE_NONE;
	record->lane_after = lane->first;
	if (lane->first != CORE_NONE)
		state->object[lane->first].lane_before = object;
	lane->first = object;
	state->gpu[record->gpu].share.untold |= 1u << number;
	lane->channels += record->kind == CORE_OBJECT_CHANNEL;
	lane->groups += record->kind == CORE_OBJECT_CHANNEL_GROUP;
}

static void take(struct cgpu_state *state, u32 object)
{
	struct core_object *record = &state->object[object];
	struct core_lane *lane = lane_of(state, record);

	if (record->lane_after != CORE_NONE)
		state->object[record->lane_after].lane_before = record->lane_before;
	if (record->lane_before != CORE_NONE)
		state->object[record->lane_before].lane_after = record->lane_after;
	else
		lane->first = record->lane_after;
	lane->channels -= record->kind == CORE_OBJECT_CHANNEL;
	lane->groups -= record->kind == CORE_OBJECT_CHANNEL_GROUP;
	record->lane = CORE_NONE;
}

int core_lane_active(const struct cgpu_state *state, const struct core_object *record)
{
	return state->gpu[record->gpu].share.sampled - state->client[record->client].sampled[record->gpu] < 2;
}

int core_lane_full(struct cgpu_state *state, u32 gpu, u32 slot)
{
	u32 number;

	return core_instance_of(state, gpu, slot, &number) &&
		state->gpu[gpu].share.lane[number].groups >= CORE_GROUPS_MAX;
}

void core_lane_link(struct cgpu_state *state, u32 object)
{
	struct core_object *record = &state->object[object];
	u32 slot = state->client[record->client].slot, number = CORE_STRAYS;

	if (record->kind != CORE_OBJECT_CHANNEL_GROUP && record->kind != CORE_OBJECT_CHANNEL)
		return;
	/* Who has the card whole has it whole. */
	if (slot != CORE_NONE && core_instance_of(state, record->gpu, slot, &number) == NULL)
		return;
	put(state, object, number);
	core_sched_stirred(state, record->gpu);
	/* It counts as busy until the samples of a whole look were without it. */
	state->client[record->client].sampled[record->gpu] = state->gpu[record->gpu].share.sampled;
	record->bare = number != CORE_STRAYS && is_bare(state, record);
	state->gpu[record->gpu].share.bare += record->bare;
	core_sched_channels(state, record->gpu, number);
	if (number != CORE_STRAYS)
		core_sched_seen(state, record->gpu, number, 1);
}

void core_lane_unlink(struct cgpu_state *state, u32 object)
{
	struct core_object *record = &state->object[object];
	u32 number = record->lane;

	if (number == CORE_NONE)
		return;
	take(state, object);
	core_sched_stirred(state, record->gpu);
	state->gpu[record->gpu].share.bare -= record->bare;
	core_sched_channels(state, record->gpu, number);
}

void core_lane_stray(struct cgpu_state *state, u32 gpu, u32 number)
{
	struct core_lane *lane = &state->gpu[gpu].share.lane[number];

	while (lane->first != CORE_NONE) {
		u32 object = lane->first;

		take(state, object);
		put(state, object, CORE_STRAYS);
		state->gpu[gpu].share.bare -= state->object[object].bare;
		state->object[object].bare = 0;
	}
}

static void doubt(struct core_object *record)
{
	if (record->kind != CORE_OBJECT_CHANNEL)
		return;
	record->doubts++;
	record->told = CORE_GATE_UNKNOWN;
}

void core_lane_doubt(struct cgpu_state *state, u32 object)
{
	struct core_object *record = &state->object[object];
	u32 at;

	if (record->lane == CORE_NONE)
		return;
	state->gpu[record->gpu].share.untold |= 1u << record->lane;
	doubt(record);
	for (at = record->child; at != CORE_NONE; at = state->object[at].after)
		doubt(&state->object[at]);
}
