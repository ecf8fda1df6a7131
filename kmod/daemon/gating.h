/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The conversation about GPU time, one for each GPU: a descriptor and a client of the daemon's own, so that no slow question
 * to the driver stands before a gate. Gates take no right to the channels (kernel_fifo_ctrl.c, subdeviceCtrlCmdFifoDisable-
 * Channels) and no capability.
 */
#ifndef CGPUD_GATING_H
#define CGPUD_GATING_H

#include "cgpu_core.h"
#include "cgpu_round.h"

#define GATING_PROCESSES 128 /* more than a look has samples */

/* Used by one thread at a time, but for what is said below. */
struct gating {
	int fd; /* nvidiactl; -1: not opened yet, or the driver went */
	u32 client, subdevice;
	/* The rest is of who asks for samples. */
	u8 *samples; /* the driver's answer */
	struct cgpu_sampling looks;
	u32 no_samples; /* 1: this driver has none */
};

struct gating_use {
	s32 tgid;
	u64 ns;
};

struct cgpud;

void gating_init(struct gating *gating);
/* Opens nothing that is open. 0 or a negative errno. */
int gating_open(struct cgpud *d, struct gating *gating, u32 gpu);
void gating_close(struct gating *gating);
/* Tell the driver. Its status, or a negative errno: it is gone. */
int gating_tell(struct cgpud *d, const struct gating *gating, const struct cgpu_channel_batch *gates);
/*
 * What processes have used of the GPU since the last look, GATING_PROCESSES at most. Returns how many, or a negative errno:
 * the driver does not say. May go on beside gating_tell().
 */
int gating_sample(struct cgpud *d, struct gating *gating, struct gating_use *use, enum cgpu_samples_kind *look);

#endif
