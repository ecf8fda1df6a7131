// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
/* Passes changes of the registry and of channels on to a GPU's scheduler, and failures of the driver to the log. */
#include "ledger/ledger.h"
#include "lib/text.h"
#include "registry/registry.h"
#include "sched/sched.h"

/* The scheduler's time: changes since it was asked last count as of then. */
#define LATEST(share) ((share)->sched.now)

static void due(struct cgpu_state *state, u32 gpu)
{
	state->gpu[gpu].share.timeslices_due = 1;
	state->rounds_due |= 1u << gpu;
}

void core_sched_runlist_changed(struct cgpu_state *state, u32 gpu)
{
	state->gpu[gpu].share.runlist_changes++;
	if (state->gpu[gpu].share.runlist_changes > CORE_RUNLIST_CHANGES)
		state->rounds_due |= 1u << gpu;
}

u32 core_sched_by_slices(const struct core_share *share)
{
	/* The group of a channel outside of any group has no handle. */
	return !share->timeslices_fail && !share->without_tsg && !(share->thrashing && !share->enable_fail);
}

enum core_divided_by core_sched_divided_by(const struct core_share *share)
{
	const struct cgpu_sched_settings *settings = &share->sched.settings;

	if (cgpu_policies[settings->policy].undivided)
		return CORE_DIVIDED_BY_DRIVER;
	if (cgpu_policies[settings->policy].timeslices && settings->time_slices && !share->sched.contended)
		return CORE_DIVIDED_BY_TIMESLICES;
	return share->enable_fail ? CORE_DIVIDED_BY_NOBODY : CORE_DIVIDED_BY_CHANNELS;
}

static void settings_of(const struct cgpu_state *state, u32 gpu, struct cgpu_sched_settings *settings)
{
	const struct core_gpu *of = &state->gpu[gpu];

	cgpu_sched_defaults(settings);
	settings->policy = of->policy;
	settings->max_inst = of->max_inst;
	settings->prio_ratio = of->prio_ratio;
	if (state->settings.slice)
		settings->slice = state->settings.slice;
	settings->time_slices = core_sched_by_slices(&of->share);
	if (!state->settings.enforce)
		settings->policy = CGPU_SCHED_NATIVE;
}

void core_sched_policy(struct cgpu_state *state, u32 gpu)
{
	struct core_share *share = &state->gpu[gpu].share;
	struct cgpu_sched_settings settings;

	settings_of(state, gpu, &settings);
	cgpu_sched_set(&share->sched, &settings, LATEST(share));
	due(state, gpu);
}

/* A slot of high priority would keep its part while it does nothing, and the card does not tell which slot has work. */
static u32 priority_of(const struct cgpu_state *state, u32 gpu, u32 number)
{
	return state->gpu[gpu].instance[number].slice.highprio && !state->gpu[gpu].share.tsg_list[number].idle;
}

static void note_priority(struct cgpu_state *state, u32 gpu, u32 number)
{
	struct core_share *share = &state->gpu[gpu].share;

	share->prioritised &= ~(1u << number);
	share->prioritised |= (u32)(state->gpu[gpu].instance[number].slice.highprio != 0) << number;
	if (!state->gpu[gpu].instance[number].slice.highprio)
		share->tsg_list[number].idle = 0;
}

static void join(struct cgpu_state *state, u32 gpu, u32 number)
{
	const struct core_instance *instance = &state->gpu[gpu].instance[number];
	struct core_share *share = &state->gpu[gpu].share;

	share->tsg_list[number].idle = 0;
	note_priority(state, gpu, number);
	cgpu_sched_join(&share->sched, number, instance->slice.weight, priority_of(state, gpu, number), LATEST(share));
	share->tsg_list[number].granted = 0;
}

void core_sched_begin(struct cgpu_state *state, u32 gpu)
{
	struct core_share *share = &state->gpu[gpu].share;
	struct cgpu_sched_settings settings;
	u32 number;

	memset(share, 0, sizeof(*share));
	for (number = 0; number <= CORE_ORPHANED; number++) {
		share->tsg_list[number].first = CORE_NONE;
		share->dirty |= 1u << number;
	}
	state->stat.gpu[gpu].disabled = 0;
	settings_of(state, gpu, &settings);
	cgpu_sched_init(&share->sched, &settings, 0);
	share->asleep = 1;
	for (number = 0; number < CGPU_MAX_INST; number++) {
		if (core_instance(state, gpu, number))
			join(state, gpu, number);
	}
	due(state, gpu);
}

void core_sched_added(struct cgpu_state *state, u32 gpu, u32 number)
{
	state->gpu[gpu].instance[number].usage = 0;
	join(state, gpu, number);
	due(state, gpu);
}

void core_sched_removed(struct cgpu_state *state, u32 gpu, u32 number)
{
	struct core_share *share = &state->gpu[gpu].share;

	core_assert_locked();
	cgpu_sched_leave(&share->sched, number, LATEST(share));
	share->prioritised &= ~(1u << number);
	due(state, gpu);
}

void core_sched_changed(struct cgpu_state *state, u32 gpu, u32 number)
{
	const struct core_instance *instance = &state->gpu[gpu].instance[number];
	struct core_share *share = &state->gpu[gpu].share;

	core_assert_locked();
	/* A weight may have moved the policy as well. */
	core_sched_policy(state, gpu);
	note_priority(state, gpu, number);
	cgpu_sched_change(
		&share->sched, number, instance->slice.weight, priority_of(state, gpu, number), LATEST(share));
}

void core_sched_seen(struct cgpu_state *state, u32 gpu, u32 number, u32 at_work)
{
	const struct core_instance *instance = &state->gpu[gpu].instance[number];
	struct core_share *share = &state->gpu[gpu].share;
	struct core_tsg_list *tsg_list = &share->tsg_list[number];

	if (!instance->slice.highprio || tsg_list->idle == !at_work)
		return;
	tsg_list->idle = !at_work;
	cgpu_sched_change(
		&share->sched, number, instance->slice.weight, priority_of(state, gpu, number), LATEST(share));
	due(state, gpu);
}

void core_sched_channels(struct cgpu_state *state, u32 gpu, u32 number)
{
	struct core_share *share = &state->gpu[gpu].share;

	if (number < CGPU_MAX_INST)
		cgpu_sched_process(&share->sched, number, share->tsg_list[number].channels != 0, LATEST(share));
	if (share->sched.settings.time_slices != core_sched_by_slices(share))
		core_sched_policy(state, gpu);
	due(state, gpu);
}

u32 core_sched_free_weight(struct cgpu_state *state, u32 gpu)
{
	u32 given = core_totals(state, gpu).weights;
	u32 all = state->gpu[gpu].max_inst;

	return given < all ? all - given : 0;
}

void core_sched_failure_line(struct cgpu_core *core, u32 gpu, const char *control, u32 status, const char *follows)
{
	char line[160] = "";
	struct core_text out;

	core_text_start(&out, line, sizeof(line) - 1);
	core_text_string(&out, "GPU ");
	core_text_number(&out, gpu);
	core_text_string(&out, ": the driver does not do ");
	core_text_string(&out, control);
	core_text_string(&out, " (status ");
	core_text_hex(&out, status);
	core_text_string(&out, "): ");
	core_text_string(&out, follows);
	core->ops->log(core->ctx, 4, line);
}
