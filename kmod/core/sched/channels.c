// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
/* Decides channel by channel which must be stopped and which may run, and notes what the driver has applied. */
#include "ledger/ledger.h"
#include "sched/sched.h"

#define RETRY_NS 100000000ull

static u32 wanted(const struct core_share *share, u32 tsg_list)
{
	return share->open >> tsg_list & 1 ? CORE_CHANNEL_ENABLED : CORE_CHANNEL_DISABLED;
}

static void collect(struct cgpu_state *state, const struct core_share *share, u32 tsg_list, u32 most,
	struct cgpu_channel_batch *batch)
{
	u32 at;

	for (at = share->tsg_list[tsg_list].first; at != CORE_NONE && batch->count < most;
		at = state->object[at].tsg_after) {
		const struct core_object *record = &state->object[at];
		u32 n = batch->count;

		if (record->kind != CORE_OBJECT_CHANNEL || record->left || record->applied == wanted(share, tsg_list))
			continue;
		batch->client[n] = state->client[record->client].handle;
		batch->channel[n] = record->handle;
		batch->object[n] = at;
		batch->serial[n] = record->serial;
		batch->driver_changes[n] = record->driver_changes;
		batch->count++;
	}
}

/* All TSG lists that are to be disabled, or all that are to be enabled. */
static void gather(struct cgpu_state *state, struct core_share *share, u32 disable, struct cgpu_channel_batch *batch)
{
	u32 most = share->one_by_one ? 1 : CGPU_CHANNEL_BATCH;
	u32 bits = share->dirty & (disable ? ~share->open : share->open);

	batch->disable = disable;
	/* One instance at a time is stopped: the time that its kernels run on is its own. */
	for (; bits && batch->count < (disable ? 1 : most); bits &= bits - 1) {
		u32 tsg_list = core_first(bits), before = batch->count;

		collect(state, share, tsg_list, most, batch);
		if (batch->count == before) {
			share->dirty &= ~(1u << tsg_list);
			share->tsg_list[tsg_list].closing = 0;
		}
	}
}

int cgpu_channels_next(struct cgpu_core *core, u32 gpu, struct cgpu_channel_batch *batch)
{
	struct core_gpu *found;

	/* The lists are as long as the count says. */
	batch->gpu = gpu;
	batch->count = 0;
	core_lock(core);
	found = core_gpu(core->state, gpu);
	if (found && !found->share.enable_fail && found->share.paused != CORE_PAUSE) {
		gather(core->state, &found->share, 1, batch);
		if (batch->count == 0)
			gather(core->state, &found->share, 0, batch);
	}
	core_unlock(core);
	return batch->count ? 0 : -ENOENT;
}

/* Whether the driver refuses for good. One that has done it before refuses only these channels, or only at this
 * moment. */
static int says_never(const struct core_share *share, const struct cgpu_channel_batch *batch, u32 status)
{
	if (share->enable_work || batch->count > 1)
		return 0;
	return status == NV_ERR_NOT_SUPPORTED || status == NV_ERR_INSUFFICIENT_PERMISSIONS;
}

static void set(struct cgpu_state *state, const struct cgpu_channel_batch *batch)
{
	struct core_share *share = &state->gpu[batch->gpu].share;
	u32 n;

	for (n = 0; n < batch->count && n < CGPU_CHANNEL_BATCH; n++) {
		struct core_object *record = core_object_noted(state, batch->object[n], batch->serial[n]);

		/* A change by the driver itself may have come after this control, so the state stays unknown. */
		if (record == NULL || record->driver_changes != batch->driver_changes[n])
			continue;
		record->applied = batch->disable ? CORE_CHANNEL_DISABLED : CORE_CHANNEL_ENABLED;
		if (record->tsg_list == CORE_NONE || record->applied == wanted(share, record->tsg_list))
			continue;
		share->dirty |= 1u << record->tsg_list;
		state->rounds_due |= 1u << batch->gpu;
	}
}

/* The instances that a batch takes the card from, as bits. A channel that is made while its TSG list is disabled is stopped as
 * well, but nothing of it runs before it is scheduled. */
static u32 tsg_lists_of(struct cgpu_state *state, const struct cgpu_channel_batch *batch, u32 *count)
{
	const struct core_share *share = &state->gpu[batch->gpu].share;
	u32 tsg_lists = 0, n;

	*count = 0;
	for (n = 0; n < batch->count && n < CGPU_CHANNEL_BATCH; n++) {
		const struct core_object *record = core_object_noted(state, batch->object[n], batch->serial[n]);

		if (record == NULL || record->tsg_list >= CGPU_MAX_INST || !share->tsg_list[record->tsg_list].closing)
			continue;
		*count += !(tsg_lists >> record->tsg_list & 1);
		tsg_lists |= 1u << record->tsg_list;
	}
	return tsg_lists;
}

/*
 * The driver answers when work that could not be interrupted has ended. Until then the slots that were to stop have
 * used the card: they owe that time, and the slot that has the grant gets it back. Before the first slot is enabled
 * none can run: that time is nobody's.
 */
static void book_change(struct cgpu_core *core, const struct cgpu_channel_batch *batch, struct core_share *share)
{
	u64 now = core->ops->clock ? core->ops->clock(core->ctx) : 0;
	u32 count, tsg_lists = batch->disable ? tsg_lists_of(core->state, batch, &count) : 0;

	if (now <= share->stopped)
		return;
	for (; tsg_lists; tsg_lists &= tsg_lists - 1)
		cgpu_sched_ran(&share->sched, core_first(tsg_lists), (now - share->stopped) / count, now);
	if (!batch->disable && !share->opened)
		cgpu_sched_skip(&share->sched, now);
	share->opened |= !batch->disable;
	share->stopped = now;
}

/* The driver has not set the channel, which is still there: it may run, and its state is unknown until a retry sets
 * it. */
static void leave(struct cgpu_state *state, const struct cgpu_channel_batch *batch, u64 now)
{
	struct core_share *share = &state->gpu[batch->gpu].share;
	struct core_object *record = core_object_noted(state, batch->object[0], batch->serial[0]);

	if (record == NULL || record->tsg_list == CORE_NONE)
		return;
	record->left = 1;
	record->applied = CORE_CHANNEL_UNKNOWN;
	if (share->retry == 0)
		share->retry = now + RETRY_NS;
}

void core_channels_retry_list(struct cgpu_state *state, u32 gpu, u32 number)
{
	struct core_share *share = &state->gpu[gpu].share;
	u32 at;

	for (at = share->tsg_list[number].first; at != CORE_NONE; at = state->object[at].tsg_after) {
		if (state->object[at].kind != CORE_OBJECT_CHANNEL || !state->object[at].left)
			continue;
		state->object[at].left = 0;
		share->dirty |= 1u << number;
	}
}

void core_channels_retry(struct cgpu_state *state, u32 gpu, u64 now)
{
	struct core_share *share = &state->gpu[gpu].share;
	u32 number;

	if (share->retry == 0 || now < share->retry)
		return;
	share->retry = 0;
	for (number = 0; number <= CORE_ORPHANED; number++)
		core_channels_retry_list(state, gpu, number);
}

void cgpu_channels_done(struct cgpu_core *core, const struct cgpu_channel_batch *batch, u32 status)
{
	struct core_gpu *found;
	int failed = 0;

	core_lock(core);
	found = core_gpu(core->state, batch->gpu);
	if (found) {
		found->share.enable_work |= status == NV_OK;
		found->share.paused = status == CGPU_CONTROL_FAILED ? CORE_PAUSE : CORE_PAUSE_NONE;
	}
	if (found && found->share.paused) {
		/* Nothing has changed. */
	} else if (found && says_never(&found->share, batch, status)) {
		failed = !found->share.enable_fail;
		found->share.enable_fail = status;
		core_sched_policy(core->state, batch->gpu);
	} else if (found) {
		/* One of several may have gone: sending them one by one shows which. */
		if (status != NV_OK && batch->count > 1)
			found->share.one_by_one = batch->count;
		else if (status == NV_OK || core_sched_has_gone(status))
			set(core->state, batch);
		else
			leave(core->state, batch, core->ops->clock ? core->ops->clock(core->ctx) : 0);
		book_change(core, batch, &found->share);
		if (found->share.one_by_one && batch->count == 1)
			found->share.one_by_one--;
	}
	core_unlock(core);
	if (failed)
		core_sched_failure_line(core, batch->gpu, "FIFO_DISABLE_CHANNELS", status,
			"only policies 1, 4 and 5, without high priority, are enforced");
}
