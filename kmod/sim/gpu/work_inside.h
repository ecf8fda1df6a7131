/* SPDX-License-Identifier: Apache-2.0 */
/* Structures and functions that only the files of the simulated card's engines share. */
#ifndef CGPU_SIM_WORK_INSIDE_H
#define CGPU_SIM_WORK_INSIDE_H

#include <stddef.h>
#include <string.h>

#include "work.h"

/* A kernel in a queue. */
struct work_item {
	struct work_kernel kernel;
	uint64_t progress; /* time that it has run already */
};

struct work_channel {
	bool used;
	bool enabled;
	uint32_t group;
	uint64_t serial; /* tells this channel from earlier ones with the same identifier */
	/* Neighbours in the ring of the group's channels. */
	uint32_t next;
	uint32_t prev;
	struct work_item *items;
	uint32_t size;
	uint32_t first;
	uint32_t count;
	uint64_t busy;
	uint64_t submitted;
	uint64_t completed;
};

struct work_group {
	bool used;
	bool scheduled;
	uint32_t engine;
	uint64_t serial;
	uint64_t slice;
	uint32_t channels;
	/* The group's channel that runs next; WORK_NONE: it has no channels. */
	uint32_t next_channel;
	uint64_t busy;
	uint64_t switching;
	uint64_t submitted;
	uint64_t completed;
	uint64_t cancelled;
};

enum work_state { WORK_IDLE, WORK_SWITCHING, WORK_RUNNING, WORK_SAVING };
/* Reason for a group to leave: its slice is over, or a command forces it. */
enum work_leave { WORK_STAYS, WORK_EXPIRED, WORK_FORCED };

struct work_engine {
	/* The runlist, and the place in it that was served last. */
	uint16_t runlist[WORK_GROUPS];
	uint32_t length;
	uint32_t cursor;
	enum work_state state;
	enum work_leave leave;
	uint32_t loaded; /* a group, or WORK_NONE */
	uint32_t channel; /* whose kernel is on the engine, or WORK_NONE */
	uint32_t for_group; /* for which it is switching or saving; WORK_NONE: it is gone */
	uint64_t until; /* the end of switching or saving */
	uint64_t slice_left;
	uint64_t busy;
	uint64_t switching;
	uint64_t idle;
};

enum work_command_kind {
	WORK_COMMAND_ENABLE,
	WORK_COMMAND_SCHEDULE,
	WORK_COMMAND_TIMESLICE,
};

struct work_command {
	uint64_t at;
	uint64_t value;
	/* The target's serial; the command spares a later target with the same identifier. */
	uint64_t serial;
	enum work_command_kind kind;
	uint32_t target;
};

struct work {
	struct work_setup setup;
	uint64_t now;
	bool inside; /* work_advance() runs, and carries out all commands of that time */
	bool kicked;
	work_done_fn done;
	void *done_ctx;
	struct work_command *commands; /* a ring */
	uint32_t command_room;
	uint32_t command_first;
	uint32_t command_count;
	uint64_t serial;
	uint32_t groups; /* no identifier from here on is used */
	struct work_engine engine[WORK_ENGINES];
	struct work_group group[WORK_GROUPS];
	struct work_channel channel[WORK_CHANNELS];
};

static inline struct work_item *work_head(struct work_channel *channel)
{
	return &channel->items[channel->first];
}

static inline bool work_channel_exists(const struct work *work, uint32_t channel)
{
	return channel < WORK_CHANNELS && work->channel[channel].used;
}

static inline bool work_group_exists(const struct work *work, uint32_t group)
{
	return group < WORK_GROUPS && work->group[group].used;
}

/* work_engine.c */
/* Time of the engine's next event; WORK_NEVER. */
uint64_t engine_next(const struct work *work, const struct work_engine *engine);
/* Accounts for the time since work->now. */
void engine_spend(struct work *work, struct work_engine *engine, uint64_t ns);
/* Runs the engine's events at work->now. */
void engine_settle(struct work *work, struct work_engine *engine);
/* The group that is loaded leaves when it can. */
void engine_leave(struct work_engine *engine, enum work_leave why);
/* Ends the running kernel at once, and takes the group off the engine, as the channel goes. */
void engine_drop(struct work *work, struct work_engine *engine);
/* Makes the runlist anew: the slice that runs ends, and the list is served from its start. */
void runlist_submit(struct work *work, uint32_t engine);
void runlist_restart(struct work_engine *engine);

/* work_control.c: runs all that became possible at work->now. */
void work_settle(struct work *work);

#endif
