// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
/*
 * The text of the entries `stat`, `gpus` and `policies`: words `key=value`, one line for what an entry is of. A GPU's has a line for
 * itself and one for each container, so that a monitor of a node reads one file for each GPU.
 */
#include "ledger/ledger.h"
#include "registry/registry.h"
#include "sched/sched.h"
#include "tree/tree.h"

struct word {
	const char *key;
	u64 value;
};

static void add_words(struct core_text *out, const struct word *words, u32 count)
{
	u32 i;

	for (i = 0; i < count; i++) {
		core_text_string(out, " ");
		core_text_string(out, words[i].key);
		core_text_string(out, "=");
		core_text_number(out, words[i].value);
	}
}

#define ADD_WORDS(out, words) add_words(out, words, sizeof(words) / sizeof((words)[0]))

static const char *const short_keys[CORE_SHORTS] = {
	[CORE_SHORT_LIMIT] = "refused_limit",
	[CORE_SHORT_CARD] = "refused_card",
	[CORE_SHORT_UNACCOUNTED] = "refused_unaccounted",
};

static const char *const refusal_keys[CORE_REFUSALS] = {
	[CORE_REFUSAL_CLASS] = "refused_class",
	[CORE_REFUSAL_CONTROL] = "refused_control",
	[CORE_REFUSAL_CLIENT] = "refused_client",
	[CORE_REFUSAL_RECORDS] = "refused_records",
	[CORE_REFUSAL_CALL] = "refused_call",
};

static void add_counts(struct core_text *out, const char *const *keys, const u64 *counts, u32 count)
{
	u32 i;

	for (i = 0; i < count; i++) {
		struct word word = { keys[i], counts[i] };

		add_words(out, &word, 1);
	}
}

void core_stat_words(struct cgpu_core *core, u32 gpu, u32 number, struct core_text *out)
{
	struct cgpu_state *state = core->state;
	const struct core_instance *instance = &state->gpu[gpu].instance[number];
	const struct core_instance_stat *stat = &state->stat.gpu[gpu].instance[number];
	u64 used = core_instance_has(instance);
	struct word words[] = {
		{ "used", used },
		{ "charged", instance->used },
		{ "peak", stat->peak > used ? stat->peak : used },
		{ "usage", stat->usage },
		{ "throttled", stat->throttled },
	};

	core_slice_words(&instance->slice, out);
	ADD_WORDS(out, words);
	add_counts(out, short_keys, stat->refused, CORE_SHORTS);
	add_counts(out, refusal_keys, state->stat.container[instance->slot].refused, CORE_REFUSALS);
}

static void instance_line(struct cgpu_core *core, u32 gpu, u32 number, struct core_text *out)
{
	struct cgpu_state *state = core->state;

	core_text_string(out, "id=");
	core_text_string(out, state->container[state->gpu[gpu].instance[number].slot].id);
	core_stat_words(core, gpu, number, out);
	core_text_string(out, "\n");
}

/* Bytes that are charged on a GPU, to whomever. */
static u64 used_on(const struct cgpu_core *core, u32 gpu)
{
	struct core_gpu *found = &core->state->gpu[gpu];
	u64 bytes = core_gpu_left(found) + found->passthrough;
	u32 i;

	for (i = 0; i < CGPU_MAX_INST; i++) {
		const struct core_instance *instance = core_instance(core->state, gpu, i);

		bytes += instance ? core_instance_has(instance) : 0;
	}
	return bytes;
}

static void gpu_line(struct cgpu_core *core, u32 gpu, struct core_text *out)
{
	struct cgpu_state *state = core->state;
	const struct core_gpu *found = &state->gpu[gpu];
	struct core_totals totals = core_totals(state, gpu);
	struct word words[] = {
		{ "memtotal", found->facts.memtotal },
		{ "memfree", found->memfree },
		{ "promised", totals.promised },
		{ "used", used_on(core, gpu) },
		{ "orphaned", core_gpu_left(found) },
		{ "orphaned_ids", core_tsg_ids_orphaned(found) },
		{ "policy", found->policy },
		{ "prio_ratio", found->prio_ratio },
		{ "max_inst", found->max_inst },
		{ "places", totals.places },
		{ "weights", totals.weights },
		{ "mig", found->mig },
		{ "natives", core_passthroughs(state, gpu) },
		{ "drift_lasting", found->drift.lasting },
		{ "undivided", core_sched_divided_by(&found->share) == CORE_DIVIDED_BY_NOBODY },
		{ "usage", state->stat.gpu[gpu].usage },
		{ "lost", found->lost },
	};

	core_text_string(out, "uuid=");
	core_text_string(out, found->facts.uuid);
	core_text_string(out, " drift=");
	core_text_signed(out, found->drift.bytes);
	ADD_WORDS(out, words);
	add_counts(out, short_keys, state->stat.gpu[gpu].refused, CORE_SHORTS);
	core_text_string(out, "\n");
}

int core_stat_root_text(struct cgpu_state *state, struct core_text *out)
{
	const struct core_engine_stat *stat = &state->stat.engine;
	struct word words[] = {
		{ "executed", stat->executed },
		{ "continued", stat->continued },
		{ "answered", stat->answered },
		{ "refused", stat->refused },
		{ "registered", stat->registered },
		{ "restarts", stat->restarts },
		{ "upgrades", stat->upgrades },
		{ "reloads", stat->reloads },
		{ "containers", state->containers },
		{ "containers_max", CGPU_MAX_CONTAINERS },
		{ "clients", state->clients },
		{ "clients_max", CGPU_MAX_CLIENTS },
		{ "objects", state->objects },
		{ "objects_max", CGPU_MAX_OBJECTS },
		{ "orphaned_clients", state->orphaned_clients },
		{ "orphaned_clients_max", CORE_ORPHANED_CLIENTS },
		{ "orphaned_objects", state->orphaned_objects },
		{ "orphaned_objects_max", CORE_ORPHANED_OBJECTS },
	};

	core_text_string(out, "notified=");
	core_text_number(out, __atomic_load_n(&stat->notified, __ATOMIC_RELAXED));
	ADD_WORDS(out, words);
	add_counts(out, refusal_keys, stat->refusals, CORE_REFUSALS);
	core_text_string(out, "\n");
	return 0;
}

/* Write what policies are, for tools that work out shares of GPU time. */
int core_policies_text(struct core_text *out)
{
	u32 i;

	for (i = 0; i < CGPU_SCHED_POLICIES; i++) {
		const struct cgpu_policy *policy = &cgpu_policies[i];

		core_text_format(out, "policy=%u by_number=%u keeps_idle=%u keeps_free=%u undivided=%u name=%s\n", i,
			policy->by_number, policy->keeps_idle, policy->keeps_free, policy->undivided,
			cgpu_policy_names[i]);
	}
	return 0;
}

/* Write the facts of all GPUs that a start of a container needs, so that one file is read for it. */
int core_stat_gpus_text(struct cgpu_state *state, struct core_text *out)
{
	u32 i;

	for (i = 0; i < CGPU_MAX_GPUS; i++) {
		const struct core_gpu *gpu = core_gpu(state, i);
		struct word words[2];

		if (gpu == NULL)
			continue;
		words[0] = (struct word){ "memtotal", gpu->facts.memtotal };
		words[1] = (struct word){ "max_inst", gpu->max_inst };
		core_text_string(out, "index=");
		core_text_number(out, i);
		core_text_string(out, " uuid=");
		core_text_string(out, gpu->facts.uuid);
		ADD_WORDS(out, words);
		core_text_string(out, "\n");
	}
	return 0;
}

int core_stat_gpu_text(struct cgpu_core *core, u32 gpu, struct core_text *out)
{
	u32 i;

	gpu_line(core, gpu, out);
	for (i = 0; i < CGPU_MAX_INST; i++) {
		if (core_instance(core->state, gpu, i))
			instance_line(core, gpu, i, out);
	}
	return 0;
}

int core_stat_instance_text(struct cgpu_core *core, u32 gpu, u32 number, struct core_text *out)
{
	instance_line(core, gpu, number, out);
	return 0;
}
