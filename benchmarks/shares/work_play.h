/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Simulated programs: launches of a process on a simulated card, with their times. A program goes through its steps
 * again and again. A step is so many kernels of one length, launched one behind the other without waiting, with at most
 * `depth` of them in the queue; when its step has a pause, the program waits for all of them and then does something
 * else so long.
 */
#ifndef CGPU_SIM_WORK_PLAY_H
#define CGPU_SIM_WORK_PLAY_H

#include "work.h"

#define WORK_PROGRAMS 256u
#define WORK_STEPS 8u

struct work_step {
	uint64_t length;
	uint64_t grain; /* as in struct work_kernel */
	uint64_t pause; /* 0: on to the next step without waiting */
	uint64_t count;
};

struct work_program {
	uint32_t channel;
	uint32_t depth; /* not above the channel's queue */
	uint32_t steps;
	uint32_t spare;
	uint64_t start;
	uint64_t end; /* launches nothing from then on; WORK_NEVER */
	struct work_step step[WORK_STEPS];
};

struct work_play;

/* Takes work_on_done() for itself. NULL: no memory. */
struct work_play *work_play_create(struct work *work);
void work_play_destroy(struct work_play *play);
/*
 * A number, or WORK_NONE: no such channel, a program that cannot run, or none left. The program starts at once, if it
 * is time.
 */
uint32_t work_play_add(struct work_play *play, const struct work_program *program);
/* Time at which a program goes on, or something happens on the card. */
uint64_t work_play_next(const struct work_play *play);
/* Takes the place of work_advance(). */
void work_play_advance(struct work_play *play, uint64_t until);

#endif
