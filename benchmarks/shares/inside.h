/* SPDX-License-Identifier: Apache-2.0 */
/* Declarations that the parts of the harness share. */
#ifndef BENCH_SHARES_INSIDE_H
#define BENCH_SHARES_INSIDE_H

#include "harness.h"

/* A program on one channel. */
struct player {
	const struct shares_program *program;
	uint32_t channel;
	uint64_t wake; /* it goes on then; WORK_NEVER: when a kernel has ended */
	uint64_t launched; /* of this step */
	uint32_t step;
	uint32_t in_flight;
	bool pauses; /* until `wake`, and the next step comes then */
};

struct member {
	struct shares_container of;
	struct player player[SHARES_GROUPS];
	uint32_t group[SHARES_GROUPS];
	uint32_t channel[SHARES_GROUPS];
	uint64_t slice[SHARES_GROUPS]; /* us, as set last */
	uint64_t reported; /* ns of GPU time */
	uint64_t closes; /* when its channels are disabled; WORK_NEVER: no call to do so is on its way */
	uint64_t idle_until; /* when it had no work last */
	uint64_t served; /* when it was on the card last, or had no work */
	struct shares_figures figures; /* of the groups that are gone; waited and starved of all */
	bool here, open, has_work, waits;
};

struct shares {
	struct shares_setup setup;
	uint64_t idle_with_work;
	struct work *work;
	struct cgpu_sched sched;
	struct member member[SHARES_CONTAINERS];
	uint64_t wake; /* the scheduler wants to be asked again then */
	bool changed;
};

uint64_t shares_used(const struct shares *shares, uint32_t slot);
/* Tell the scheduler what ran until now. */
void shares_report(struct shares *shares);

/* play.c: work_on_done() of the card. */
void play_kernel_ended(void *shares, uint32_t channel, uint64_t tag);
bool play_can_run(const struct shares_program *program);
/* Starts a program. */
void play_begin(struct shares *shares, struct player *player, const struct shares_program *program, uint32_t channel);
/* Time at which a program goes on, or something happens on the card. */
uint64_t play_next(const struct shares *shares);
/* Takes the place of work_advance(). */
void play_advance(struct shares *shares, uint64_t until);

#endif
