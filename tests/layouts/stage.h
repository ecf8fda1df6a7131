/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A fixture with the engine's core and simulated cards in one process. Its functions make the driver calls of several
 * containers, as the kernel module or the daemon passes them on, and compare the core's charges with the memory that
 * the cards have given out. stage.py calls these functions from Python.
 */
#ifndef TEST_LAYOUTS_STAGE_H
#define TEST_LAYOUTS_STAGE_H

#include "holdings.h"
#include "transport.h"

#define STAGE_CONTAINERS 64u /* made by one stage: the number of a removed container is not used again */
#define STAGE_OUTSIDE 64u /* instead of a container's number: a process outside, whose calls the engine does not see */
#define STAGE_HOLDS 256u /* at a time */
#define STAGE_PIECES 16u /* of managed memory, on each card of one hold */
#define STAGE_PIECE_BYTES (2ull << 20) /* UVM_CHUNK_SIZE_MAX, kernel-open/nvidia-uvm/uvm_pmm_gpu.h */

enum stage_fault {
	STAGE_FINE,
	STAGE_STATUS, /* the driver does nothing and returns the status of struct stage_call */
	STAGE_INTERRUPTED, /* the driver does nothing, and the call fails with EINTR */
	STAGE_UNHEARD, /* the driver executes the call but cannot copy the result to the caller: EFAULT */
};

struct stage_call {
	struct driver_call call;
	uint32_t container;
	uint32_t fault; /* enum stage_fault */
	uint32_t status; /* for STAGE_STATUS */
	void (*between)(void); /* called after the driver and before the core learns the result; may be NULL */
};

/* Memory that nvidia-uvm refers to for a process: a duplicate of one object, or managed memory on each card. */
struct stage_hold {
	bool live;
	uint32_t container, process;
	uint32_t count; /* entries of hold and card in use */
	struct cgpu_reference hold[HOLDINGS_CARDS];
	uint32_t card[HOLDINGS_CARDS];
	uint32_t pieces; /* on each card; 0: a duplicate */
	uint32_t handle[HOLDINGS_CARDS][STAGE_PIECES];
};

struct stage {
	struct transport transport;
	struct holdings *holdings;
	struct cgpu_container_info container[STAGE_CONTAINERS];
	bool live[STAGE_CONTAINERS];
	uint32_t containers;
	struct stage_hold hold[STAGE_HOLDS];
	char problem[160]; /* the first one that a step or a comparison found */
};

/*
 * state: memory of cgpu_state_bytes() bytes. driver, cards: as for cards_new(). in_kernel: 1 for an engine that is told
 * of closed files, as the kernel module is; 0 for one that asks the driver which clients are left. NULL: the driver or
 * the cards are unknown, or there is no memory.
 */
struct stage *stage_new(void *state, const char *driver, const char *cards, uint32_t enforce, uint32_t in_kernel);
void stage_free(struct stage *stage);
/* Write a line to inst_ctl that registers container id. Its number, or negative errno. */
int stage_create(struct stage *stage, const char *id, const char *line);
void stage_destroy(struct stage *stage, uint32_t container);
/* Recover the core's state, as the next daemon or the next core module does. 0 or negative errno. */
int stage_recover(struct stage *stage);
/* Open a device node, an enum device_node. The number of the file, or 0: refused. */
uint64_t stage_open(struct stage *stage, uint32_t container, uint32_t node, uint32_t card);
void stage_close(struct stage *stage, uint64_t file);
void stage_call(struct stage *stage, struct stage_call *step);

/* In uvm.c. Make a duplicate of a client's object. The number of the hold, or negative errno. fail: the driver refuses.
 * between: as in struct stage_call. */
int stage_hold(struct stage *stage, uint32_t container, uint32_t process, uint32_t client, uint32_t handle,
	uint32_t fail, void (*between)(void));
/* Allocate managed memory on each card of the container. The number of the hold, or negative errno. */
int stage_managed(struct stage *stage, uint32_t container, uint32_t process, uint32_t pieces);
/* Give back one piece on each card; the last piece stays. */
void stage_shrink(struct stage *stage, uint32_t hold);
/* Release the hold with all its memory. */
void stage_let_go(struct stage *stage, uint32_t hold);

/*
 * Whether the core charges what the cards have given out; problem says where the two differ. limited: check that no
 * container has more than its memory limit. exact: the core's orphaned bytes must equal what removed containers left
 * behind; otherwise they may be more.
 */
bool stage_agree(struct stage *stage, uint32_t limited, uint32_t exact);
/* In bytes. 0: the container is removed or has no slice of the card. */
uint64_t stage_charged(struct stage *stage, uint32_t container, uint32_t card);
uint64_t stage_limit(struct stage *stage, uint32_t container, uint32_t card);
uint64_t stage_card_free(struct stage *stage, uint32_t card);
/* Whether the core has no records and the cards no memory in use. */
bool stage_empty(struct stage *stage);
/* The first problem, or an empty text. */
const char *stage_said(const struct stage *stage);
/* Record a problem, unless there is one already. core, cards: the two numbers that differ. */
void stage_problem(
	struct stage *stage, const char *what, uint32_t container, uint32_t card, uint64_t core, uint64_t cards);

#endif
