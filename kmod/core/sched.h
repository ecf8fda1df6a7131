/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * The seam between the registry and whoever shares out compute time. The registry calls these under the
 * lock, after the record has changed. For now policies and weights are only kept, and limited to what a
 * GPU has to give.
 */
#ifndef CGPU_SCHED_H
#define CGPU_SCHED_H

#include "state.h"

void core_sched_added(struct cgpu_state *state, u32 gpu, u32 number);
void core_sched_removed(struct cgpu_state *state, u32 gpu, u32 number);
/* Weight or priority of one instance. */
void core_sched_changed(struct cgpu_state *state, u32 gpu, u32 number);
/* policy, max_inst or prio_ratio of a GPU. */
void core_sched_policy(struct cgpu_state *state, u32 gpu);
/* Weight that is left to give out: max_inst minus the weights of all instances. */
u32 core_sched_free_weight(struct cgpu_state *state, u32 gpu);
/* A container above weight 1 takes a GPU from policy 1 to policy 2, and from no other policy. */
int core_sched_moves_policy(const struct core_gpu *gpu, u32 weight);

#endif
