/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A call in flight is one notified call, from its arrival to its answer. Calls in flight live in the same memory
 * file as the core's state: an engine that takes over finds what the one before was doing.
 */
#ifndef CGPUD_IN_FLIGHT_H
#define CGPUD_IN_FLIGHT_H

#include <pthread.h>
#include <stdatomic.h>
#include <linux/seccomp.h>

#include "cgpu_core.h"
#include "cgpu_latency.h"

#define IN_FLIGHT_MAX 256
#define IN_FLIGHT_BUFFERS (1 + CGPU_MAX_SEGMENTS) /* the top-level struct, then the segments */
#define NOTIF_BYTES_MAX 512
#define COUNT_UNKNOWN (~0ull)

enum stage {
	STAGE_FREE,
	STAGE_RECEIVING, /* notif.id tells whether the kernel handed one over */
	STAGE_EXECUTING, /* the driver may or may not have run it */
	STAGE_EXECUTED, /* the copies hold the answer */
	STAGE_ANSWERING, /* the answer may have been sent */
	STAGE_KEPT, /* executed, and its thread was interrupted before the answer */
	STAGE_SENT, /* answered; the thread may have been interrupted all the same */
	STAGES
};

struct in_flight {
	u32 stage;
	u32 index;
	u64 listener; /* serial */
	u64 started; /* of the thread, once the answer is kept */
	s32 result; /* of the driver's ioctl: 0 or negative errno */
	u32 undone;
	u32 repeated; /* the engine before may have made this call already */
	u32 chosen; /* handle that we gave, where the caller left it open; else 0 */
	u32 again; /* an earlier call like it was answered, and that answer is in the caller's memory */
	u64 counted; /* of its container when it ran: see struct call_counts */
	u64 top_address;
	u64 age; /* order in which answers were kept or sent */
	u64 sent; /* nanoseconds of the monotonic clock */
	struct cgpu_call call;
	union {
		struct seccomp_notif notif;
		u8 notif_space[NOTIF_BYTES_MAX];
	};
	u8 copy[IN_FLIGHT_BUFFERS][CGPU_SEGMENT_MAX]; /* the driver works on these */
	u8 before[IN_FLIGHT_BUFFERS][CGPU_SEGMENT_MAX]; /* the caller's memory before the call */
};

struct in_flight_table {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	int fd;
	void *map;
	size_t bytes;
	void *from; /* the memory file of the engine before, until it is taken up */
	size_t from_bytes;
	struct in_flight *at; /* IN_FLIGHT_MAX of them */
	u32 recovered; /* the state came from an engine before this one */
	u64 ages;
	/* Private to this process: whether a worker has a call now, and for which thread. */
	u8 busy[IN_FLIGHT_MAX];
	s32 thread[IN_FLIGHT_MAX]; /* 0 until it is known to be a driver call */
	atomic_uint kept;
	u64 received
		[IN_FLIGHT_MAX]; /* nanoseconds of the monotonic clock; 0: by the engine before, nobody knows when */
	struct cgpu_latency
		*latency; /* CGPU_OUTCOMES of them, in the memory file: other threads count at the same time */
	/* In the memory file: 1: the driver may have made an object for a call that an engine left, and no engine knows its
	 * handle. Its record has none, and stays charged. */
	u32 *unsure;
};

/* Make or map the memory file; owns fd from here on. fd -1 makes one. -ESTALE when it was written by another layout; one
 * that the core can convert is given up for a copy. */
int state_file_open(struct in_flight_table *x, int fd);
void state_file_close(struct in_flight_table *x);
struct cgpu_state *state_file_state(const struct in_flight_table *x);
struct external_store;
struct external_store *state_file_external(const struct in_flight_table *x);

/* A free one, for a notification about to be received, or the place of an answer that was sent long ago, by the container
 * that has most of them; NULL when all are in use. */
struct in_flight *in_flight_take(struct in_flight_table *x);
/* A call that an engine before this one left unanswered; NULL when there is none left. */
struct in_flight *in_flight_take_unanswered(struct in_flight_table *x);
void in_flight_release(struct in_flight_table *x, struct in_flight *e);
/* The kernel has just handed the notification over. */
void in_flight_received(struct in_flight_table *x, const struct in_flight *e);
/* The answer is about to be handed to the kernel: count how long the call took. Takes no lock. */
void in_flight_took(struct in_flight_table *x, const struct in_flight *e, enum cgpu_outcome outcome);
/* Wait until no other call works for the same thread. A restarted call can arrive while its first
 * run is still in the driver. 1: there was one. */
u32 in_flight_await_thread(struct in_flight_table *x, struct in_flight *e);
/* Keep the call's answer, and wake workers that wait for its thread. */
void in_flight_keep(struct in_flight_table *x, struct in_flight *e);
/* Take a kept answer out again: of one thread, or (tid 0) the first at or after index. NULL: none. */
struct in_flight *in_flight_take_kept(struct in_flight_table *x, s32 tid, u32 index);
/* The oldest kept answer of the container that has most of them. NULL: none. */
struct in_flight *in_flight_take_oldest_kept(struct in_flight_table *x);
/* Leave an answer that was sent behind until the thread's next call, or until its place is needed. */
void in_flight_sent(struct in_flight_table *x, struct in_flight *e);
/* Take the last sent answer of a thread out again. NULL: none. */
struct in_flight *in_flight_take_sent(struct in_flight_table *x, s32 tid);
/* Put it back as it was. */
void in_flight_return_kept(struct in_flight_table *x, struct in_flight *e);

/* Point the call at this call's own copies: pointers of a process before are void. */
void in_flight_rebase(struct in_flight *e);
/* Restore the call to its state before the judgement, which has changed none of its nested buffers. */
void in_flight_unjudge(struct in_flight *e);
/* Forget everything but the notification. */
void in_flight_reset(struct in_flight *e);
void in_flight_set_stage(struct in_flight *e, enum stage stage);
/* Address in the caller, and length, of buffer n: 0 is the top-level struct. */
u64 in_flight_address(const struct in_flight *e, u32 n);
u32 in_flight_bytes(const struct in_flight *e, u32 n);

#endif
