/* SPDX-License-Identifier: Apache-2.0 */
/* What a worker keeps of the last thread that it answered. */
#ifndef CGPUD_TASK_CACHE_H
#define CGPUD_TASK_CACHE_H

#include "cgpu_types.h"

#define TASK_CACHE 64

/* Threads that one worker has lately served. A pidfd names its thread until that is reaped, and the
 * number is given to no other task before: no entry can mean the wrong one. Only for one task at a time: to find a
 * place for a second may close what the first has. */
struct task_cache {
	struct {
		s32 tid; /* 0: free */
		s32 tgid;
		int pidfd;
	} at[TASK_CACHE];
};

#endif
