/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The daemon's RM client for scheduling, one for each GPU with a descriptor of its own, so that no slow question to the driver
 * delays enabling and disabling channels. These take no right to the channels (kernel_fifo_ctrl.c,
 * subdeviceCtrlCmdFifoDisableChannels) and no capability.
 */
#ifndef CGPUD_SCHED_CLIENT_H
#define CGPUD_SCHED_CLIENT_H

#include "cgpu_core.h"
#include "cgpu_round.h"

/* One thread at a time uses this, but for the fields below. */
struct sched_client {
	int fd; /* nvidiactl; -1: not opened yet, or the driver went */
	u32 client, subdevice;
	/* The rest is of the thread that reads samples. */
	u8 *samples; /* the driver's answer */
	struct cgpu_sampling sampling;
	u32 no_samples; /* 1: this driver has none */
};

struct cgpud;

/* Opens nothing that is open; close_one(&sc->fd) closes it. 0 or a negative errno. */
int sched_client_open(struct cgpud *d, struct sched_client *sc, u32 gpu);
/* Enable or disable channels. The driver's status, or a negative errno: the driver is gone. */
int sched_client_set_channels(struct cgpud *d, const struct sched_client *sc, const struct cgpu_channel_batch *batch);
/* Have the core know the GPU time that processes have used since the last samples. 0; -EAGAIN: the driver is there, and says
 * nothing now; -EOPNOTSUPP: it has no samples; or another negative errno: it is gone. May go on beside
 * sched_client_set_channels(). */
int sched_client_sample(struct cgpud *d, struct sched_client *sc, u32 gpu);

#endif
