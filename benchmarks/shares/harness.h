/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The scheduler of the core and the engines of a simulated card, joined as an engine of OpenCGPU joins them with a real
 * one: the scheduler's decisions become calls of the driver, which take their time; the card's runs are reported back.
 * All in virtual time. benchmarks/shares/binding.py has the same structures.
 */
#ifndef BENCH_SHARES_HARNESS_H
#define BENCH_SHARES_HARNESS_H

#include "sched/scheduler.h"
#include "work.h"

#define SHARES_CONTAINERS CGPU_SCHED_SLOTS
#define SHARES_GROUPS 8u
#define SHARES_STEPS 8u

/*
 * A program goes through its steps again and again. A step is so many kernels of one length, launched one behind the
 * other without waiting, with at most `depth` of them in the queue; when its step has a pause, the program waits for all
 * of them and then does something else so long.
 */
struct shares_step {
	uint64_t length;
	uint64_t grain; /* as in struct work_kernel */
	uint64_t pause; /* 0: on to the next step without waiting */
	uint64_t count;
};

struct shares_program {
	uint32_t depth; /* not above the channel's queue */
	uint32_t steps;
	struct shares_step step[SHARES_STEPS];
};

struct shares_container {
	uint32_t weight;
	uint32_t highprio;
	uint32_t groups; /* each with a channel, on which the program runs; 0: no process has the GPU open */
	uint32_t spare;
	/* Without steps: work comes by shares_submit(), `depth` kernels at most. */
	struct shares_program program;
};

struct shares_setup {
	struct cgpu_sched_settings settings;
	struct work_setup card;
	uint32_t controls; /* 0: nothing is done with the card, which is native scheduling */
	uint32_t spare;
};

struct shares_figures {
	uint64_t busy; /* ns of kernels */
	uint64_t switching; /* ns of loading and saving the container's contexts */
	uint64_t submitted; /* kernels: completed, queued and cancelled together */
	uint64_t completed;
	uint64_t queued;
	uint64_t cancelled; /* by its leave */
	uint64_t waited; /* the longest time from a launch to an idle container's first ns on the card */
	uint64_t starved; /* the longest time with work and not on the card */
};

/* Functions that can fail return 0, or -1 for a wrong request, and then nothing has happened. */
struct shares;
/* NULL: a setup that cannot be run, or no memory. */
struct shares *shares_open(const struct shares_setup *setup);
void shares_close(struct shares *shares);
/* A container takes part while it has work, as if its processes came with the work and went. */
int shares_join(struct shares *shares, uint32_t slot, const struct shares_container *container);
int shares_leave(struct shares *shares, uint32_t slot);
int shares_change(struct shares *shares, uint32_t slot, uint32_t weight, uint32_t highprio);
int shares_set(struct shares *shares, const struct cgpu_sched_settings *settings);
/* So many kernels into the slot's first channel. -1: not all had room. */
int shares_submit(struct shares *shares, uint32_t slot, const struct work_kernel *kernel, uint32_t count);
void shares_advance(struct shares *shares, uint64_t until);
/* Figures of the slot's container, or of its last one. */
void shares_figures(const struct shares *shares, uint32_t slot, struct shares_figures *figures);
/* ns without work on the card, while anyone had some. */
uint64_t shares_idle(const struct shares *shares);

#endif
