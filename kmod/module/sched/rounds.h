/* SPDX-License-Identifier: GPL-2.0-only */
/* GPU time: the thread that does what the core decides, and the driver's scheduling controls. */
#ifndef CGPU_KM_ROUNDS_H
#define CGPU_KM_ROUNDS_H

#include "engine/engine.h"

/* --- controls.c: for rounds.c alone, under its lock --- */

int km_controls_init(void);
void km_controls_exit(void);
/* Enable and disable channels of a GPU, and set timeslices, that are due. -EAGAIN: channels are left, 1: timeslices are;
 * again soon. Others: later. */
int km_controls_set(struct km_engine *engine, u32 gpu);
/* Release a card without channels, and the driver with the last one. */
void km_controls_close(struct km_engine *engine, u32 gpu);
/* Release the driver, unless a card is held. */
void km_controls_release(void);

/* --- rounds.c --- */

int km_rounds_init(void);
void km_rounds_exit(void);
/* There is an engine again. */
void km_rounds_begin(void);
/* There will be none: set what its core still wants, and release the driver. Under the control lock. */
void km_rounds_end(struct km_engine *engine);
/* For the core, see cgpu_ops; also when samples have come. Any context that may sleep or not. */
void km_rounds_due(void *ctx, u32 gpu);
/* Wait until all that is due by now on a GPU has been done, or the task is killed. Without the engine. */
void km_rounds_await(u32 gpu);
/* Whether GPU time is to be had from samples. */
bool km_rounds_want_samples(u32 gpu);

#endif
