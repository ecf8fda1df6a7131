// SPDX-License-Identifier: Apache-2.0
/*
 * NV2080_CTRL_CMD_PERF_GET_GPUMON_PERFMON_UTIL_SAMPLES_V2 (kern_perf_ctrl.c, ctrl2080perf.h): how busy the card was, and
 * with which process. One sample for each process that had the engine in the time before it, or one of none.
 */
#include <stdlib.h>

#include "control.h"
#include "engines.h"

/* Hundredths of a percent. */
#define WHOLE 10000u

/* The ring as it is now; the rest of it is zero. */
static void copy_ring(struct control *control, struct engines *out)
{
	struct sim *sim = control->call->sim;

	pthread_mutex_lock(&sim->lock);
	engines_advance(sim, control->card_index);
	if (sim->cards[control->card_index].engines)
		*out = *sim->cards[control->card_index].engines;
	pthread_mutex_unlock(&sim->lock);
}

/* As the caller sees it. Who cannot see a process is told the number that the host has for it, as osFindNsPid() fails. */
static uint32_t process_of(const struct pid_view *view, const struct engine_sample *sample, bool translates)
{
	uint32_t seen = translates && sample->process ? pid_view_of(view, sample->process) : 0;

	if (!sample->process)
		return NV2080_GPUMON_PID_INVALID;
	return seen ? seen : (uint32_t)sample->process;
}

static void put_sample(
	const struct control *control, const struct pid_view *view, const struct engine_sample *sample, uint8_t *entry)
{
	const struct nv_abi *abi = control->call->sim->abi;
	const struct nv_layout_NV2080_CTRL_PERF_GPUMON_ENGINE_UTIL_SAMPLE *at =
		&abi->NV2080_CTRL_PERF_GPUMON_ENGINE_UTIL_SAMPLE;
	const struct nv_layout_NV2080_CTRL_PERF_GPUMON_PERFMON_UTIL_SAMPLE *parts =
		&abi->NV2080_CTRL_PERF_GPUMON_PERFMON_UTIL_SAMPLE;
	bool translates = at->pOsPidInfo != NV_ABI_ABSENT;

	put64(entry, parts->base_timeStamp, sample->ended);
	put32(entry + parts->gr, at->util, (uint32_t)(sample->busy * WHOLE / ENGINES_SAMPLE_NS));
	put32(entry + parts->gr, at->procId, process_of(view, sample, translates));
	put32(entry + parts->fb, at->procId, NV2080_GPUMON_PID_INVALID);
}

static uint32_t control_samples(struct control *control)
{
	const struct nv_abi *abi = control->call->sim->abi;
	const struct nv_layout_NV2080_CTRL_PERF_GET_GPUMON_PERFMON_UTIL_SAMPLES_V2_PARAMS *at =
		&abi->NV2080_CTRL_PERF_GET_GPUMON_PERFMON_UTIL_SAMPLES_V2_PARAMS;
	uint32_t bytes = at->bytes - at->samples, each = abi->NV2080_CTRL_PERF_GPUMON_PERFMON_UTIL_SAMPLE.bytes, i;
	struct engines *ring;
	struct pid_view view;

	if (control->card.mig)
		return NV_ERR_NOT_SUPPORTED;
	if (get32(control->params, at->bufSize) != bytes)
		return NV_ERR_INVALID_ARGUMENT;
	ring = calloc(1, sizeof(*ring));
	if (!ring)
		return NV_ERR_NO_MEMORY;
	copy_ring(control, ring);
	pid_view_open(&view, control->call->sim, &control->call->caller);
	memset(control->params + at->samples, 0, bytes);
	for (i = 0; i < ring->samples && i < bytes / each; i++)
		put_sample(control, &view, &ring->sample[i], control->params + at->samples + (size_t)i * each);
	put32(control->params, at->count, bytes / each);
	put32(control->params, at->tracker, ring->tail);
	free(ring);
	return NV_OK;
}

static const struct control_entry entries[] = {
	{ NV2080_CTRL_CMD_PERF_GET_GPUMON_PERFMON_UTIL_SAMPLES_V2, NV20_SUBDEVICE_0,
		NV_PARAMS(NV2080_CTRL_PERF_GET_GPUMON_PERFMON_UTIL_SAMPLES_V2_PARAMS),
		ANSWER(control_samples, RIGHTS_NONE) },
};

const struct control_set controls_samples = CONTROL_SET(entries);
