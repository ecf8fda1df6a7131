/* SPDX-License-Identifier: Apache-2.0 */
/* The simulated cards in this process, without their file system, and a driver call as both sides of the transport have it. */
#ifndef TEST_LAYOUTS_CARDS_H
#define TEST_LAYOUTS_CARDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CARDS_ERROR_BYTES 256u

struct sim;
struct open_file;

enum device_node { NODE_CTL, NODE_CARD };

/* Pointers in structures are addresses of this process. stage.py has the same structure for Python. */
struct driver_call {
	uint64_t file;
	uint32_t process;
	uint32_t nr;
	uint32_t bytes;
	uint8_t *top;
	/* The memory that the call's pointers may point into; a call touches no other memory of this process. */
	uint8_t *memory;
	uint64_t memory_bytes;
	/* Out: enum cgpu_verdict before the card ran anything, and the result of ioctl: 0 or negative errno. */
	int32_t verdict;
	int32_t result;
};

/* Whether bytes at an address are memory of the call. */
static inline bool call_reaches(const struct driver_call *call, uint64_t address, uint64_t bytes)
{
	uint64_t start = (uintptr_t)call->memory;

	return address >= start && address - start <= call->memory_bytes &&
		bytes <= call->memory_bytes - (address - start);
}

/* No file includes both the core's headers and the cards', which have the same names for different things. */
struct card_facts {
	uint32_t gpu_id;
	uint64_t bytes, used;
	const char *uuid, *name;
};
/* cards: as cgpu-sim takes them. NULL with error filled. */
struct sim *cards_new(const char *driver, const char *cards, char error[CARDS_ERROR_BYTES]);
void cards_free(struct sim *sim);
uint32_t cards_count(const struct sim *sim);
struct card_facts cards_facts(const struct sim *sim, uint32_t card);
/* card -1: the control node. NULL: none is left. */
struct open_file *cards_open(struct sim *sim, int card, uint64_t *id);
void cards_close(struct sim *sim, struct open_file *file);
/* Whether an open card was registered with this file, and so keeps it. */
bool cards_keep(const struct sim *sim, uint64_t id);
/* 0 or negative errno. */
int cards_call(struct sim *sim, struct open_file *file, const struct driver_call *call);

#endif
