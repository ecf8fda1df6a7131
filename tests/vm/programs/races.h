/* SPDX-License-Identifier: Apache-2.0 */
/* A program whose threads change the arguments of each other's driver calls while these are under way. */
#ifndef RACES_H
#define RACES_H

#include <stdatomic.h>

#include "rm_client.h"

#define FILES 2u
#define HANDLES 6u /* of memory, for each client */
#define FIRST_MEMORY 0xcaf00001u
#define DEVICE 0xdede0001u
#define SUBDEVICE 0xdede0002u
#define LIST_ENTRIES 8u

/* Data that calls read and write, in memory that all threads and processes share. */
struct shared {
	uint64_t limit;
	uint64_t most; /* attempts to make */
	atomic_ullong attempts;
	atomic_ullong taken; /* calls that the driver did not refuse as such */
	atomic_ullong leaks; /* answers that told of more than the limit */
	atomic_int second; /* the other process: 1 done, -1 failed */
	uint32_t client[FILES];
	int ctl[FILES], card[FILES];
	uint8_t alloc[64], heap[256], control[64], dup[64], transfer[2][16];
	uint8_t params[2][256], rights[64], query[2][4096], list[2][8 * LIST_ENTRIES];
};

struct attacker {
	struct shared *shared;
	const struct settings *settings;
	uint64_t random;
};

/* A number below the bound. */
static inline uint32_t below(struct attacker *attacker, uint32_t bound)
{
	attacker->random ^= attacker->random << 13;
	attacker->random ^= attacker->random >> 7;
	attacker->random ^= attacker->random << 17;
	return (uint32_t)(attacker->random >> 32) % bound;
}

/* races_flip.c: change one field, or put a whole call in order. */
void flip(struct attacker *attacker);
void flip_prepare(struct attacker *attacker);
/* races_call.c: make one attempt, with what else goes on around it. */
void call_once(struct attacker *attacker);
/* The clients, each on a file of its own, with a device and a subdevice. */
void call_make_clients(struct attacker *attacker);

#endif
