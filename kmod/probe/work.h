/* SPDX-License-Identifier: Apache-2.0 */
/* Work on simulated cards: channel groups, what is launched in them, and what they can be told. */
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

/* work.c */
/* The last group that was made on the current card; NULL: none was. */
struct work_group *work_last(struct probe *probe);
/* scheduling.c */
uint32_t scheduling_set(struct session *session, const struct work_group *group, bool on);
/* Whether the name is one of its words. */
bool scheduling_run(struct probe *probe, const char *name, const char *value, uint32_t *status, bool *understood);

#endif
