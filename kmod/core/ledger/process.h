/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
#ifndef CGPU_PROCESS_H
#define CGPU_PROCESS_H

#include "state/state.h"

/* Head of the chain of clients (by tgid_next) that has those of a process among others. */
u32 core_client_of_process(const struct cgpu_state *state, s32 tgid);
/* Begin to walk: under one lock with the calls of core_process_next() that follow. */
void core_process_walk(struct cgpu_state *state);
/* The next process of a container with memory on a GPU; *cursor starts at 0. -ENOENT at the end. */
int core_process_next(struct cgpu_state *state, u32 slot, u32 gpu, u32 *cursor, struct cgpu_process_charge *charge);

#endif
