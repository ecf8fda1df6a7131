/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * GPU time: what the engine has to do on a card so that containers get the shares that the policy says. The core decides
 * (docs/scheduling.md) and says which scheduling controls to send to the driver; the transport sends them and reports the status.
 *
 * In a loop, for each GPU: cgpu_round(); then all of cgpu_channels_next() and cgpu_timeslices_next(), each told by its _done();
 * then sleep until round.until, or until ops->round says that something has changed. Where the end of a driver call asks for
 * it (call->round), its own thread does the same. All of it, from cgpu_round() to the last _done(), is under one lock of the
 * transport's for the GPU: else what one thread has decided another one would undo.
 */
#ifndef CGPU_ROUND_H
#define CGPU_ROUND_H

#include "cgpu_core.h"

#define CGPU_ROUND_NEVER (~0ull)

struct cgpu_round {
	u64 now, until; /* ns of ops->clock; CGPU_ROUND_NEVER: until something changes */
	u32 channels, timeslices; /* 1: there are some to be set */
	u32 samples; /* 1: GPU time is to be had from the driver's samples of utilisation: cgpu_ran() */
};
/* Decide. -ENOENT: no such GPU. Without ops->clock nothing is ever to be done. */
int cgpu_round(struct cgpu_core *core, u32 gpu, struct cgpu_round *turn);

/* Channels for one NV2080_CTRL_CMD_FIFO_DISABLE_CHANNELS. */
#define CGPU_CHANNEL_BATCH 64
struct cgpu_channel_batch {
	u32 gpu;
	u32 disable; /* 1: stop them, 0: let them run */
	u32 count;
	u32 client[CGPU_CHANNEL_BATCH], channel[CGPU_CHANNEL_BATCH]; /* handles */
	u32 object[CGPU_CHANNEL_BATCH]; /* the core's own, as serial */
	u64 serial[CGPU_CHANNEL_BATCH];
	u32 driver_changes[CGPU_CHANNEL_BATCH];
};
/* The next channels to set: first all that must stop. -ENOENT: all channels are as was decided. */
int cgpu_channels_next(struct cgpu_core *core, u32 gpu, struct cgpu_channel_batch *batch);
/* The driver's status, or CGPU_CONTROL_FAILED where it could not be asked: then there is nothing more to do until
 * the next cgpu_round(). A batch that failed is tried channel by channel; a driver that refuses the first controls
 * for good leaves the GPU undivided, and the log says so. */
#define CGPU_CONTROL_FAILED 0xffffffffu
void cgpu_channels_done(struct cgpu_core *core, const struct cgpu_channel_batch *batch, u32 status);

/* One NVA06C_CTRL_CMD_SET_TIMESLICE. */
struct cgpu_timeslice {
	u32 gpu;
	u32 client, group; /* handles */
	s32 tgid; /* of the process that the client is of */
	u32 us;
	u32 object; /* the core's own, as serial */
	u64 serial;
};
/* The next channel group that has another timeslice than it should. client: only of this RM client; 0: of any. Start
 * with *cursor = 0. -ENOENT: there is none. */
int cgpu_timeslices_next(struct cgpu_core *core, u32 gpu, u32 client, u32 *cursor, struct cgpu_timeslice *slice);
/* The driver's status. CGPU_CONTROL_FAILED: the group could not be reached. It is tried again by the next walk over
 * its client, or when timeslices are worked out anew; until then enabling and disabling channels divides the time. */
void cgpu_timeslices_done(struct cgpu_core *core, const struct cgpu_timeslice *slice, u32 status);

#define CGPU_SAMPLES_NS 1000000000ull /* how often to read samples, as long as none are lost */
enum cgpu_samples_kind {
	CGPU_SAMPLES_WHOLE, /* all samples since the reading before */
	CGPU_SAMPLES_PART, /* less than a second's, or it is not known since when */
	CGPU_SAMPLES_LOST, /* there were more of them than the driver keeps */
};
/* The readings of one GPU's samples. The driver keeps few of them: where some were lost, readings follow each other sooner.
 * Zeroes at first. */
struct cgpu_sampling {
	u64 since; /* the driver's time of the newest sample that was counted; 0: none was seen */
	u64 after; /* ns until the next reading */
	/* State of cgpu_sampling_add(). */
	u64 whole, hurry;
	enum cgpu_samples_kind missed;
};
/* Add a reading. Returns the kind to report to the core: a reading is whole only if it ends a second in which none
 * was missing. */
enum cgpu_samples_kind cgpu_sampling_add(struct cgpu_sampling *sampling, enum cgpu_samples_kind look, u64 now);
/* A reading of the driver's samples begins. Processes that have none in two whole intervals count as idle. */
void cgpu_samples_begin(struct cgpu_core *core, u32 gpu, enum cgpu_samples_kind look);
/* A process has used so much GPU time since the last reading. */
void cgpu_ran(struct cgpu_core *core, u32 gpu, s32 tgid, u64 ns);

#endif
