/* SPDX-License-Identifier: GPL-2.0-only */
/* Calls of containers that are inside of the driver, found by task, with their nested buffers and descriptors. */
#ifndef CGPU_KM_TASK_CALL_H
#define CGPU_KM_TASK_CALL_H

#include "identity/identity.h"
#include "probes/probe.h"

#define KM_UNDO_BYTES 192u

struct km_task_call {
	struct km_task_call_node *node;
	struct cgpu_call call;
	u32 written; /* bit n: the driver has written into segment n */
	u32 copies; /* how often it has come by to fetch or write one */
	u32 room_used;
	bool judged; /* the driver runs it now, on the segments */
	bool asks; /* the driver runs a question of the core now, whose parameters are in undo_top */
	struct file *target; /* file of a descriptor inside of it, counted; NULL: the plan names none */
	u32 handed; /* how often the driver has come by to get it */
	u32 nr, client; /* of the call that the driver runs */
	u32 memory; /* the handle of what it maps */
	struct mapping *spare; /* for a file that the driver readies; NULL: it is used, or the call readies none */
	struct mapping *unmapped; /* the mapping that it unmaps by its address; counted */
	const void *client_file; /* the control file that it was made on, as the driver names it; NULL: on none */
	struct file *readied; /* the driver notes in it what it maps; counted */
	bool unmaps; /* the driver's own unmapping of the window runs */
	bool looks_up; /* the driver's own look-up of a descriptor runs */
	bool ends_va_space; /* UVM takes an address space apart */
	bool allocates; /* the driver's page allocator runs */
	bool for_card; /* its pages are for everybody who has the card */
	struct km_exporting *exporting; /* a dma-buf is being made */
	/* From here on it is not cleared. */
	struct cgpu_call undo; /* frees what the call has allocated */
	u8 undo_top[KM_UNDO_BYTES];
	u8 room[1664]; /* for segments; longer ones are allocated */
};
int km_task_call_init(void);
void km_task_call_exit(void);
/* NULL: no memory. */
struct km_task_call *km_task_call_begin(void);
/* The same where the driver's locks are held, for which other containers wait: the caller's memory cgroup is not charged, as
 * for the driver's own memory there, and delays nothing when it is full. A task has one at most. */
struct km_task_call *km_task_call_begin_locked(void);
/* The same for work that must be done: waits for memory, and never gives NULL. */
struct km_task_call *km_task_call_begin_surely(void);
void km_task_call_end(struct km_task_call *task_call);
/* The current task's call. Any context. */
struct km_task_call *km_task_call_current(void);

/* For probes: whether the current task is of a container, or may be, and this is no call of our own. */
bool km_wants_container(struct pt_regs *regs);
/* The same where the module enforces. */
bool km_wants_enforced(struct pt_regs *regs);

/* --- segments.c: nested buffers --- */

/* Fill those that the core has planned. The caller's memory may block it without a limit. */
int km_segments_fetch(struct km_task_call *task_call);
/* Give the caller what the driver has written. It may block likewise. */
int km_segments_deliver(const struct km_task_call *task_call);
void km_segments_free(struct km_task_call *task_call);

/* --- descriptors.c: descriptors inside of calls --- */

/* Find the file of the descriptor that the core has planned. -ENOMEM. */
int km_target_find(struct km_task_call *task_call);
void km_target_put(struct km_task_call *task_call);

#endif
