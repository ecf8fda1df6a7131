/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One exchange is one notified call, from its arrival to its answer. Exchanges live in the same memory
 * file as the core's state: an engine that takes over finds what its predecessor was doing.
 */
#ifndef CGPUD_EXCHANGE_H
#define CGPUD_EXCHANGE_H

#include <pthread.h>
#include <stdatomic.h>
#include <linux/seccomp.h>

#include "cgpu_core.h"

#define EXCHANGES_MAX 256
#define EXCHANGE_BUFFERS (1 + CGPU_MAX_SEGMENTS) /* the top-level struct, then the segments */
#define NOTIF_BYTES_MAX 512
#define TURN_UNKNOWN (~0ull)

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

struct exchange {
	u32 stage;
	u32 index;
	u64 listener; /* serial */
	u64 started; /* of the thread, once the answer is kept */
	s32 result; /* what the driver's ioctl gave: 0 or negative errno */
	u32 undone;
	u32 repeated; /* the engine before may have made this call already */
	u32 chosen; /* handle that we gave, where the caller left it open; else 0 */
	u32 again; /* an earlier call like it was answered, and that answer is in the caller's memory */
	u64 turn; /* of its container when it ran: see struct turns */
	u64 top_address;
	u64 age; /* order in which answers were kept or sent */
	u64 sent; /* nanoseconds of the monotonic clock */
	struct cgpu_call call;
	union {
		struct seccomp_notif notif;
		u8 notif_space[NOTIF_BYTES_MAX];
	};
	u8 copy[EXCHANGE_BUFFERS][CGPU_SEGMENT_MAX]; /* what the driver works on */
	u8 before[EXCHANGE_BUFFERS][CGPU_SEGMENT_MAX]; /* what the caller's memory held */
};

struct exchanges {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	int fd;
	void *map;
	size_t bytes;
	void *from; /* the memory file of the engine that we take over from, until that is done */
	size_t from_bytes;
	struct exchange *at; /* EXCHANGES_MAX of them */
	u32 recovered; /* the state came from an engine before this one */
	u64 ages;
	/* Of this process, not shared: who works on an exchange now, and for which thread. */
	u8 busy[EXCHANGES_MAX];
	s32 thread[EXCHANGES_MAX]; /* 0 until it is known to be a driver call */
	atomic_uint kept;
};

/* Make or map the memory file; owns fd from here on. fd -1 makes one. -ESTALE when it was written by another layout; one
 * that the core can convert is given up for a copy. */
int exchanges_open(struct exchanges *x, int fd);
/* 0 when exchanges_open() would take it as far as layouts go, else -ESTALE. fd stays the caller's. */
int exchanges_can_take(int fd);
/* Make a memory file for a copy of another engine's, which still works on its own; fd stays the caller's. */
int exchanges_prepare(struct exchanges *x, int fd);
/* Take the copy. The other one has stopped: no call is under way in it. It stays as it is. */
int exchanges_take_over(struct exchanges *x);
/* No engine takes this memory file up any more. */
void exchanges_give_up(int fd);
void exchanges_close(struct exchanges *x);
struct cgpu_state *exchanges_state(const struct exchanges *x);
struct external_store;
struct external_store *exchanges_external(const struct exchanges *x);

/* A free one, for a notification about to be received, or the place of an answer that was sent long ago, by the container
 * that has most of them; NULL when all are in use. */
struct exchange *exchange_take(struct exchanges *x);
/* An exchange that an engine before this one left unanswered; NULL when there is none left. */
struct exchange *exchange_take_left(struct exchanges *x);
void exchange_release(struct exchanges *x, struct exchange *e);
/* Wait until no other exchange works for the same thread. A restarted call can arrive while its first
 * run is still in the driver. */
void exchange_claim(struct exchanges *x, struct exchange *e);
/* Park an exchange as a kept answer, and let those who wait for its thread go on. */
void exchange_keep(struct exchanges *x, struct exchange *e);
/* Take a kept answer out again: of one thread, or (tid 0) the first at or after index. NULL: none. */
struct exchange *exchange_take_kept(struct exchanges *x, s32 tid, u32 index);
/* The oldest kept answer of the container that has most of them. NULL: none. */
struct exchange *exchange_take_oldest_kept(struct exchanges *x);
/* Leave an answer that was sent behind until the thread's next call, or until its place is needed. */
void exchange_sent(struct exchanges *x, struct exchange *e);
/* Take the last sent answer of a thread out again. NULL: none. */
struct exchange *exchange_take_sent(struct exchanges *x, s32 tid);
/* Put it back as it was. */
void exchange_return_kept(struct exchanges *x, struct exchange *e);

/* Point the call at this exchange's own copies. */
void exchange_rebase(struct exchange *e);
/* As it was before it was judged. */
void exchange_unjudge(struct exchange *e);
/* Forget everything but the notification. */
void exchange_again(struct exchange *e);
void exchange_set_stage(struct exchange *e, enum stage stage);
/* Address in the caller, and length, of buffer n: 0 is the top-level struct. */
u64 exchange_address(const struct exchange *e, u32 n);
u32 exchange_bytes(const struct exchange *e, u32 n);

#endif
