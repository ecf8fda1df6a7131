/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The engine's core and simulated cards in one process, for several containers: steps as a transport in the kernel, or
 * one outside of it, makes them, and what either side says of them afterwards. stage.py has the same from Python.
 */
#ifndef TEST_LAYOUTS_STAGE_H
#define TEST_LAYOUTS_STAGE_H

#include "holdings.h"
#include "transport.h"

#define STAGE_CONTAINERS 64u /* ever made */
#define STAGE_OUTSIDE 64u /* in place of a container: no call of it is seen by the engine */
#define STAGE_HOLDS 256u
#define STAGE_PIECES 16u
#define STAGE_PIECE_BYTES (2ull << 20) /* UVM_CHUNK_SIZE_MAX, kernel-open/nvidia-uvm/uvm_pmm_gpu.h */

enum stage_fault {
	STAGE_FINE,
	STAGE_STATUS, /* the driver does nothing, and says a status */
	STAGE_INTERRUPTED, /* the driver does nothing: EINTR */
	STAGE_UNHEARD, /* it did it, but the caller cannot be told: EFAULT */
};

struct stage_call {
	struct replay_call call;
	uint32_t container;
	uint32_t fault;
	uint32_t status; /* for STAGE_STATUS */
	void (*between)(void); /* what happens before the core learns what came out; may be NULL */
};

/* What UVM keeps: a duplicate, or memory of its own on each card. */
struct stage_hold {
	bool live;
	uint32_t container, process;
	uint32_t count; /* holds of the core, and cards */
	struct cgpu_reference hold[HOLDINGS_CARDS];
	uint32_t card[HOLDINGS_CARDS];
	uint32_t pieces; /* 0: a duplicate */
	uint32_t handle[HOLDINGS_CARDS][STAGE_PIECES];
};

struct stage {
	struct transport transport;
	struct holdings *holdings;
	struct cgpu_container_info container[STAGE_CONTAINERS];
	bool live[STAGE_CONTAINERS];
	uint32_t containers;
	struct stage_hold hold[STAGE_HOLDS];
	char problem[160]; /* the first thing that went wrong in a step */
};

/* state: cgpu_state_bytes() of memory. NULL: the driver or the cards are not known. */
struct stage *stage_new(void *state, const char *driver, const char *cards, uint32_t enforce, uint32_t in_kernel);
void stage_free(struct stage *stage);
/* One line for inst_ctl that makes a container. Its number, or negative errno. */
int stage_create(struct stage *stage, const char *id, const char *line);
void stage_destroy(struct stage *stage, uint32_t container);
/* The core's records are taken up again, as by the next process or core. 0 or negative errno. */
int stage_recover(struct stage *stage);
/* 0: refused. */
uint64_t stage_open(struct stage *stage, uint32_t container, uint32_t node, uint32_t card);
void stage_close(struct stage *stage, uint64_t file);
void stage_call(struct stage *stage, struct stage_call *step);

/* uvm.c. A number, or negative errno. fail: the driver refuses. */
int stage_hold(struct stage *stage, uint32_t container, uint32_t process, uint32_t client, uint32_t handle,
	uint32_t fail, void (*between)(void));
int stage_managed(struct stage *stage, uint32_t container, uint32_t process, uint32_t pieces);
void stage_shrink(struct stage *stage, uint32_t hold);
void stage_let_go(struct stage *stage, uint32_t hold);
/* All managed memory of a process, for an engine outside of the kernel. 0 or negative errno. */
int stage_managed_set(struct stage *stage, uint32_t container, uint32_t process, uint32_t pieces);
/* The process has ended, whatever became of its container. */
void stage_managed_ended(struct stage *stage, uint32_t container, uint32_t process);

/* Whether both sides agree; problem says what does not. exact: also on what removed containers left behind. */
bool stage_agree(struct stage *stage, uint32_t limited, uint32_t exact);
uint64_t stage_charged(struct stage *stage, uint32_t container, uint32_t card);
uint64_t stage_limit(struct stage *stage, uint32_t container, uint32_t card);
uint64_t stage_card_free(struct stage *stage, uint32_t card);
/* Whether nothing is left anywhere. */
bool stage_empty(struct stage *stage);
const char *stage_said(const struct stage *stage);
void stage_problem(
	struct stage *stage, const char *what, uint32_t container, uint32_t card, uint64_t core, uint64_t cards);

#endif
