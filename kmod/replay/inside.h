/* SPDX-License-Identifier: Apache-2.0 */
/* The interface to the simulated cards. */
#ifndef CGPU_REPLAY_INSIDE_H
#define CGPU_REPLAY_INSIDE_H

#include <stdbool.h>

#include "replay.h"

struct sim;
struct open_file;

/* cards.c. No file includes both the core's headers and the cards', which have the same names for different things. */
struct card_facts {
	uint32_t gpu_id;
	uint64_t bytes, used;
	const char *uuid, *name;
};
struct sim *cards_new(const char *driver, const char *cards, char error[REPLAY_ERROR_BYTES]);
void cards_free(struct sim *sim);
uint32_t cards_count(const struct sim *sim);
struct card_facts cards_facts(const struct sim *sim, uint32_t card);
/* card -1: the control node. NULL: none is left. */
struct open_file *cards_open(struct sim *sim, int card, uint64_t *id);
void cards_close(struct sim *sim, struct open_file *file);
/* Whether an open card was registered with this file, and so keeps it. */
bool cards_keep(const struct sim *sim, uint64_t id);
/* The cards' time, which stands still until it is set again. */
void cards_set_time(struct sim *sim, uint64_t now);
/* write(2) and read(2) of a card's node, for its doorbell (kmod/sim/gpu/doorbell.h). */
int cards_ring(struct sim *sim, struct open_file *file, const void *records, size_t bytes);
int cards_figures(struct sim *sim, struct open_file *file, void *figures, size_t bytes);
/* Whether bytes at an address are memory of the call. */
static inline bool replay_reaches(const struct replay_call *call, uint64_t address, uint64_t bytes)
{
	uint64_t start = (uintptr_t)call->memory;

	return address >= start && address - start <= call->memory_bytes &&
		bytes <= call->memory_bytes - (address - start);
}
/* 0 or negative errno. */
int cards_call(struct sim *sim, struct open_file *file, const struct replay_call *call);

#endif
