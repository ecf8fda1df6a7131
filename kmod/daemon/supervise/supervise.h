/* SPDX-License-Identifier: Apache-2.0 */
/* Notified system calls, from the kernel's notification to its answer. */
#ifndef CGPUD_SUPERVISE_H
#define CGPUD_SUPERVISE_H

#include "engine.h"

/* Find out the kernel's struct sizes. 0, -ENOSYS, or -EPROTO when they have outgrown ours. */
int supervise_sizes(struct cgpud *d);
/* What workers do for it: engine.c hands it to them. */
extern const struct worker_work supervise_work;

#endif
