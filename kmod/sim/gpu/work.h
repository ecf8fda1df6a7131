/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The engines of a simulated card serve the work in its channels as a real card's do, in virtual time. They compute
 * nothing; a kernel is a length. Time goes on only in work_advance(), so a minute takes as long as its events do.
 *
 * As on the card: an engine serves its runlist of channel groups one after the other; a group runs until its time slice is over and
 * what runs can be preempted, or until its channels have no work (NVIDIA/open-gpu-doc, manuals/ampere/ga100/
 * dev_ram.ref.txt, "RUN-LIST RAM", and manuals/turing/tu104/dev_pbdma.ref.txt). Loading a context is not part of a slice.
 * A new runlist ends the running slice and is served from its start. A group that is alone stays, without a switch.
 * Work comes into a channel's queue by a store and a doorbell, so no call is needed for it.
 *
 * Simpler than a card: an engine runs one kernel at a time, and the channels of a group alternate kernel by kernel; a
 * group lies once on one runlist, whatever its interleave level; memory, semaphores and faults are not there. Lengths of kernels, costs of a switch and of a
 * scheduling control are parameters: no source has them.
 *
 * One card is used by one thread at a time. All times are in nanoseconds since work_create().
 */
#ifndef CGPU_SIM_WORK_H
#define CGPU_SIM_WORK_H

#include <stdbool.h>
#include <stdint.h>

#define WORK_ENGINES 16u
/* Most channels of a group (NV_RAMRL_ENTRY_TSG_LENGTH_MAX), and numbers of identifiers (..._ID_MAX). */
#define WORK_GROUP_CHANNELS 128u
#define WORK_GROUPS 2048u
#define WORK_CHANNELS 2048u
#define WORK_QUEUE_MAX 65536u
#define WORK_NONE UINT32_MAX
#define WORK_NEVER UINT64_MAX
/* The longest length or cost. */
#define WORK_LONGEST (1ull << 60)

/* A slice is (timeout << scale) units of 1024 ns; 0 is used as 1 (dev_ram.ref.txt, "Runlist TSG Entry Type"). */
#define WORK_SLICE_UNIT 1024u
#define WORK_SLICE_TIMEOUT_MAX 255u
#define WORK_SLICE_SCALE_MAX 15u
/* 128 << 3 (NV_RAMRL_ENTRY_TSG_TIMESLICE_TIMEOUT_128, ..._SCALE_3), which the driver calls microseconds. */
#define WORK_SLICE_DEFAULT 1024u

struct work_setup {
	uint32_t engines;
	uint64_t switch_ns; /* to load the context of another group */
	uint64_t save_ns; /* more, when a kernel is cut in the middle */
	uint64_t command_ns; /* from a scheduling control to its effect */
};

struct work_kernel {
	uint64_t length; /* at least 1 */
	uint64_t grain; /* it can be preempted after each so many: 1: at any instruction; 0: not before its end */
	uint64_t tag; /* the submitter's */
};

/* A kernel has ended. Called from work_advance(), in the order of time. May submit work and make scheduling controls,
 * which act after it returned. */
typedef void (*work_done_fn)(void *ctx, uint32_t channel, uint64_t tag);

struct work_engine_figures {
	uint64_t busy; /* busy, switching and idle together are all the time there was */
	uint64_t switching;
	uint64_t idle;
	uint32_t group; /* whose context is loaded, or is being loaded; WORK_NONE */
	uint32_t channel; /* whose kernel runs now; WORK_NONE */
};

struct work_group_figures {
	uint64_t busy;
	uint64_t switching; /* loading and saving its context */
	uint64_t submitted; /* completed, cancelled and queued together */
	uint64_t completed;
	uint64_t cancelled; /* of channels that were removed with work in them */
	uint64_t queued;
};

struct work_channel_figures {
	uint64_t busy;
	uint64_t submitted;
	uint64_t completed;
	uint64_t queued;
};

struct work;

/* work.c. NULL: no memory, or a setup that makes no sense. */
struct work *work_create(const struct work_setup *setup);
void work_destroy(struct work *work);
void work_on_done(struct work *work, work_done_fn done, void *ctx);
/* An identifier; WORK_NONE: no such engine or group, or none left. The driver's groups are not scheduled at first, and its
 * channels not enabled (kernel_channel_group_api.c). */
uint32_t work_group_add(struct work *work, uint32_t engine, bool scheduled);
uint32_t work_channel_add(struct work *work, uint32_t group, uint32_t queue, bool enabled);
/* Removes the group with its channels. Work that is left in them is lost, as on a card. 0, or -ENOENT. */
int work_group_remove(struct work *work, uint32_t group);
int work_channel_remove(struct work *work, uint32_t channel);
/* The doorbell. 0, -ENOENT, -EAGAIN (the queue is full), -EINVAL, -ENOMEM. */
int work_submit(struct work *work, uint32_t channel, const struct work_kernel *kernel);

/* work_control.c */
/* Time of the next event; WORK_NEVER: there is none. */
uint64_t work_next(const struct work *work);
/* Advances to a time below WORK_NEVER. */
void work_advance(struct work *work, uint64_t until);

/* work.c: figures. 0, or -ENOENT. */
uint64_t work_now(const struct work *work);
int work_engine_figures(const struct work *work, uint32_t engine, struct work_engine_figures *figures);
int work_group_figures(const struct work *work, uint32_t group, struct work_group_figures *figures);
int work_channel_figures(const struct work *work, uint32_t channel, struct work_channel_figures *figures);

/*
 * work_control.c: the driver's commands. They act command_ns later, in the order in which they were called; 0, or
 * -ENOENT, -EINVAL, -ENOMEM now. A command does nothing if its target is gone by then.
 */
/* FIFO_DISABLE_CHANNELS. Channels that run leave at the next point at which they can be preempted. */
int work_channels_disable(struct work *work, const uint32_t *channels, uint32_t count, bool disable);
/* GPFIFO_SCHEDULE of a group: off the runlist, or on it again. */
int work_group_schedule(struct work *work, uint32_t group, bool enable);
/* SET_TIMESLICE. */
int work_group_timeslice(struct work *work, uint32_t group, uint64_t us);
/* Calls that have not acted yet, and groups that still have to leave: 0 when a caller that waits would return. */
uint32_t work_pending(const struct work *work);

/* work_engine.c: nanoseconds of the slice that the card takes for so many microseconds: rounded down. */
uint64_t work_slice(uint64_t us);

#endif
