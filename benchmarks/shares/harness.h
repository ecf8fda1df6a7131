/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The scheduler of the core and the engines of a simulated card, joined as an engine of OpenCGPU joins them with a real
 * one: what the scheduler decides becomes calls of the driver, which take their time; what the card has run is reported
 * back. All in virtual time. benchmarks/shares/binding.py has the same structures.
 */
#ifndef BENCH_SHARES_HARNESS_H
#define BENCH_SHARES_HARNESS_H

#include "sched_gpu.h"
#include "work_play.h"

#define SHARES_CONTAINERS CGPU_SCHED_SLOTS
#define SHARES_GROUPS 8u

struct shares_container {
	uint32_t weight;
	uint32_t highprio;
	uint32_t groups; /* each with a channel, on which the program runs; 0: no process has the GPU open */
	uint32_t spare;
	uint64_t join;
	uint64_t leave; /* WORK_NEVER */
	struct work_program program; /* its times count from `join` */
};

struct shares_case {
	struct cgpu_sched_settings settings;
	struct work_setup card;
	uint64_t duration;
	uint64_t sample; /* a sample of each container's time after each so many ns; 0: none */
	uint32_t containers;
	uint32_t levers; /* 0: nothing is done with the card, which is native scheduling */
	uint32_t tells; /* the scheduler is told when a container's work begins and ends */
	uint32_t spare;
	struct shares_container container[SHARES_CONTAINERS];
};

struct shares_figures {
	uint64_t busy; /* ns of kernels */
	uint64_t switching; /* ns of loading and saving the container's contexts */
	uint64_t completed; /* kernels */
	uint64_t waited; /* the longest time from a launch to an idle container's first ns on the card */
};

struct shares_result {
	struct shares_figures container[SHARES_CONTAINERS];
	uint64_t busy;
	uint64_t switching;
	uint64_t idle;
	uint64_t idle_with_work; /* of these, while anyone had work */
	uint64_t decisions;
	uint64_t deciding; /* ns of the processor for all of them */
	uint64_t levers; /* calls of the driver */
};

/* samples: room for duration / sample times the containers, or NULL. 0, or -1: a case that cannot be run. */
int shares_run(const struct shares_case *what, struct shares_result *result, uint64_t *samples);

#endif
