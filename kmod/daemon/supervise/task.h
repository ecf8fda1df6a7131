/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The thread behind a notification, and the file that its call names. The notification tells the thread by its number, which
 * another task may have by now. So everything is opened by the number first, then the notification is found valid, and from
 * then on only what was opened is used.
 */
#ifndef CGPUD_TASK_H
#define CGPUD_TASK_H

#include "engine.h"

struct task {
	struct task_cache *cache; /* NULL: its pidfd is its own */
	s32 tid;
	s32 tgid; /* 0 until task_open() */
	int pidfd; /* of the thread, in the cache; or our own, of its process, on older kernels; -1 */
	int memory; /* of its address space; -1 */
	int number; /* of the descriptor that the call is made on */
	int file; /* our copy of that; -1 until task_copy() */
	int target; /* and of one that the call names in its parameters; -1 */
	struct identity identity; /* what the descriptor was seen to lead to */
	u32 driver_node; /* 1: kind and gpu are set */
	enum cgpu_device kind;
	u32 gpu;
};

void task_init(struct task *task, struct task_cache *cache, s32 tid);
void task_cache_clear(struct task_cache *cache);
/* Tell what a descriptor is, without a copy of it, and without asking the file's server. 0, or the negative errno with
 * which the call must fail. */
int task_inspect(struct cgpud *d, struct task *task, int fd);
/* The same of any descriptor of the task. 0 or a negative errno. */
int task_inspect_number(const struct task *task, int fd, struct identity *identity);
/* Open process and memory, for a call on one of the driver's nodes. 0, or the negative errno with which it must fail;
 * -ENOENT: the thread has ended. */
int task_open(struct cgpud *d, struct task *task);
int task_open_memory(struct task *task);
/* Have a copy of the descriptor that was looked at. As above; -EBADF: it is no longer that. Waits as long as the container
 * likes. */
int task_copy(struct cgpud *d, struct task *task);
/* All of these but the memory, for a call that was notified earlier. 0: there is a copy, of one of the driver's nodes. */
int task_take(struct cgpud *d, struct task *task, int fd);
void task_drop(struct task *task);

#endif
