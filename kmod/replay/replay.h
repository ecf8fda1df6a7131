/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls of a recorded trace through the engine's core and the simulated cards, in one process: neither knows of the other,
 * and this stands between them as a transport does. One thread, one slice over all cards; pointers in structures are
 * addresses of this process.
 */
#ifndef CGPU_REPLAY_H
#define CGPU_REPLAY_H

#include <stddef.h>
#include <stdint.h>

#define REPLAY_API __attribute__((visibility("default")))
#define REPLAY_ERROR_BYTES 256u

struct replay;

enum replay_node { REPLAY_CTL, REPLAY_CARD, REPLAY_UVM, REPLAY_OTHER };

struct replay_call {
	uint64_t file;
	uint32_t process;
	uint32_t nr;
	uint32_t bytes;
	uint32_t ask_only; /* what the core says of it: the cards are not asked */
	uint8_t *top;
	/* What the call's pointers may lead to; nothing else of this process is touched for it. */
	uint8_t *memory;
	uint64_t memory_bytes;
	/* Out: enum cgpu_verdict before anything ran, and what ioctl gives: 0 or negative errno. */
	int32_t verdict;
	int32_t result;
};

/* cards: as cgpu-sim takes them. memory: of the slice on each card, in bytes; 0: the whole card. NULL with error filled. */
REPLAY_API struct replay *cgpu_replay_new(
	const char *driver, const char *cards, uint64_t memory, char error[REPLAY_ERROR_BYTES]);
REPLAY_API void cgpu_replay_free(struct replay *replay);
/* A number for the open file, which is never used again; 0: refused. */
REPLAY_API uint64_t cgpu_replay_open(struct replay *replay, uint32_t node, uint32_t card);
REPLAY_API void cgpu_replay_close(struct replay *replay, uint64_t file);
/* -1: there is no such file. */
REPLAY_API int cgpu_replay_call(struct replay *replay, struct replay_call *call);
/* The time of the cards' engines in nanoseconds; 0 at first. It never goes back. */
REPLAY_API void cgpu_replay_set_time(struct replay *replay, uint64_t now);
/* The doorbell of channels, and their figures: write(2) and read(2) of a card's node (kmod/sim/gpu/doorbell.h). -EBADF: the
 * file is none of a card. */
REPLAY_API int cgpu_replay_write(struct replay *replay, uint64_t file, const void *records, size_t bytes);
REPLAY_API int cgpu_replay_read(struct replay *replay, uint64_t file, void *figures, size_t bytes);
REPLAY_API uint32_t cgpu_replay_cards(const struct replay *replay);
/* Bytes that a card says are taken, and bytes that the core has charged on it. */
REPLAY_API uint64_t cgpu_replay_taken(struct replay *replay, uint32_t card);
REPLAY_API uint64_t cgpu_replay_charged(struct replay *replay, uint32_t card);

#endif
