/* SPDX-License-Identifier: Apache-2.0 */
/* cgpu-probe: the resource manager's client as a command. */
#ifndef CGPU_PROBE_H
#define CGPU_PROBE_H

#include <string.h>

#include "rm_client.h"

#define PROBE_MAX_MAPPINGS 16u
#define LLU(value) ((unsigned long long)(value))

struct mapping {
	uint8_t *start;
	uint64_t size;
};

struct probe {
	struct settings settings;
	struct session sessions[RM_MAX_GPUS];
	uint32_t gpu;
	/* nvidia-uvm, -1 until it is wanted; and its mapping */
	int uvm;
	struct mapping mapping[PROBE_MAX_MAPPINGS];
	size_t mappings;
	/* The name of the step that runs. */
	const char *step;
	/* Status that the next step must return; valid when expecting. */
	bool expecting;
	uint32_t expected;
	bool refused;
	/* The last descriptor that memory was exported on; -1: none. */
	int exported;
};

/* A step. value: the text behind "="; NULL: none. Returns the driver's status, RM_ERRNO, or one of these: */
typedef uint32_t step_fn(struct probe *probe, const char *value);
/* The value is wrong, or there is no such word. */
#define NOT_UNDERSTOOD 0x40000000u
/* The step made no call, so expect= applies to the next one. */
#define NO_ANSWER 0x20000000u

/* Whether a value has to be there. */
enum value { NO_VALUE, MAYBE_VALUE, VALUE };
static inline bool value_fits(enum value wanted, const char *value)
{
	return wanted == MAYBE_VALUE || (wanted == VALUE) == (value != NULL);
}

/* managed.c */
step_fn step_managed, step_unmanaged;
/* parallel.c: fork and threads */
step_fn step_parallel;
/* churn.c */
step_fn step_unshare, step_churn;
/* sharing.c */
step_fn step_share, step_dup_of, step_export, step_import, step_take, step_close_export;
/* work.c */
step_fn step_group, step_submit, step_busy, step_figures;
/* scheduling.c: scheduling_run is all words about the last group, and the card */
step_fn step_channel_off, scheduling_run;
/* hold.c */
step_fn step_hold;
/* settings.c: sets it and returns true, where it is a setting and the value is right. */
bool setting_run(struct probe *probe, const char *name, const char *value);
/* steps.c: one word of the command line; returns false when it is not understood. */
bool probe_run(struct probe *probe, const char *word);

/* report.c: one line of a step: its words, then status= or errno=. Returns the status, and leaves errno as it was. */
uint32_t report(uint32_t status, const char *format, ...) __attribute__((format(printf, 2, 3)));

static inline struct session *probe_session(struct probe *probe)
{
	return &probe->sessions[probe->gpu];
}

#endif
