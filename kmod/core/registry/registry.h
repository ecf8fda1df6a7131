/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* GPUs, containers and their instances. The lock is held by the caller. */
#ifndef CGPU_REGISTRY_H
#define CGPU_REGISTRY_H

#include "lib/text.h"
#include "state/state.h"

/* A create line's request for one GPU. */
struct core_want {
	u32 gpu;
	struct cgpu_slice slice;
};

/* Most shares of one container. */
#define CORE_SHARES_MAX 64u

/* Where a line names a share. */
struct core_share_name {
	u16 at, length;
};

struct core_create {
	char id[CGPU_ID_BYTES];
	char *cgroup; /* CGPU_CGROUP_BYTES, in the frame of create_run(): kernels limit that of each function */
	s32 pid; /* 0: the line names none */
	u32 passthrough; /* bit n: the GPU n of the tree, whole */
	u32 passthrough_missing; /* one was named that no tree has */
	u32 count;
	struct core_want want[CGPU_MAX_GPUS];
	const char *line; /* that names the shares */
	u32 shares; /* 0: want is what the line says; else core_shares_resolve() makes it of the reservations */
	struct core_share_name share[CORE_SHARES_MAX];
	struct cgpu_refusal *why; /* or NULL */
};

/* --- reason.c --- */

#define CORE_MIB (1ull << 20)

/* Set *why, unless it is NULL, to a format of core_text_format(). Returns err. */
__attribute__((format(printf, 3, 4))) int core_refuse_line(struct cgpu_refusal *why, int err, const char *format, ...);
/* Refuse a GPU that is not there, or CORE_NONE, and list those that are: -ENOENT. */
int core_refuse_unknown_gpu(struct cgpu_state *state, struct cgpu_refusal *why, u32 gpu);

/* --- slice.c --- */

/* A container with several shares of a GPU has the sum of what they have, or the most. */
enum core_together { CORE_SUM, CORE_MOST };

/* An attribute as cgpu/slice.py declares it. */
struct core_attribute {
	const char *name;
	u32 digits; /* of a write to its entry */
	u32 is_required; /* a line has to say it, and not 0 */
	u64 most;
	u64 preset; /* where a line does not say it */
	enum core_together together;
};
extern const struct core_attribute core_attributes[CGPU_SLICE_ATTRIBUTES];

#define CORE_SLICE_DIGITS 15u /* of each number of a line */

/* The value of an attribute by its number (enum cgpu_slice_attribute). */
u64 *core_slice_value(struct cgpu_slice *slice, u32 attribute);
u64 core_slice_get(const struct cgpu_slice *slice, u32 attribute);
/* Read "1073741824:2:0". 0, or -EINVAL: it does not fit the form or the bounds. */
int core_slice_parse(const char *text, size_t length, struct cgpu_slice *slice);
/* Whether no value is above its bound. */
int core_slice_in_bounds(const struct cgpu_slice *slice);
int core_slice_same(const struct cgpu_slice *slice, const struct cgpu_slice *other);
/* Add what one more share has of a GPU. */
void core_slice_add(struct cgpu_slice *sum, const struct cgpu_slice *part);
/* Write " memsize=1073741824 weight=2 highprio=0", or the numbers alone. */
void core_slice_words(const struct cgpu_slice *slice, struct core_text *out);
void core_slice_numbers(const struct cgpu_slice *slice, struct core_text *out);

/* --- gpu.c --- */

/* 0, or -EINVAL: a number out of its bounds. */
int core_settings_check(const struct cgpu_settings *settings);

/* --- lost.c --- */

/* Log line about a GPU that is lost, or back. */
struct core_lost_line {
	int level; /* 0: nothing is new */
	u32 gpu, lost;
	char text[256];
};
/* The driver says that it has lost a GPU (lost is 1), or it has answered for the GPU. With the lock held. */
void core_lost_set(struct cgpu_state *state, u32 gpu, u32 lost, struct core_lost_line *line);
/* Log it, without the lock. */
void core_lost_log(struct cgpu_core *core, const struct core_lost_line *line);

/* --- event.c: lines for the event log, without the lock --- */

/* A registration, or one that has ended, and its slices of these GPUs (bit n: GPU n). */
struct core_event {
	char id[CGPU_ID_BYTES];
	u32 slot, gpus;
	u64 generation;
};
void core_event_started(struct cgpu_core *core, const struct core_event *event);
void core_event_ended(struct cgpu_core *core, const struct core_event *event);
void core_event_lost(struct cgpu_core *core, u32 gpu, u32 lost);

/* --- names --- */

/* Characters of an id that name its directory. */
size_t core_id_directory(const char *id);
/* 0, or -EINVAL: characters or length. */
int core_id_check(const char *id, size_t length);
/* The slot of a container by its whole id, or by the name of its directory. CORE_NONE. */
u32 core_slot_by_id(const struct cgpu_state *state, const char *id);
u32 core_slot_by_directory(const struct cgpu_state *state, const char *name, size_t length);

/* --- instances --- */

/* An instance counts when its container lives. NULL otherwise. */
struct core_instance *core_instance(struct cgpu_state *state, u32 gpu, u32 number);
/* The instance of a container on a GPU and its number. NULL when it has none there. */
struct core_instance *core_instance_of(struct cgpu_state *state, u32 gpu, u32 slot, u32 *number);
/* Whether a container has a GPU whole, and whether it has it at all: a slice, or the whole. */
int core_is_passthrough(const struct cgpu_state *state, u32 gpu, u32 slot);
int core_has_gpu(struct cgpu_state *state, u32 gpu, u32 slot);
/* Number of containers that have a GPU whole. */
u32 core_passthroughs(const struct cgpu_state *state, u32 gpu);
/* Bytes that an instance may still take. */
u64 core_instance_left(const struct core_instance *instance);
/* The sums of the reservations that a container uses on a GPU. */
struct core_reserved {
	u32 places, weights;
	u64 bytes;
};
struct core_reserved core_reserved_by(struct cgpu_state *state, u32 gpu, const struct core_instance *instance);
/* A live reservation; NULL for another number. */
struct core_reservation *core_reservation(struct cgpu_state *state, u32 gpu, u32 number);
/* The reservation of a share, and its GPU. NULL when there is none. */
struct core_reservation *core_reservation_find(struct cgpu_state *state, const char *id, size_t length, u32 *gpu);
/* The instance of the container that uses a reservation; NULL when none does. */
struct core_instance *core_reservation_user(
	struct cgpu_state *state, u32 gpu, const struct core_reservation *reservation);
/*
 * Sums promised on a GPU, to containers and to reservations. A container that uses reservations counts once: with what
 * it was given, or with what was reserved where that is more, since the reservations stay when the container has ended.
 */
struct core_totals {
	u32 instances; /* containers */
	u32 places; /* of max_inst */
	u32 weights;
	u64 promised; /* bytes */
};
struct core_totals core_totals(struct cgpu_state *state, u32 gpu);
/* The weights of all others than a container. */
u32 core_weights_of_others(struct cgpu_state *state, u32 gpu, const struct core_instance *own);
/* Bytes that are promised to others than a container. */
u64 core_promised_to_others(struct cgpu_state *state, u32 gpu, const struct core_instance *own);
/* Bytes that can still be promised, without the memory that orphans hold; 0 where a container has the GPU whole.
 * own: an instance that does not count, or NULL. */
u64 core_unpromised(struct cgpu_state *state, u32 gpu, const struct core_instance *own);
/* Orphans may be the cause of this errno: let the transport ask the driver about them. 1: try again. Without the
 * lock. */
int core_orphans_settle(struct cgpu_core *core, int err);

/* --- room.c --- */

/* Advice against records and numbers that removed containers still have. */
#define CORE_END_HOLDERS "end the processes that hold their open files of the driver (fuser -v /dev/nvidia* lists them)"
/* Too few numbers for channels are left of a GPU. Returns -ENOMEM. */
int core_refuse_ids(const struct core_gpu *gpu, struct cgpu_refusal *why);

/* Checks of a request for one GPU, in the order that docs/tree.md gives: -ENOENT, -EIO or -EOPNOTSUPP for the GPU;
 * -EINVAL for the weight; -ENOSPC for the place; -ENOMEM for the memory; -EDQUOT for the weight that is left. */
int core_want_check_gpu(struct cgpu_state *state, const struct core_want *want, struct cgpu_refusal *why);
int core_want_check_weight(struct cgpu_state *state, const struct core_want *want, struct cgpu_refusal *why);
int core_want_check_place(struct cgpu_state *state, const struct core_want *want, struct cgpu_refusal *why);
int core_want_check_memory(struct cgpu_state *state, const struct core_want *want, struct cgpu_refusal *why);
int core_want_check_free_weight(struct cgpu_state *state, const struct core_want *want, struct cgpu_refusal *why);

/* --- reservations: reservation.c --- */

/* The lines "reserve" and "release". Without the lock. create: an id, and, to reserve, what is wanted of one GPU. */
int core_share_reserve(struct cgpu_core *core, const struct core_create *create);
int core_share_release(struct cgpu_core *core, const struct core_create *create);
/* Make a container's request from the reservations that its line names. -ENOENT: one is not there. */
int core_shares_resolve(struct cgpu_state *state, struct core_create *create);
/* After that, with the same lock: -EBUSY when a container uses one; -ENOMEM when a card lacks what was promised. */
int core_shares_check(struct cgpu_state *state, const struct core_create *create);
/* Have a container that is not marked yet use them. */
void core_shares_use(struct cgpu_state *state, const struct core_create *create, u32 slot, u64 generation);

/* --- transactions: transaction.c --- */

/* Check a registration, in the order that docs/tree.md gives. Shares are resolved anew. */
int core_create_check(struct cgpu_state *state, struct core_create *create);
/* After a check under the same lock: cannot fail. Returns the slot. */
u32 core_create_commit(struct cgpu_state *state, const struct core_create *create);
void core_container_drop(struct cgpu_state *state, u32 slot);

#endif
