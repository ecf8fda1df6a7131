// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0
/* Time slices of channel groups: worked out for all of a GPU, and told to the driver group by group. */
#include "ledger.h"
#include "sched.h"

/* A group whose process was not at work in the last look at samples takes nothing from its like. */
static int is_active(const struct cgpu_state *state, const struct core_object *record)
{
	const struct core_share *share = &state->gpu[record->gpu].share;

	return share->sampled - state->client[record->client].sampled[record->gpu] < 2;
}

static u32 count_groups(const struct cgpu_state *state, const struct core_lane *lane, u32 runlist)
{
	u32 active = 0, at;

	for (at = lane->first; at != CORE_NONE; at = state->object[at].lane_after) {
		const struct core_object *record = &state->object[at];

		if (record->kind == CORE_OBJECT_CHANNEL_GROUP && record->runlist == runlist)
			active += (u32)is_active(state, record);
	}
	if (active == 0)
		return 1;
	return active < CGPU_SCHED_GROUPS_MAX ? active : CGPU_SCHED_GROUPS_MAX;
}

static void forget_left(struct cgpu_state *state, const struct core_lane *lane)
{
	u32 at;

	for (at = lane->first; at != CORE_NONE; at = state->object[at].lane_after)
		state->object[at].left = 0;
}

void core_slices_work_out(struct cgpu_state *state, u32 gpu)
{
	struct core_share *share = &state->gpu[gpu].share;
	struct cgpu_sched_time_slice slices[CGPU_SCHED_SLOTS];
	u32 groups[CGPU_SCHED_SLOTS];
	u32 own = share->sched.settings.time_slices;
	u32 runlist, number;

	share->slices_due = 0;
	share->slices_told = 0;
	/* Also while gates divide the time because of what could not be reached: it may be by now. */
	share->sched.settings.time_slices = !share->slices_fail;
	for (runlist = 0; runlist < CORE_RUNLISTS; runlist++) {
		for (number = 0; number < CGPU_SCHED_SLOTS; number++) {
			const struct core_lane *lane = &share->lane[number];

			if (runlist == 0)
				forget_left(state, lane);
			groups[number] = lane->first == CORE_NONE ? 0 : count_groups(state, lane, runlist);
		}
		if (cgpu_sched_time_slices(&share->sched, groups, slices))
			memset(slices, 0, sizeof(slices));
		for (number = 0; number < CGPU_SCHED_SLOTS; number++)
			share->lane[number].slice[runlist] = (u32)slices[number].us;
	}
	share->sched.settings.time_slices = own;
}

static int is_due(const struct core_lane *lane, const struct core_object *record)
{
	u32 us = lane->slice[record->runlist];

	return record->kind == CORE_OBJECT_CHANNEL_GROUP && us && record->told != us;
}

/* The next one in any lane, from where the cursor says: the lane, and how many of it were passed over. */
static u32 find_due(struct cgpu_state *state, struct core_share *share, u32 client, u32 *cursor)
{
	u32 at;

	for (; *cursor < CGPU_MAX_INST; ++*cursor) {
		const struct core_lane *lane = &share->lane[*cursor];

		for (at = lane->first; at != CORE_NONE; at = state->object[at].lane_after) {
			const struct core_object *record = &state->object[at];

			if (!is_due(lane, record) || (client == 0 && record->left))
				continue;
			if (client == 0 || state->client[record->client].handle == client)
				return at;
		}
	}
	return CORE_NONE;
}

int cgpu_slices_next(struct cgpu_core *core, u32 gpu, u32 client, u32 *cursor, struct cgpu_time_slice *slice)
{
	struct core_gpu *found;
	u32 at = CORE_NONE;

	memset(slice, 0, sizeof(*slice));
	core_lock(core);
	found = core_gpu(core->state, gpu);
	if (found && !found->share.slices_fail && (client || !found->share.slices_told))
		at = find_due(core->state, &found->share, client, cursor);
	if (at != CORE_NONE) {
		struct core_object *record = &core->state->object[at];

		slice->gpu = gpu;
		slice->client = core->state->client[record->client].handle;
		slice->tgid = core->state->client[record->client].tgid;
		slice->group = record->handle;
		slice->us = found->share.lane[*cursor].slice[record->runlist];
		slice->object = at;
		slice->serial = record->serial;
	} else if (found && client == 0) {
		found->share.slices_told = 1;
	}
	core_unlock(core);
	return at != CORE_NONE ? 0 : -ENOENT;
}

/* A container can keep everybody from a descriptor. Then gates divide the time, until the group is reached or gone. */
static void note(struct cgpu_state *state, const struct cgpu_time_slice *slice, u32 status)
{
	struct core_object *record = &state->object[slice->object];
	struct core_share *share = &state->gpu[slice->gpu].share;
	u32 bare = status == CGPU_LEVER_FAILED;

	share->bare += bare - record->bare;
	record->bare = bare;
	record->left = bare;
	/* Whatever else the driver said, it will say again: the group has gone, and its record follows. */
	record->told = bare ? 0 : slice->us;
	if (share->sched.settings.time_slices != (!share->slices_fail && !share->bare))
		core_sched_policy(state, slice->gpu);
}

void cgpu_slices_done(struct cgpu_core *core, const struct cgpu_time_slice *slice, u32 status)
{
	struct cgpu_state *state = core->state;
	struct core_object *record;
	struct core_gpu *found;
	int failed = 0;

	core_lock(core);
	found = core_gpu(state, slice->gpu);
	if (found && status == NV_ERR_NOT_SUPPORTED) {
		failed = !found->share.slices_fail;
		found->share.slices_fail = status;
		core_sched_policy(state, slice->gpu);
	} else if (found && slice->object < CGPU_MAX_OBJECTS) {
		record = &state->object[slice->object];
		if (record->live == CORE_LIVE && record->serial == slice->serial && record->lane != CORE_NONE)
			note(state, slice, status);
	}
	core_unlock(core);
	if (failed)
		core_lever_line(
			core, slice->gpu, "SET_TIMESLICE", status, "gates divide the time under policies 1 and 4");
}
