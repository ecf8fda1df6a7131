/* SPDX-License-Identifier: Apache-2.0 */
/* Notified system calls, from the kernel's notification to its answer. */
#ifndef CGPUD_SUPERVISE_H
#define CGPUD_SUPERVISE_H

#include "engine.h"
#include "task.h"

/* Find out the kernel's struct sizes. 0, -ENOSYS, or -EPROTO when they have outgrown ours. */
int supervise_sizes(struct cgpud *d);
/* Receive one notification and answer it. Arms the listener again as soon as it has it. */
void supervise_next(struct cgpud *d, struct listener *one, struct task_cache *cache);
/* Answer what the engine before this one had received. */
void supervise_left(struct cgpud *d, struct task_cache *cache, struct in_flight *e);

#endif
