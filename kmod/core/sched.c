// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0
#include "registry.h"
#include "sched.h"

#define POLICY_PREEMPTIVE 1u

void core_sched_added(struct cgpu_state *state, u32 gpu, u32 number)
{
	state->gpu[gpu].instance[number].usage = 0;
}

void core_sched_removed(struct cgpu_state *state, u32 gpu, u32 number)
{
	(void)state;
	(void)gpu;
	(void)number;
}

void core_sched_changed(struct cgpu_state *state, u32 gpu, u32 number)
{
	(void)state;
	(void)gpu;
	(void)number;
}

void core_sched_policy(struct cgpu_state *state, u32 gpu)
{
	(void)state;
	(void)gpu;
}

u32 core_sched_free_weight(struct cgpu_state *state, u32 gpu)
{
	u32 given = core_weights(state, gpu);
	u32 all = state->gpu[gpu].max_inst;

	return given < all ? all - given : 0;
}

int core_sched_moves_policy(const struct core_gpu *gpu, u32 weight)
{
	return weight > 1 && gpu->policy == POLICY_PREEMPTIVE;
}
