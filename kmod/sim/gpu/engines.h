/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The engines of the simulated cards (work.h) as the driver has them: its channel groups and channels, and the samples of
 * how busy they were. Everything here runs with sim->lock held.
 *
 * A card's engines are brought to the present whenever somebody asks for something of them; nothing runs by itself. Their
 * time is that of the machine's clock, in nanoseconds, or what was set.
 */
#ifndef CGPU_SIM_ENGINES_H
#define CGPU_SIM_ENGINES_H

#include "sim.h"
#include "work.h"

/* Places for samples in the driver's answer. */
#define ENGINES_SAMPLES 72u
/* Six in a second. */
#define ENGINES_SAMPLE_NS 166666667ull

/* KernelChannelGroup: the group that an object of a channel group, and each duplicate of it, stands for. */
struct engine_group {
	struct engine_group *next; /* of the card */
	struct engine_channel *channels;
	uint32_t count; /* of these */
	uint32_t refs; /* objects, and channels */
	uint32_t card;
	uint32_t id; /* of the engines */
	uint32_t engine;
	pid_t process; /* that made the client */
	bool is_bound; /* its engine cannot become another one any more */
	uint64_t timeslice; /* as it was asked for */
	uint64_t sampled; /* its time that is in samples already */
};

struct engine_channel {
	struct engine_channel *next; /* of the group */
	struct engine_group *group;
	uint32_t id;
	uint32_t queue;
	/* The channel runs when neither is set. is_stopped: GPFIFO_SCHEDULE; is_disabled: FIFO_DISABLE_CHANNELS. */
	bool is_stopped;
	bool is_disabled;
};

/* Time that the graphics engine was busy with a process, up to `ended`. */
struct engine_sample {
	uint64_t ended;
	uint64_t busy;
	pid_t process; /* 0: it was idle */
};

struct engines {
	struct work *work;
	struct engine_group *groups;
	/* Ring of samples, and in `open` the next entries: `busy` of the time that has not ended. */
	struct engine_sample sample[ENGINES_SAMPLES];
	uint32_t samples;
	uint32_t tail;
	uint64_t next_sample;
	struct engine_sample open[ENGINES_SAMPLES];
	uint32_t opened;
};

/* engines.c */
/* The driver's status for a result of work.h. */
uint32_t engines_status(int result);
/* Makes a card's engines, unless it has them. */
uint32_t engines_need(struct sim *sim, uint32_t card);
void engines_destroy(struct card *card);
/* The cards' clock, in nanoseconds: the machine's, or the time that is set. */
uint64_t engines_time(const struct sim *sim);
/* Brings a card's engines to the present, if it has any. */
void engines_advance(struct sim *sim, uint32_t card);
/* Without the lock: waits until all commands have acted and disabled channels have left; a second at most. Where the
 * time is set it does nothing. */
void engines_wait(struct sim *sim, uint32_t card);
/* Makes the group of a channel group's new object. engine: NV2080_ENGINE_TYPE_*. */
uint32_t engines_group_add(struct sim *sim, struct object *object, uint32_t engine);
/* Makes the channel of a new object, in a group or, where that is NULL, in one of its own. */
uint32_t engines_channel_add(
	struct sim *sim, struct object *object, struct engine_group *group, uint32_t engine, uint32_t entries);
void engines_share(const struct object *source, struct object *copy);
/* Ends group or channel of an object that is about to be freed. */
void engines_leave(struct sim *sim, struct object *object);
/* Takes an unbound group to another engine, with its channels. */
uint32_t engines_bind(struct sim *sim, struct engine_group *group, uint32_t engine);

/* engines_samples.c */
/* Advances engines to a time, with a sample whenever one is due. */
void samples_advance(struct engines *engines, uint64_t until);
/* A group's time that is in no sample yet, before it goes. */
void samples_keep(struct engines *engines, struct engine_group *group);

#endif
