/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Counters of the entries `stat` of the tree. A counter never goes back while its subject lives: neither with the
 * engine's process, nor with another version of the engine. All of it changes under ops->lock, but for `notified`.
 */
#ifndef CGPU_COUNTERS_H
#define CGPU_COUNTERS_H

#include "cgpu_core.h"

struct core_instance;

/* Why a container got no memory of a GPU. */
enum core_short {
	CORE_SHORT_LIMIT, /* its memory limit has no room for it */
	CORE_SHORT_CARD, /* the driver had none left */
	CORE_SHORT_UNACCOUNTED, /* drift_reaction is to refuse, and too much is unaccounted for */
	CORE_SHORTS,
};

/* Why another call of a container was refused. */
enum core_refusal {
	CORE_REFUSAL_CLASS, /* of the object that was to be made */
	CORE_REFUSAL_CONTROL,
	CORE_REFUSAL_CLIENT, /* it is about an RM client that another container has on record */
	CORE_REFUSAL_RECORDS, /* the engine has no room for a record of what was to be made */
	CORE_REFUSAL_CALL, /* any other: an unknown call, a GPU that was not granted, parameters that no driver takes */
	CORE_REFUSALS,
};

/* Counters of one container on one GPU. */
struct core_instance_stat {
	u64 peak; /* bytes: the most that it had, without what the driver did not give in the end */
	u64 usage; /* ns: the most that core_instance.usage was, which is corrected downwards now and then */
	u64 throttled; /* ns: docs/tree.md says what this is under each policy */
	u64 refused[CORE_SHORTS];
	u64 sampled; /* ns: GPU time of it in the reading of the driver's samples that is under way */
};

struct core_gpu_stat {
	/* Sums over all instances, also those that have ended. */
	u64 usage;
	u64 refused[CORE_SHORTS];
	/* Since `since`, the channels of these instances are disabled (bit n: instance n). */
	u64 since;
	u32 disabled;
	u32 spare;
	struct core_instance_stat instance[CGPU_MAX_INST];
};

struct core_container_stat {
	u64 refused[CORE_REFUSALS];
};

#define CORE_MADE 1u
#define CORE_TAKEN_UP 2u

struct core_engine_stat {
	u64 notified; /* system calls that a supervisor was notified of, whatever they were about */
	u64 executed, continued, answered, refused; /* judged calls of the driver, by what became of them */
	u64 refusals[CORE_REFUSALS];
	u64 registered; /* containers */
	u64 restarts; /* how often the state was taken up after the end of its owner */
	u64 upgrades; /* how often another version has gone on with this state */
	u64 reloads; /* how often other settings came into force since */
	u32 fresh; /* settings were not applied since then: CORE_MADE, CORE_TAKEN_UP; else 0 */
	u32 spare;
};

struct core_stat {
	struct core_engine_stat engine;
	struct core_gpu_stat gpu[CGPU_MAX_GPUS];
	struct core_container_stat container[CGPU_MAX_CONTAINERS];
};

/* --- counters.c --- */

/* Forget what was counted of an instance, of a GPU with its instances, of a container. */
void core_stat_instance_begin(struct cgpu_state *state, u32 gpu, u32 number);
void core_stat_gpu_begin(struct cgpu_state *state, u32 gpu);
void core_stat_container_begin(struct cgpu_state *state, u32 slot);
/* An instance has so many bytes. */
void core_stat_taken(struct cgpu_state *state, u32 gpu, u32 number, u64 bytes);
/* Its `usage` has changed. */
void core_stat_used(struct cgpu_state *state, u32 gpu, u32 number);
void core_stat_short(struct cgpu_state *state, u32 gpu, u32 number, enum core_short why);
/* slot: CORE_NONE where the container is gone. */
void core_stat_refused(struct cgpu_state *state, u32 slot, enum core_refusal why);
/* Other settings are applied, by an engine of this version. */
void core_stat_settings(struct cgpu_state *state, const struct cgpu_settings *settings);
/* After everything else has been recovered. */
void core_stat_recover(struct cgpu_state *state);

#endif
