// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
/* Timeslices of channel groups: worked out for all of a GPU, and set in the driver group by group. */
#include "ledger/ledger.h"
#include "sched/sched.h"

/* Divisor for groups that seem to be idle: together they have this part of their container's time while others of it
 * are at work. The driver does not report every process, and not at once. */
#define IDLE_PART 256u

/* The driver's own, 128 << 3 (src/nvidia/src/kernel/gpu/fifo/arch/volta/kernel_fifo_gv100.c:46). */
#define SLICE_DEFAULT_US 1024u

/* Active groups of a TSG list on a runlist; where there is none, all of them count as active. */
static u32 count_groups(const struct cgpu_state *state, const struct core_tsg_list *tsg_list, u32 runlist, u32 *idle)
{
	u32 active = 0, at;

	*idle = 0;
	for (at = tsg_list->first; at != CORE_NONE; at = state->object[at].tsg_after) {
		const struct core_object *record = &state->object[at];

		if (record->kind != CORE_OBJECT_CHANNEL_GROUP || record->runlist != runlist)
			continue;
		active += (u32)core_tsg_active(state, record);
		*idle += (u32)!core_tsg_active(state, record);
	}
	if (active == 0) {
		active = *idle;
		*idle = 0;
	}
	return active < CGPU_SCHED_GROUPS_MAX ? active : CGPU_SCHED_GROUPS_MAX;
}

static void set_slices(struct core_tsg_list *tsg_list, u32 runlist, u64 us, u32 active, u32 idle)
{
	struct cgpu_sched_timeslice slice;

	tsg_list->slice[runlist] = (u32)us;
	tsg_list->idle_slice[runlist] = (u32)us;
	if (us == 0 || idle == 0)
		return;
	tsg_list->slice[runlist] = (u32)(us - us / IDLE_PART);
	cgpu_sched_quantise(us * active * 1024 / (IDLE_PART * idle), &slice);
	tsg_list->idle_slice[runlist] = (u32)slice.us;
}

/* Timeslice that a group should have, in us. */
static u32 slice_of(
	const struct cgpu_state *state, const struct core_tsg_list *tsg_list, const struct core_object *record)
{
	u32 us = core_tsg_active(state, record) ? tsg_list->slice[record->runlist] :
						  tsg_list->idle_slice[record->runlist];

	/* A timeslice that was set before does not outlast the policy. */
	return us == 0 && record->applied ? SLICE_DEFAULT_US : us;
}

/* A timeslice that could not be set is tried again. A channel's `left` is not about that: core_channels_retry(). */
static void try_again(struct core_object *record)
{
	if (record->kind == CORE_OBJECT_CHANNEL_GROUP)
		record->left = 0;
}

/* The runlists that the groups of a TSG list are on, as bits. Groups that could not be reached are tried again. */
static u32 runlists_of(struct cgpu_state *state, const struct core_tsg_list *tsg_list)
{
	u32 used = 0, at;

	for (at = tsg_list->first; at != CORE_NONE; at = state->object[at].tsg_after) {
		try_again(&state->object[at]);
		used |= 1u << state->object[at].runlist;
	}
	return used;
}

void core_timeslices_compute(struct cgpu_state *state, u32 gpu)
{
	struct core_share *share = &state->gpu[gpu].share;
	struct cgpu_sched_timeslice slices[CGPU_SCHED_SLOTS];
	u32 groups[CGPU_SCHED_SLOTS], idle[CGPU_SCHED_SLOTS];
	u32 own = share->sched.settings.time_slices;
	u32 runlist, number, used = 0;

	core_assert_locked();
	share->timeslices_due = 0;
	for (number = 0; number < CGPU_MAX_INST; number++)
		used |= runlists_of(state, &share->tsg_list[number]);
	share->timeslices_applied = 0;
	/* Channels may be enabled and disabled because a group could not be reached: it may be reachable by now. */
	share->sched.settings.time_slices = !share->timeslices_fail;
	for (runlist = 0; runlist < CORE_RUNLISTS; runlist++) {
		/* The numbers of a runlist that no group uses do not matter. */
		if (runlist && !(used >> runlist & 1))
			continue;
		for (number = 0; number < CGPU_SCHED_SLOTS; number++) {
			const struct core_tsg_list *tsg_list = &share->tsg_list[number];

			groups[number] = count_groups(state, tsg_list, runlist, &idle[number]);
		}
		if (cgpu_sched_timeslices(&share->sched, groups, slices))
			memset(slices, 0, sizeof(slices));
		for (number = 0; number < CGPU_SCHED_SLOTS; number++)
			set_slices(&share->tsg_list[number], runlist, slices[number].us, groups[number], idle[number]);
	}
	share->sched.settings.time_slices = own;
}

static int is_due(
	const struct cgpu_state *state, const struct core_tsg_list *tsg_list, const struct core_object *record)
{
	u32 us;

	if (record->kind != CORE_OBJECT_CHANNEL_GROUP)
		return 0;
	us = slice_of(state, tsg_list, record);
	return us && record->applied != us;
}

/* Bit of a cursor: the walk has begun. The other bits are the TSG list. */
#define BEGUN (1u << 31)

/* A walk over one client tries each group that could not be reached once more. */
static void begin_walk(struct cgpu_state *state, const struct core_share *share, u32 client, u32 *cursor)
{
	u32 number, at;

	if (*cursor & BEGUN)
		return;
	*cursor = BEGUN;
	for (number = 0; client && number < CGPU_MAX_INST; number++) {
		for (at = share->tsg_list[number].first; at != CORE_NONE; at = state->object[at].tsg_after) {
			if (state->client[state->object[at].client].handle == client)
				try_again(&state->object[at]);
		}
	}
}

static u32 find_due(struct cgpu_state *state, struct core_share *share, u32 client, u32 *cursor)
{
	u32 at;

	begin_walk(state, share, client, cursor);
	for (; (*cursor & ~BEGUN) < CGPU_MAX_INST; ++*cursor) {
		const struct core_tsg_list *tsg_list = &share->tsg_list[*cursor & ~BEGUN];

		for (at = tsg_list->first; at != CORE_NONE; at = state->object[at].tsg_after) {
			const struct core_object *record = &state->object[at];

			if (!is_due(state, tsg_list, record) || record->left)
				continue;
			if (client == 0 || state->client[record->client].handle == client)
				return at;
		}
	}
	return CORE_NONE;
}

int cgpu_timeslices_next(struct cgpu_core *core, u32 gpu, u32 client, u32 *cursor, struct cgpu_timeslice *slice)
{
	struct core_gpu *found;
	u32 at = CORE_NONE;

	memset(slice, 0, sizeof(*slice));
	core_lock(core);
	found = core_gpu(core->state, gpu);
	if (found && !found->share.timeslices_fail && (client || !found->share.timeslices_applied))
		at = find_due(core->state, &found->share, client, cursor);
	if (at != CORE_NONE) {
		struct core_object *record = &core->state->object[at];

		slice->gpu = gpu;
		slice->client = core->state->client[record->client].handle;
		slice->tgid = core->state->client[record->client].tgid;
		slice->group = record->handle;
		slice->us = slice_of(core->state, &found->share.tsg_list[*cursor & ~BEGUN], record);
		slice->object = at;
		slice->serial = record->serial;
	} else if (found && client == 0) {
		found->share.timeslices_applied = 1;
	}
	core_unlock(core);
	return at != CORE_NONE ? 0 : -ENOENT;
}

/* A container can keep the engine from a descriptor, and a group may be in a state in which the driver sets nothing.
 * Then enabling and disabling channels divides the time, until the timeslice is set or the group has gone. */
static void note(struct cgpu_state *state, const struct cgpu_timeslice *slice, u32 status)
{
	struct core_object *record = &state->object[slice->object];
	struct core_share *share = &state->gpu[slice->gpu].share;
	u32 without_tsg = status != NV_OK && !core_sched_has_gone(status);

	/* A walk has failed on a group that a call of its client has set meanwhile. */
	if (without_tsg && record->applied == slice->us)
		return;
	share->without_tsg += without_tsg - record->without_tsg;
	record->without_tsg = without_tsg;
	record->left = without_tsg;
	record->applied = without_tsg ? 0 : slice->us;
	if (share->sched.settings.time_slices != core_sched_by_slices(share))
		core_sched_policy(state, slice->gpu);
}

void cgpu_timeslices_done(struct cgpu_core *core, const struct cgpu_timeslice *slice, u32 status)
{
	struct cgpu_state *state = core->state;
	struct core_object *record;
	struct core_gpu *found;
	int failed = 0;

	core_lock(core);
	found = core_gpu(state, slice->gpu);
	if (found)
		found->share.timeslices_work |= status == NV_OK;
	if (found && status == NV_ERR_NOT_SUPPORTED && !found->share.timeslices_work) {
		failed = !found->share.timeslices_fail;
		found->share.timeslices_fail = status;
		core_sched_policy(state, slice->gpu);
	} else if (found) {
		record = core_object_noted(state, slice->object, slice->serial);
		if (record && record->tsg_list < CGPU_MAX_INST)
			note(state, slice, status);
	}
	core_unlock(core);
	if (failed)
		core_sched_failure_line(
			core, slice->gpu, "SET_TIMESLICE", status, "gates divide the time under policies 1 and 4");
}
