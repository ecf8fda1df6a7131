/* SPDX-License-Identifier: Apache-2.0 */
/* Channel groups that the probe has made. */
#ifndef PROBE_WORK_H
#define PROBE_WORK_H

#include "probe.h"

#define WORK_MAX_GROUPS 64u
#define WORK_MAX_CHANNELS 128u

struct work_group {
	uint32_t gpu;
	uint32_t handle;
	uint32_t channels;
	uint32_t channel[WORK_MAX_CHANNELS];
};

/* The last group that was made on the current card; NULL: none was. */
struct work_group *work_last(struct probe *probe);

#endif
