/* SPDX-License-Identifier: Apache-2.0 */
/* cgpu-probe: the resource manager's client as a command. */
#ifndef CGPU_PROBE_H
#define CGPU_PROBE_H

#include <stdatomic.h>
#include <string.h>

#include "rm_client.h"

#define PROBE_MAX_MAPPINGS 16u

struct mapping {
	uint8_t *start;
	uint64_t size;
};

struct probe {
	struct settings settings;
	struct session sessions[RM_MAX_GPUS];
	uint32_t gpu;
	/* nvidia-uvm, -1 until it is wanted; and what is mapped of it */
	int uvm;
	struct mapping mapping[PROBE_MAX_MAPPINGS];
	size_t mappings;
	/* What the next step must answer; valid when expecting. */
	bool expecting;
	uint32_t expected;
	bool refused;
	/* The last descriptor that memory was exported on; -1: none. */
	int exported;
};

/* managed.c */
uint32_t managed_run(struct probe *probe, const char *value, bool *understood);
/* The last one; NV_OK when there is none. */
uint32_t managed_drop(struct probe *probe);

/* parallel.c: processes and threads; churn.c; steps.c */
uint32_t parallel_run(struct probe *probe, const char *value, bool threads, bool *understood);
uint32_t unshare_run(struct probe *probe, const char *value, bool *understood);
uint32_t churn_run(struct probe *probe, const char *value, bool *understood);
uint32_t bench_run(struct probe *probe, const char *value, bool *understood);
/* export_steps.c */
uint32_t export_run(struct probe *probe, const char *name, const char *value, bool *understood);
/* dup_fd.c */
/* A copy of a descriptor of another process; -1 with errno. */
int fd_of_process(long pid, long number);
uint32_t dup_fd_run(struct probe *probe, const char *name, const char *value, bool *understood);
/* share.c */
uint32_t share_run(struct probe *probe, const char *name, const char *value, bool *understood);
/* work.c, scheduling.c: whether the name is one of theirs */
bool work_run(struct probe *probe, const char *name, const char *value, uint32_t *status, bool *understood);
/* hold.c */
void hold_run(const char *value, bool *understood);
/* settings.c: whether the word is right; *known says whether it is a setting at all. */
bool setting_run(struct probe *probe, const char *name, const char *value, bool *known);
/* One word of the command line; returns false when it is not understood. */
bool step_run(struct probe *probe, const char *word);

/* report.c: one line of a step: its words, then status= or errno=. */
void report(uint32_t status, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
