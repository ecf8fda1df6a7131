// SPDX-License-Identifier: Apache-2.0
/* The card's clock beside that of the machine (subdevice_ctrl_timer_kernel.c). */
#include <time.h>

#include "control.h"
#include "engines.h"

/* Microseconds since 1970. */
static uint64_t machine_time(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return (uint64_t)now.tv_sec * 1000000u + (uint64_t)now.tv_nsec / 1000u;
}

static uint32_t control_time_correlation(struct control *control)
{
	const struct card_abi *abi = control->call->sim->card_abi;
	const struct card_layout_NV2080_CTRL_TIMER_GET_GPU_CPU_TIME_CORRELATION_INFO_PARAMS *at =
		&abi->NV2080_CTRL_TIMER_GET_GPU_CPU_TIME_CORRELATION_INFO_PARAMS;
	const struct card_layout_NV2080_CTRL_TIMER_GPU_CPU_TIME_SAMPLE *sample =
		&abi->NV2080_CTRL_TIMER_GPU_CPU_TIME_SAMPLE;
	uint8_t clock = control->params[at->cpuClkId], count = control->params[at->sampleCount], i;
	uint8_t *entry = control->params + at->samples;

	if (count > NV2080_CTRL_TIMER_GPU_CPU_TIME_MAX_SAMPLES)
		return NV_ERR_INVALID_ARGUMENT;
	/* The processor's own counters, and one that is on the card. */
	if (clock != NV2080_TIMER_GPU_CPU_TIME_CPU_CLK_ID_OSTIME &&
		clock != NV2080_TIMER_GPU_CPU_TIME_CPU_CLK_ID_PLATFORM_API)
		return NV_ERR_NOT_SUPPORTED;
	for (i = 0; i < count; i++, entry += sample->bytes) {
		put64(entry, sample->cpuTime, machine_time());
		put64(entry, sample->gpuTime, engines_time(control->call->sim));
	}
	return NV_OK;
}

static const struct control_entry entries[] = {
	{ NV2080_CTRL_CMD_TIMER_GET_GPU_CPU_TIME_CORRELATION_INFO, NV20_SUBDEVICE_0,
		CARD_PARAMS(NV2080_CTRL_TIMER_GET_GPU_CPU_TIME_CORRELATION_INFO_PARAMS),
		ANSWER(control_time_correlation, RIGHTS_NONE) },
};

const struct control_set controls_timer = CONTROL_SET(entries);
