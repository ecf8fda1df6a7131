// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
/* Counters of the entries `stat`. */
#include "state/state.h"

void core_stat_instance_begin(struct cgpu_state *state, u32 gpu, u32 number)
{
	struct core_gpu_stat *stat = &state->stat.gpu[gpu];

	memset(&stat->instance[number], 0, sizeof(stat->instance[number]));
	stat->disabled &= ~(1u << number);
}

void core_stat_gpu_begin(struct cgpu_state *state, u32 gpu)
{
	memset(&state->stat.gpu[gpu], 0, sizeof(state->stat.gpu[gpu]));
}

void core_stat_container_begin(struct cgpu_state *state, u32 slot)
{
	memset(&state->stat.container[slot], 0, sizeof(state->stat.container[slot]));
	state->stat.engine.registered++;
}

void core_stat_taken(struct cgpu_state *state, u32 gpu, u32 number, u64 bytes)
{
	u64 *peak = &state->stat.gpu[gpu].instance[number].peak;

	if (bytes > *peak)
		*peak = bytes;
}

void core_stat_used(struct cgpu_state *state, u32 gpu, u32 number)
{
	struct core_gpu_stat *stat = &state->stat.gpu[gpu];
	u64 usage = state->gpu[gpu].instance[number].usage;

	if (usage <= stat->instance[number].usage)
		return;
	stat->usage += usage - stat->instance[number].usage;
	stat->instance[number].usage = usage;
}

void core_stat_short(struct cgpu_state *state, u32 gpu, u32 number, enum core_short why)
{
	core_assert_locked();
	state->stat.gpu[gpu].refused[why]++;
	state->stat.gpu[gpu].instance[number].refused[why]++;
}

void core_stat_refused(struct cgpu_state *state, u32 slot, enum core_refusal why)
{
	core_assert_locked();
	state->stat.engine.refusals[why]++;
	if (slot < CGPU_MAX_CONTAINERS)
		state->stat.container[slot].refused[why]++;
}

/* A core of another version goes on with the state; one of the same version, unless it has just begun, has read its settings
 * anew. */
void core_stat_settings(struct cgpu_state *state, const struct cgpu_settings *settings)
{
	struct core_engine_stat *stat = &state->stat.engine;

	if (stat->fresh != CORE_MADE && memcmp(state->settings.version, settings->version, sizeof(settings->version)))
		stat->upgrades++;
	else if (!stat->fresh && memcmp(&state->settings, settings, sizeof(*settings)))
		stat->reloads++;
	stat->fresh = 0;
}

static void recover_instance(struct cgpu_state *state, u32 gpu, u32 number)
{
	const struct core_instance *instance = &state->gpu[gpu].instance[number];
	struct core_instance_stat *stat = &state->stat.gpu[gpu].instance[number];

	if (instance->live != CORE_LIVE) {
		core_stat_instance_begin(state, gpu, number);
		return;
	}
	if (stat->peak > CORE_BYTES_MAX)
		stat->peak = 0;
	core_stat_taken(state, gpu, number, instance->used);
	core_stat_used(state, gpu, number);
	stat->sampled = 0;
}

void core_stat_recover(struct cgpu_state *state)
{
	u32 i, gpu;

	for (gpu = 0; gpu < CGPU_MAX_GPUS; gpu++) {
		if (state->gpu[gpu].live != CORE_LIVE)
			core_stat_gpu_begin(state, gpu);
		for (i = 0; i < CGPU_MAX_INST; i++)
			recover_instance(state, gpu, i);
		/* The driver's changes of channels meanwhile are unknown. */
		state->stat.gpu[gpu].disabled = 0;
	}
	for (i = 0; i < CGPU_MAX_CONTAINERS; i++) {
		if (state->container[i].live != CORE_LIVE)
			memset(&state->stat.container[i], 0, sizeof(state->stat.container[i]));
	}
	state->stat.engine.fresh = CORE_TAKEN_UP;
}
