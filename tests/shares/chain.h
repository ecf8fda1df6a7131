/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An engine that uses the scheduling controls of a simulated card, in virtual time: the core decides, driver calls carry it out, and what
 * came of it is what the card's engines have done. On a stage (tests/layouts), whose containers make the calls.
 */
#ifndef TEST_SHARES_CHAIN_H
#define TEST_SHARES_CHAIN_H

#include "cgpu_round.h"
#include "stage.h"

#define CHAIN_PROGRAMS 512u
#define CHAIN_CLIENTS 512u

/* Work of one channel: kernels of a length, whenever less than so much is in its queue. */
struct chain_program {
	uint64_t file; /* the card's node, of the channel's client */
	uint32_t client, channel;
	uint64_t length, grain;
	uint64_t ahead; /* ns of work in the queue; 0: launches nothing */
	uint64_t submitted;
};

struct chain {
	struct stage *stage;
	struct cgpu_ops ops;
	uint64_t file; /* the engine's nvidiactl */
	uint32_t client, subdevice;
	uint64_t now;
	uint64_t turns, calls;
	uint32_t due; /* what was decided is out of date */
	uint32_t programs, clients;
	struct chain_program program[CHAIN_PROGRAMS];
	uint32_t client_of[CHAIN_CLIENTS];
	uint64_t file_of[CHAIN_CLIENTS];
};

/* file, client, subdevice: the engine's own, made on the stage by calls from outside. */
struct chain *chain_new(struct stage *stage, uint64_t file, uint32_t client, uint32_t subdevice, uint64_t slice);
void chain_free(struct chain *chain);
/* Where a container's client lives: its time slices are set on that file. */
void chain_client(struct chain *chain, uint32_t client, uint64_t file);
/* A number, or -1. */
int chain_program(
	struct chain *chain, uint64_t file, uint32_t client, uint32_t channel, uint64_t length, uint64_t grain);
void chain_ahead(struct chain *chain, uint32_t program, uint64_t ahead);
/* Work and scheduling controls for this long. 0 or negative errno. */
int chain_run(struct chain *chain, uint64_t ns);
/* ns that the card says the program's kernels ran; of all its kernels: completed, and still queued. */
uint64_t chain_busy(struct chain *chain, uint32_t program);
uint64_t chain_completed(struct chain *chain, uint32_t program);
/* One write to a node of the tree, and its text. 0 or negative errno; the length. */
int chain_write(struct chain *chain, const char *path, const char *text);
long chain_read(struct chain *chain, const char *path, char *text, size_t bytes);

/* card.c: calls and groups of a card's engines that have not acted yet. */
uint32_t chain_pending(struct sim *sim, uint32_t card);

#endif
