// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
/* Room that a GPU has for one more container or reservation. */
#include "ledger/ledger.h"
#include "registry/registry.h"
#include "sched/sched.h"

#define REQUEST_LESS "request less, or stop a container (cgpu-smi lists them)"

int core_want_check_gpu(struct cgpu_state *state, const struct core_want *want, struct cgpu_refusal *why)
{
	const struct core_gpu *gpu = core_gpu(state, want->gpu);

	if (gpu == NULL)
		return core_refuse_unknown_gpu(state, why, want->gpu);
	if (gpu->lost)
		return core_refuse_line(why, -EIO,
			"GPU %u is lost: the driver no longer reaches it (the lines of NVRM in dmesg say why); name "
			"another, or restart the machine",
			want->gpu);
	/* Slices of a card in MIG mode would be slices of nothing: its memory is in its instances. */
	if (gpu->mig)
		return core_refuse_line(why, -EOPNOTSUPP,
			"GPU %u is in MIG mode and cannot be sliced; name another, or switch MIG off (nvidia-smi -mig 0)",
			want->gpu);
	return 0;
}

int core_want_check_weight(struct cgpu_state *state, const struct core_want *want, struct cgpu_refusal *why)
{
	u32 lowest = state->settings.allow_zero_weight ? 0 : 1;
	u32 highest = state->gpu[want->gpu].max_inst;

	if (want->slice.weight >= lowest && want->slice.weight <= highest)
		return 0;
	return core_refuse_line(why, -EINVAL, "weight %u: expected a whole number from %u to %u (max_inst of GPU %u)",
		(u32)want->slice.weight, lowest, highest, want->gpu);
}

int core_want_check_place(struct cgpu_state *state, const struct core_want *want, struct cgpu_refusal *why)
{
	u32 most = state->gpu[want->gpu].max_inst;

	if (core_totals(state, want->gpu).places < most)
		return 0;
	return core_refuse_line(why, -ENOSPC,
		"GPU %u has no place left: containers and reservations have all %u (max_inst); stop one, or raise "
		"max_inst",
		want->gpu, most);
}

int core_refuse_ids(const struct core_gpu *gpu, struct cgpu_refusal *why)
{
	return core_refuse_line(why, -ENOMEM,
		"GPU %u: removed containers still have %u of its numbers for channels, and too few are left; " CORE_END_HOLDERS
		", or request less",
		gpu->facts.index, core_tsg_ids_orphaned(gpu));
}

int core_want_check_memory(struct cgpu_state *state, const struct core_want *want, struct cgpu_refusal *why)
{
	struct core_totals totals = core_totals(state, want->gpu);
	u64 left = core_unpromised(state, want->gpu, NULL);
	u32 whole = core_passthroughs(state, want->gpu);

	/* A request for no memory at all is refused, too. */
	if (whole)
		return core_refuse_line(why, -ENOMEM,
			"GPU %u cannot be sliced: %u container%s it whole; stop it, or name another GPU", want->gpu,
			whole, whole == 1 ? " has" : "s have");
	if (want->slice.memsize > left)
		return core_refuse_line(why, -ENOMEM,
			"GPU %u has %llu MiB of %llu MiB left, and %llu MiB were requested; " REQUEST_LESS, want->gpu,
			left / CORE_MIB, state->gpu[want->gpu].facts.memtotal / CORE_MIB,
			want->slice.memsize / CORE_MIB);
	/* A slice comes with numbers for channels. */
	if (!core_tsg_ids_suffice(&state->gpu[want->gpu], totals.places + 1, totals.promised + want->slice.memsize))
		return core_refuse_ids(&state->gpu[want->gpu], why);
	return 0;
}

int core_want_check_free_weight(struct cgpu_state *state, const struct core_want *want, struct cgpu_refusal *why)
{
	u32 left = core_sched_free_weight(state, want->gpu);

	if (want->slice.weight <= left)
		return 0;
	return core_refuse_line(why, -EDQUOT,
		"GPU %u has weight %u of %u (max_inst) left, and %u was requested; " REQUEST_LESS, want->gpu, left,
		state->gpu[want->gpu].max_inst, (u32)want->slice.weight);
}
