// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0
/* What a GPU can give to one more container or reservation. */
#include "registry/registry.h"

int core_want_check_gpu(struct cgpu_state *state, const struct core_want *want)
{
	const struct core_gpu *gpu = core_gpu(state, want->gpu);

	if (gpu == NULL)
		return -ENOENT;
	if (gpu->lost)
		return -EIO;
	/* Slices of a card in MIG mode would be slices of nothing: its memory is in its instances. */
	return gpu->mig ? -EOPNOTSUPP : 0;
}

int core_want_check_weight(struct cgpu_state *state, const struct core_want *want)
{
	if (want->weight > state->gpu[want->gpu].max_inst)
		return -EINVAL;
	return want->weight == 0 && !state->settings.allow_zero_weight ? -EINVAL : 0;
}

int core_want_check_memory(struct cgpu_state *state, const struct core_want *want)
{
	/* Also for no memory at all. */
	if (core_passthroughs(state, want->gpu))
		return -ENOMEM;
	return want->memsize > core_unpromised(state, want->gpu, NULL) ? -ENOMEM : 0;
}
