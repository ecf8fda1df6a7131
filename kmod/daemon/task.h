/* SPDX-License-Identifier: Apache-2.0 */
/* The thread behind a notification, and the file that its call names. */
#ifndef CGPUD_TASK_H
#define CGPUD_TASK_H

#include "engine.h"

struct task {
	struct task_cache *cache; /* NULL: its pidfd is its own */
	s32 tid;
	s32 tgid; /* 0 until it is asked for */
	int pidfd; /* of the thread, in the cache; or our own, of its process, on older kernels; -1 */
	int file; /* our copy of the descriptor; -1 */
	int target; /* and of one that the call names in its parameters; -1 */
	u32 driver_node; /* 1: kind and gpu are set */
	enum cgpu_device kind;
	u32 gpu;
};

void task_init(struct task *task, struct task_cache *cache, s32 tid);
/* Process id of the task's thread. -ESRCH. */
s32 task_tgid(struct task *task);
void task_cache_clear(struct task_cache *cache);
/* Copy the descriptor and tell what it is. 0, or the negative errno with which the call must fail.
 * -ENOENT: the thread waits no longer. listener_fd -1: it is not asked whether it does. */
int task_take(struct cgpud *d, struct task *task, int fd, int listener_fd, u64 id);
void task_drop(struct task *task);
/* 1 while the thread of a notification still waits for its answer. */
int notif_valid(int listener_fd, u64 id);

#endif
