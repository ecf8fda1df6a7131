// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
/* The decision of a moment for one GPU, and the accounting of GPU time. */
#include "ledger/ledger.h"
#include "registry/registry.h"
#include "sched/sched.h"
#include "lib/text.h"

static int anyone_has_channels(const struct core_share *share)
{
	u32 number;

	for (number = 0; number <= CORE_ORPHANED; number++) {
		if (share->tsg_list[number].first != CORE_NONE)
			return 1;
	}
	return 0;
}

static void book(struct cgpu_state *state, u32 gpu)
{
	struct core_share *share = &state->gpu[gpu].share;
	u32 number;

	for (number = 0; number < CGPU_MAX_INST; number++) {
		const struct cgpu_sched_slot *slot = &share->sched.slot[number];
		struct core_tsg_list *tsg_list = &share->tsg_list[number];
		u64 *usage = &state->gpu[gpu].instance[number].usage;

		/* In most rounds one or two have had any. */
		if (slot->granted == tsg_list->granted || !slot->joined)
			continue;
		/* A slot without a process is enabled and runs nothing. It gets back the time that others ran in it. */
		if (slot->process && !share->enable_fail) {
			if (slot->granted >= tsg_list->granted)
				*usage += slot->granted - tsg_list->granted;
			else
				*usage -= tsg_list->granted - slot->granted < *usage ?
					tsg_list->granted - slot->granted :
					*usage;
		}
		core_stat_used(state, gpu, number);
		tsg_list->granted = slot->granted;
	}
}

/* Count the time since `since` as throttled for the instances whose channels were disabled. */
static void book_disabled(struct core_gpu_stat *stat, u64 now)
{
	u64 passed = now > stat->since ? now - stat->since : 0;
	u32 bits;

	for (bits = stat->disabled; bits; bits &= bits - 1)
		stat->instance[core_first(bits)].throttled += passed;
}

/* Note the instances with channels that are disabled from now on. */
static void note_disabled(const struct core_share *share, struct core_gpu_stat *stat, u64 now)
{
	stat->since = now;
	stat->disabled = share->asleep ? 0 : share->sched.plans.busy & ~share->open;
}

/* Enable and disable channels by the decision. Returns whether any is left to be set in the driver. */
static u32 enable_channels(struct cgpu_state *state, u32 gpu, const struct cgpu_sched_decision *decision)
{
	struct core_share *share = &state->gpu[gpu].share;
	u32 all = (1u << CGPU_MAX_INST) - 1, open = decision->gated ? decision->open & all : all;
	u32 bits;

	if (cgpu_policies[share->sched.settings.policy].undivided || share->enable_fail)
		open = all | 1u << CORE_ORPHANED;
	for (bits = share->open ^ open; bits; bits &= bits - 1) {
		struct core_tsg_list *tsg_list = &share->tsg_list[core_first(bits)];

		tsg_list->closing = !(open >> core_first(bits) & 1);
		tsg_list->again = 0;
		tsg_list->begun = 0;
		if (share->retry)
			core_channels_retry_list(state, gpu, core_first(bits));
	}
	share->dirty |= share->open ^ open;
	share->open = open;
	for (bits = share->enable_fail ? 0 : share->dirty; bits; bits &= bits - 1) {
		if (share->tsg_list[core_first(bits)].first != CORE_NONE)
			return 1;
	}
	return 0;
}

#define BACKOFF_NS (2 * CGPU_SAMPLES_NS)

static void watch(struct cgpu_state *state, u32 gpu, u64 now)
{
	struct core_share *share = &state->gpu[gpu].share;

	if (share->runlist_changes > CORE_RUNLIST_CHANGES)
		share->backoff = now + BACKOFF_NS;
	if (share->runlist_changes > CORE_RUNLIST_CHANGES || now - share->watched >= CGPU_SAMPLES_NS) {
		share->watched = now;
		share->runlist_changes = 0;
	}
	share->thrashing = now < share->backoff;
	if (share->sched.settings.time_slices != core_sched_by_slices(share))
		core_sched_policy(state, gpu);
}

static int wants_priority(const struct core_gpu *gpu)
{
	u32 bits;

	for (bits = gpu->share.prioritised; bits; bits &= bits - 1) {
		if (gpu->share.sched.slot[core_first(bits)].process)
			return 1;
	}
	return 0;
}

static void decide(struct cgpu_state *state, u32 gpu, u64 now, struct cgpu_round *round)
{
	struct core_share *share = &state->gpu[gpu].share;
	struct core_gpu_stat *stat = &state->stat.gpu[gpu];
	struct cgpu_sched_decision decision;

	if (!share->paused)
		book_disabled(stat, now);
	/* While no slot could use the card, or channels could not be enabled and disabled, time passed for none. */
	if (share->asleep || share->paused)
		cgpu_sched_skip(&share->sched, now);
	watch(state, gpu, now);
	core_channels_retry(state, gpu, now);
	cgpu_sched_decide(&share->sched, now, &decision);
	share->stopped = now;
	share->opened = 0;
	share->asleep = !anyone_has_channels(share);
	book(state, gpu);
	round->channels = enable_channels(state, gpu, &decision);
	note_disabled(share, stat, now);
	if (share->timeslices_due)
		core_timeslices_compute(state, gpu);
	round->now = now;
	round->until = share->asleep || share->enable_fail ? CGPU_ROUND_NEVER : decision.until;
	if (share->thrashing && !share->asleep && share->backoff < round->until)
		round->until = share->backoff;
	if (share->retry && !share->asleep && !share->enable_fail && share->retry < round->until)
		round->until = share->retry;
	share->paused = round->channels && share->paused ? CORE_PAUSE_OVER : CORE_PAUSE_NONE;
	round->timeslices = !share->timeslices_applied && !share->timeslices_fail;
	round->samples = !share->asleep && (!core_sched_rounds_tell(share) || wants_priority(&state->gpu[gpu]));
}

int cgpu_round(struct cgpu_core *core, u32 gpu, struct cgpu_round *round)
{
	struct core_gpu *found;

	memset(round, 0, sizeof(*round));
	round->until = CGPU_ROUND_NEVER;
	core_lock(core);
	found = core_gpu(core->state, gpu);
	if (found && core->ops->clock)
		decide(core->state, gpu, core->ops->clock(core->ctx), round);
	core_unlock(core);
	return found ? 0 : -ENOENT;
}

/* Note which instances with high priority were at work in the sampling intervals that are over. */
static void see_priorities(struct cgpu_state *state, u32 gpu)
{
	u32 number, at;

	for (number = 0; number < CGPU_MAX_INST; number++) {
		at = state->gpu[gpu].share.tsg_list[number].first;
		if (at == CORE_NONE || !state->gpu[gpu].instance[number].slice.highprio)
			continue;
		while (at != CORE_NONE && !core_tsg_active(state, &state->object[at]))
			at = state->object[at].tsg_after;
		core_sched_seen(state, gpu, number, at != CORE_NONE);
	}
}

static void samples_forget(struct cgpu_state *state, u32 gpu)
{
	u32 number;

	for (number = 0; number < CGPU_MAX_INST; number++)
		state->stat.gpu[gpu].instance[number].sampled = 0;
}

/*
 * Where the card's timeslices divide the time, nothing tells which instance waits. Of two instances that were both at
 * work between two readings, each waited while the other ran: that is so at least where both always had work.
 */
static void samples_add(struct cgpu_state *state, u32 gpu, u32 number, u64 ns)
{
	const struct cgpu_sched *sched = &state->gpu[gpu].share.sched;
	struct core_instance_stat *stat = state->stat.gpu[gpu].instance;
	u32 other;

	if (!cgpu_policies[sched->settings.policy].timeslices || !sched->settings.time_slices)
		return;
	for (other = 0; other < CGPU_MAX_INST; other++) {
		/* In the phases of the other class its channels are disabled: that is counted by itself. */
		if (other == number || !stat[other].sampled || sched->slot[other].class != sched->slot[number].class)
			continue;
		stat[other].throttled += ns;
		if (!stat[number].sampled)
			stat[number].throttled += stat[other].sampled;
	}
	stat[number].sampled += ns;
}

void cgpu_samples_begin(struct cgpu_core *core, u32 gpu, enum cgpu_samples_kind look)
{
	struct core_gpu *found;

	core_lock(core);
	found = core_gpu(core->state, gpu);
	if (found) {
		/* A process whose samples are missing may have been at work. */
		if (look == CGPU_SAMPLES_WHOLE) {
			see_priorities(core->state, gpu);
			found->share.sampled++;
		}
		samples_forget(core->state, gpu);
		found->share.samples = 1;
		found->share.timeslices_due = 1;
		core->state->rounds_due |= 1u << gpu;
	}
	core_unlock(core);
}

/* The time counts once, however many clients its process has. */
static void ran(struct cgpu_state *state, u32 gpu, s32 tgid, u64 ns)
{
	struct core_share *share = &state->gpu[gpu].share;
	u32 at = core_client_of_process(state, tgid), number = CORE_NONE;

	for (; at != CORE_NONE; at = state->client[at].tgid_next) {
		struct core_client *client = &state->client[at];

		if (client->tgid != tgid || client->slot == CORE_NONE)
			continue;
		client->sampled[gpu] = share->sampled;
		if (number != CORE_NONE || !core_instance_of(state, gpu, client->slot, &number))
			continue;
		core_sched_seen(state, gpu, number, 1);
		if (core_sched_rounds_tell(share))
			continue;
		state->gpu[gpu].instance[number].usage += ns;
		core_stat_used(state, gpu, number);
		samples_add(state, gpu, number, ns);
	}
}

void cgpu_ran(struct cgpu_core *core, u32 gpu, s32 tgid, u64 ns)
{
	core_lock(core);
	if (core_gpu(core->state, gpu) && ns)
		ran(core->state, gpu, tgid, ns);
	core_unlock(core);
}

/* --- How often the driver's samples of utilisation are read, and what a reading is worth --- */

/* Twenty-five busy processes fill the driver's 72 places in less than half a second. */
#define SOON_NS (CGPU_SAMPLES_NS / 8)
/* Readings stay frequent for so long after lost samples, as processes at work mostly go on. */
#define HURRY_NS (10 * CGPU_SAMPLES_NS)

enum cgpu_samples_kind cgpu_sampling_add(struct cgpu_sampling *sampling, enum cgpu_samples_kind look, u64 now)
{
	if (look == CGPU_SAMPLES_LOST)
		sampling->hurry = now + HURRY_NS;
	if (look != CGPU_SAMPLES_WHOLE)
		sampling->missed = look;
	sampling->after = now < sampling->hurry ? SOON_NS : CGPU_SAMPLES_NS;
	if (now < sampling->whole)
		return CGPU_SAMPLES_PART;
	sampling->whole = now + CGPU_SAMPLES_NS - SOON_NS / 2;
	look = sampling->missed;
	sampling->missed = CGPU_SAMPLES_WHOLE;
	return look;
}
