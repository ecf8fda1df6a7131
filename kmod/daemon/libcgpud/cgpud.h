/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libcgpud.so's interface to the process that loads it. Worker threads answer supervised driver calls
 * and never call back: messages come as lines through a pipe (cgpud_options.event_fd).
 *
 * Lines: "log <level> <text>" (level as in syslog(3)), "event=<kind> <key>=<value>..." (for the event log, registry/event.c),
 * "gone <serial>" (a listener has no task left).
 */
#ifndef CGPUD_H
#define CGPUD_H

#include "cgpu_core.h"

struct cgpud;

struct cgpud_options {
	const char *driver_root; /* directory with nvidiactl and nvidia<minor> */
	const char *driver_rows; /* versions that are not in the table: cgpu_abi_choose() */
	s32 state_fd; /* memory file of the engine before this one, or -1; the engine's from here on */
	s32 files_fd; /* of the engine before this one, see cgpud_files_fd(), or -1; the engine's from here on */
	s32 event_fd; /* non-blocking write end of a pipe, or -1; stays the caller's */
	u32 workers; /* 0: by the number of processors */
	u32 allow_unknown_driver;
	u32 managed_memory; /* 1: charged; 0: refused */
	u32 follows; /* 1: the engine before this one has ended a moment ago, for this one, and containers wait */
	struct cgpu_settings settings;
};

struct cgpud_status {
	char driver[64]; /* version of the driver that is loaded */
	char layout[16]; /* "exact", "row" or "nearest" */
	u32 gpus, workers, listeners, kept_answers, recovered;
	u32 driver_error; /* errno of the last question about the cards' memory, or 0 */
	u32 spare;
	u64 supervised, executed, continued, refused, interrupted, faults, lost_lines;
	/* GPU time: scheduling rounds; channels enabled and disabled; attempts at that which found no driver; timeslices of
	 * channel groups that were set; clients whose timeslices are set at their next call. */
	u64 rounds, channels, channels_failed, timeslices, timeslices_left;
};

/* A device node of the driver, as containers are given it. */
struct cgpud_node {
	char path[256];
	u32 character_device; /* 1 or 0 */
	u32 major, minor;
};

/* Map or make the state, speak to the driver, find its GPUs. Returns 0, or a negative errno with one
 * line in error. -ESTALE: the state cannot be used; -ENODEV: no driver; -EPROTO: unknown driver version. */
int cgpud_open(struct cgpud **out, const struct cgpud_options *options, char *error, size_t bytes);
struct cgpu_core *cgpud_core(struct cgpud *d);
/* As cgpu_tree_read(), with this engine's own figures in the root's entry `stat`. */
long cgpud_tree_read(struct cgpud *d, const struct cgpu_node *node, char *text, size_t bytes);
/* The memory file that the next engine takes up. Stays the engine's. */
int cgpud_state_fd(const struct cgpud *d);
/* Descriptor that watches open files that memory was exported on: the next engine takes it up. Stays the engine's.
 * Negative: this kernel cannot do that, and exports are refused. */
int cgpud_files_fd(const struct cgpud *d);
/* Take a seccomp listener over; owns fd from here on, also on failure. kept: 1: an engine before this one has served it.
 * -EDQUOT: its container has as many as it may; -ENOSPC, -EEXIST. */
int cgpud_attach(struct cgpud *d, int fd, u32 slot, u64 generation, u64 serial, u32 kept);
/* End the threads as calls end, for so many milliseconds. Returns how many threads have not ended: go on with it, or
 * resume. With 0 nothing changes the state any more: another engine can take it up, if this one does not resume. */
u32 cgpud_pause(struct cgpud *d, u32 ms);
/* Everything goes on as before the pause. 0 or a negative errno. */
int cgpud_resume(struct cgpud *d);
/* A listener's descriptor, which stays the engine's; -ENOENT. While it pauses. */
int cgpud_listener_fd(struct cgpud *d, u64 serial);
/* 0 when this engine can take up a memory file's layout, else -ESTALE. Another engine may use the file. */
int cgpud_state_check(s32 state_fd);
/* Answer the calls that were in flight when the engine before died, then serve. */
int cgpud_start(struct cgpud *d, char *error, size_t bytes);
/* New settings while running. */
int cgpud_apply(struct cgpud *d, const struct cgpu_settings *settings);
/* Whether containers may have managed memory from now on. */
void cgpud_allow_managed(struct cgpud *d, u32 allowed);
/* A registration may have changed: check init processes now. */
void cgpud_kick(struct cgpud *d);
void cgpud_status(struct cgpud *d, struct cgpud_status *status);
/* The control node is index 0, the GPUs' nodes follow in the order of the tree, then all other nodes that the
 * driver root has for containers. -ENOENT past the last one. */
int cgpud_node(struct cgpud *d, u32 index, struct cgpud_node *node);
/* 1 while a listener is served: "gone" lines can be lost when the pipe is full. */
int cgpud_serves(struct cgpud *d, u64 serial);
/*
 * Inspect a process of a container's cgroup, for a second at most: 1 when its filters hold; 0 when they do not, and then it is
 * killed; or a negative errno when nobody can tell: -EACCES where this process has a filter itself, -ESRCH where it is not in
 * the group, -ETIMEDOUT where it does not stand still, -EAGAIN. The process stops for a moment; its waiting calls
 * restart.
 */
int cgpud_filtered(struct cgpud *d, s32 pid, u32 slot, u64 generation);
/* Have this thread take a page of a GPU, and give it back: the witness learns so which allocator is the card's. */
int cgpud_take_page(struct cgpud *d, u32 gpu);
/* Kill a process of a container's cgroup. -ESRCH: none has this number. */
int cgpud_end_process(s32 pid, const char *cgroup);
/* Stop threads; calls in flight are finished. The state stays in its memory file. -EBUSY: containers keep
 * threads from ending, and the process has to end as it is; nothing is given back then. */
int cgpud_close(struct cgpud *d);

#endif
