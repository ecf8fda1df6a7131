/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A simulated card runs the work that clients write to memory: it reads the pushbuffers of channels and does what host
 * and copy engines do. It launches no kernels. Everything here runs with sim->lock held, also reads and writes of a
 * client's memory that the client has made known to the card: a process that delays them delays all cards.
 */
#ifndef CGPU_SIM_GPU_H
#define CGPU_SIM_GPU_H

#include "sim.h"
#include "backing.h"

/* gpu_space.c */
/* Into an address space of a client, by its handle. Whole, or not at all. */
bool gpu_read(struct sim *sim, uint64_t client, uint32_t va_space, uint64_t address, void *out, uint64_t size);
bool gpu_write(struct sim *sim, uint64_t client, uint32_t va_space, uint64_t address, const void *data, uint64_t size);
bool gpu_copy(struct sim *sim, uint64_t client, uint32_t va_space, uint64_t from, uint64_t to, uint64_t size);

/* mapping.c */
extern const struct contents gpu_contents;

#define GPU_SUBCHANNELS NVC46F_NUMBER_OF_SUBCHANNELS
#define GPU_METHODS 4096u

/* A channel whose pushbuffers are read. */
struct gpu_channel {
	struct gpu_channel *next;
	struct object *object; /* it goes with this */
	uint64_t client; /* by number, with the address space: */
	uint32_t va_space;
	uint64_t fifo; /* address of its ring */
	uint32_t entries;
	struct backing *error; /* where it says why it is read no further; or NULL */
	struct backing *user; /* where the client and the card tell each other how far they are */
	uint64_t user_at;
	/* The pushbuffer that is being read, and the method that it is at. */
	uint64_t at;
	uint32_t words;
	uint32_t method;
	uint32_t subchannel;
	uint32_t count;
	uint32_t operation;
	bool failed; /* it did what the card cannot; it is read no further */
	/* Place and length of data that the pushbuffer itself has. */
	uint64_t inline_at;
	uint64_t inline_left;
	uint32_t class_id[GPU_SUBCHANNELS];
	uint32_t value[GPU_SUBCHANNELS][GPU_METHODS];
};

/* gpu_channel.c */
uint32_t gpu_channel_add(struct sim *sim, struct object *object, const uint8_t *params);
void gpu_channel_forget(struct sim *sim, struct object *object);
/* Reads on in all channels. True: some of them have more. */
bool gpu_advance(struct sim *sim);

/* A field of a method's data, and the address in two methods. */
#define GPU_FIELD(data, name) ((data) >> name##_SHIFT & name##_MASK)
/* Hopper has the most bits above; clients of older cards set no more of them than such a card has. */
#define GPU_ADDRESS(value, upper, lower) \
	((uint64_t)((value)[(upper) / 4] & NVC8B5_SET_SEMAPHORE_A_UPPER_MASK) << 32 | (value)[(lower) / 4])

#endif
