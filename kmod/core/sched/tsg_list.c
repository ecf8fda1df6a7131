// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
/*
 * The channel groups and channels of each instance, which are enabled and disabled, and get timeslices. Those of
 * removed containers that the driver has not dropped yet are orphaned channels, which get no GPU time.
 */
#include "ledger/ledger.h"
#include "registry/registry.h"
#include "sched/sched.h"

u32 core_runlist_of(u32 engine)
{
	/* A channel without an engine is on the graphics engine, on cards that need no name for it. */
	if (engine == NV2080_ENGINE_TYPE_NULL || (engine >= NV2080_ENGINE_TYPE_GR0 && engine <= NV2080_ENGINE_TYPE_GR7))
		return 0;
	engine -= NV2080_ENGINE_TYPE_GR7;
	return engine < CORE_RUNLISTS ? engine : CORE_RUNLISTS - 1;
}

static struct core_tsg_list *tsg_list_of(struct cgpu_state *state, const struct core_object *record)
{
	return &state->gpu[record->gpu].share.tsg_list[record->tsg_list];
}

/* Whether a channel has no group on record: the driver makes one, which has no handle to set its timeslice by. */
static int lacks_tsg(const struct cgpu_state *state, const struct core_object *record)
{
	return record->kind == CORE_OBJECT_CHANNEL &&
		(record->parent == CORE_NONE || state->object[record->parent].kind != CORE_OBJECT_CHANNEL_GROUP);
}

static void put(struct cgpu_state *state, u32 object, u32 number)
{
	struct core_object *record = &state->object[object];
	struct core_tsg_list *tsg_list;

	record->tsg_list = number;
	record->left = 0;
	tsg_list = tsg_list_of(state, record);
	record->tsg_before = CORE_NONE;
	record->tsg_after = tsg_list->first;
	if (tsg_list->first != CORE_NONE)
		state->object[tsg_list->first].tsg_before = object;
	tsg_list->first = object;
	state->gpu[record->gpu].share.dirty |= 1u << number;
	tsg_list->channels += record->kind == CORE_OBJECT_CHANNEL;
	tsg_list->groups += record->kind == CORE_OBJECT_CHANNEL_GROUP;
}

static void take(struct cgpu_state *state, u32 object)
{
	struct core_object *record = &state->object[object];
	struct core_tsg_list *tsg_list = tsg_list_of(state, record);

	if (record->tsg_after != CORE_NONE)
		state->object[record->tsg_after].tsg_before = record->tsg_before;
	if (record->tsg_before != CORE_NONE)
		state->object[record->tsg_before].tsg_after = record->tsg_after;
	else
		tsg_list->first = record->tsg_after;
	tsg_list->channels -= record->kind == CORE_OBJECT_CHANNEL;
	tsg_list->groups -= record->kind == CORE_OBJECT_CHANNEL_GROUP;
	record->tsg_list = CORE_NONE;
}

int core_tsg_active(const struct cgpu_state *state, const struct core_object *record)
{
	return state->gpu[record->gpu].share.sampled - state->client[record->client].sampled[record->gpu] < 2;
}

int core_tsg_list_full(struct cgpu_state *state, u32 gpu, u32 slot)
{
	u32 number;

	return core_instance_of(state, gpu, slot, &number) &&
		state->gpu[gpu].share.tsg_list[number].groups >= CORE_TSG_IDS;
}

/* The numbers of so many containers with so much memory. One half is divided equally between as many containers as the GPU takes,
 * the other one as its memory is. */
static u64 part_of(const struct core_gpu *gpu, u32 places, u64 bytes)
{
	u64 half = (CORE_TSG_IDS - CORE_TSG_IDS_OWN) / 2;

	return half * places / gpu->max_inst + half * (bytes >> 20) / ((gpu->facts.memtotal >> 20) + 1);
}

u32 core_tsg_ids_orphaned(const struct core_gpu *gpu)
{
	const struct core_tsg_list *orphans = &gpu->share.tsg_list[CORE_ORPHANED];

	return orphans->group_ids > orphans->channel_ids ? orphans->group_ids : orphans->channel_ids;
}

int core_tsg_ids_suffice(const struct core_gpu *gpu, u32 places, u64 bytes)
{
	u64 orphaned = core_tsg_ids_orphaned(gpu);

	return orphaned == 0 || orphaned + part_of(gpu, places, bytes) <= CORE_TSG_IDS - CORE_TSG_IDS_OWN;
}

int core_tsg_ids_left(struct cgpu_state *state, u32 gpu, u32 slot, u32 group_ids, u32 channel_ids)
{
	const struct core_instance *instance;
	const struct core_tsg_list *tsg_list;
	u32 number;
	u64 part;

	instance = core_instance_of(state, gpu, slot, &number);
	if (instance == NULL)
		return 1;
	tsg_list = &state->gpu[gpu].share.tsg_list[number];
	part = part_of(&state->gpu[gpu], 1, instance->slice.memsize);
	return tsg_list->group_ids + group_ids <= part && tsg_list->channel_ids + channel_ids <= part;
}

void core_tsg_link(struct cgpu_state *state, u32 object)
{
	struct core_object *record = &state->object[object];
	u32 slot = state->client[record->client].slot, number = CORE_ORPHANED;

	if (record->kind != CORE_OBJECT_CHANNEL_GROUP && record->kind != CORE_OBJECT_CHANNEL)
		return;
	/* Channels of a passthrough GPU are in no list. */
	if (slot != CORE_NONE && core_instance_of(state, record->gpu, slot, &number) == NULL)
		return;
	put(state, object, number);
	core_sched_runlist_changed(state, record->gpu);
	/* The process counts as busy until the samples of a whole interval were without it. */
	state->client[record->client].sampled[record->gpu] = state->gpu[record->gpu].share.sampled;
	record->without_tsg = number != CORE_ORPHANED && lacks_tsg(state, record);
	state->gpu[record->gpu].share.without_tsg += record->without_tsg;
	core_sched_channels(state, record->gpu, number);
	if (number != CORE_ORPHANED)
		core_sched_seen(state, record->gpu, number, 1);
}

void core_tsg_unlink(struct cgpu_state *state, u32 object)
{
	struct core_object *record = &state->object[object];
	u32 number = record->tsg_list;

	if (number == CORE_NONE)
		return;
	take(state, object);
	core_sched_runlist_changed(state, record->gpu);
	state->gpu[record->gpu].share.without_tsg -= record->without_tsg;
	core_sched_channels(state, record->gpu, number);
}

void core_tsg_list_orphan(struct cgpu_state *state, u32 gpu, u32 number)
{
	struct core_tsg_list *tsg_list = &state->gpu[gpu].share.tsg_list[number];

	while (tsg_list->first != CORE_NONE) {
		u32 object = tsg_list->first;

		take(state, object);
		put(state, object, CORE_ORPHANED);
		state->gpu[gpu].share.without_tsg -= state->object[object].without_tsg;
		state->object[object].without_tsg = 0;
	}
}

static void unknown(struct core_object *record)
{
	if (record->kind != CORE_OBJECT_CHANNEL)
		return;
	record->driver_changes++;
	record->applied = CORE_CHANNEL_UNKNOWN;
}

void core_tsg_unknown(struct cgpu_state *state, u32 object)
{
	struct core_object *record = &state->object[object];
	u32 at;

	if (record->tsg_list == CORE_NONE)
		return;
	state->gpu[record->gpu].share.dirty |= 1u << record->tsg_list;
	unknown(record);
	for (at = record->child; at != CORE_NONE; at = state->object[at].after)
		unknown(&state->object[at]);
}
