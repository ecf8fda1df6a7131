// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0
/* The text of every node. Each ends with one newline. */
#include "ledger/ledger.h"
#include "ledger/process.h"
#include "registry/registry.h"
#include "sched/sched.h"
#include "tree/tree.h"

static void line_number(struct core_text *out, u64 number)
{
	core_text_number(out, number);
	core_text_string(out, "\n");
}

static void line_string(struct core_text *out, const char *text)
{
	core_text_string(out, text);
	core_text_string(out, "\n");
}

static void engine_text(const struct cgpu_settings *settings, struct core_text *out)
{
	core_text_string(out, settings->engine);
	core_text_string(out, " ");
	core_text_string(out, settings->version);
	core_text_string(out, " ");
	core_text_string(out, settings->memory_backend);
	line_string(out, settings->enforce ? "" : " enforce=off");
}

static void owner_text(const struct core_container *container, struct core_text *out)
{
	core_text_string(out, container->id);
	core_text_string(out, " ");
	line_string(out, container->cgroup[0] ? container->cgroup : "-");
}

/* Processes beyond what fits are left out, whole lines only. */
static void meminfo_text(
	struct cgpu_core *core, const struct cgpu_node *node, const struct core_place *place, struct core_text *out)
{
	struct cgpu_state *state = core->state;
	struct cgpu_process_charge charge;
	u32 cursor = 0;

	core_text_string(out, "Free: ");
	line_number(out, core_instance_left(core, place->instance, (u32)node->gpu));
	core_process_walk(state);
	while (core_process_next(state, (u32)node->slot, (u32)node->gpu, &cursor, &charge) == 0) {
		size_t before = out->length;

		core_text_string(out, "PID: ");
		core_text_number(out, (u64)charge.tgid);
		core_text_string(out, " Mem: ");
		line_number(out, charge.bytes);
		if (out->full) {
			core_text_cut(out, before);
			return;
		}
	}
}

static int root_text(struct cgpu_state *state, u32 kind, struct core_text *out)
{
	switch (kind) {
	case CGPU_NODE_KIND_DEFAULT_MEMSIZE:
		line_number(out, state->default_memsize);
		return 0;
	case CGPU_NODE_KIND_ENGINE:
		engine_text(&state->settings, out);
		return 0;
	case CGPU_NODE_KIND_INST_CTL:
		return -EBADF;
	case CGPU_NODE_KIND_MAJOR:
		line_number(out, state->settings.major);
		return 0;
	case CGPU_NODE_KIND_UPGRADE:
		line_number(out, 0);
		return 0;
	case CGPU_NODE_KIND_VERSION:
		line_string(out, state->settings.version);
		return 0;
	default:
		return -EINVAL;
	}
}

static void sched_text(const struct cgpu_state *state, u32 gpu, struct core_text *out)
{
	const struct cgpu_sched_settings *settings = &state->gpu[gpu].share.sched.settings;
	const char *from = core_sched_usage_from(state, gpu);

	core_text_string(out, "divided_by=");
	core_text_string(out, core_sched_divided_by(state, gpu));
	core_text_string(out, " usage_from=");
	core_text_string(out, from);
	core_text_string(out, " resolution=");
	/* Rounds are timed at each change of channels; samples come once in a sampling interval. */
	core_text_number(out, core_same(from, 5, "gates") ? settings->slice : CGPU_SAMPLES_NS);
	core_text_string(out, " slice=");
	line_number(out, settings->slice);
}

static int gpu_text(struct cgpu_state *state, const struct core_gpu *gpu, u32 kind, struct core_text *out)
{
	switch (kind) {
	case CGPU_NODE_KIND_NAME:
		line_string(out, gpu->facts.name);
		return 0;
	case CGPU_NODE_KIND_UUID:
		line_string(out, gpu->facts.uuid);
		return 0;
	case CGPU_NODE_KIND_DRIFT:
		core_text_signed(out, gpu->drift.bytes);
		core_text_string(out, "\n");
		return 0;
	case CGPU_NODE_KIND_FREE_WEIGHT:
		line_number(out, core_sched_free_weight(state, gpu->facts.index));
		return 0;
	case CGPU_NODE_KIND_MAJOR:
		line_number(out, state->settings.major);
		return 0;
	case CGPU_NODE_KIND_MAX_INST:
		line_number(out, gpu->max_inst);
		return 0;
	case CGPU_NODE_KIND_MEMFREE:
		line_number(out, gpu->memfree);
		return 0;
	case CGPU_NODE_KIND_MEMTOTAL:
		line_number(out, gpu->facts.memtotal);
		return 0;
	case CGPU_NODE_KIND_MIG:
		line_number(out, gpu->mig);
		return 0;
	case CGPU_NODE_KIND_MINOR:
		line_number(out, gpu->facts.minor);
		return 0;
	case CGPU_NODE_KIND_NATIVES:
		line_number(out, core_passthroughs(state, gpu->facts.index));
		return 0;
	case CGPU_NODE_KIND_POLICY:
		line_number(out, gpu->policy);
		return 0;
	case CGPU_NODE_KIND_PRIO_RATIO:
		line_number(out, gpu->prio_ratio);
		return 0;
	case CGPU_NODE_KIND_SCHED:
		sched_text(state, gpu->facts.index, out);
		return 0;
	default:
		return -EINVAL;
	}
}

static int container_text(
	struct cgpu_core *core, const struct cgpu_node *node, const struct core_place *place, struct core_text *out)
{
	switch (node->kind) {
	case CGPU_NODE_KIND_HIGHPRIO:
		line_number(out, place->instance->highprio);
		return 0;
	case CGPU_NODE_KIND_ID:
		line_number(out, place->number);
		return 0;
	case CGPU_NODE_KIND_MEMINFO:
		meminfo_text(core, node, place, out);
		return 0;
	case CGPU_NODE_KIND_MEMSIZE:
		line_number(out, place->instance->memsize);
		return 0;
	case CGPU_NODE_KIND_OWNER:
		owner_text(place->container, out);
		return 0;
	case CGPU_NODE_KIND_USAGE:
		line_number(out, place->instance->usage);
		return 0;
	case CGPU_NODE_KIND_WEIGHT:
		line_number(out, place->instance->weight);
		return 0;
	default:
		return -EINVAL;
	}
}

long cgpu_tree_read(struct cgpu_core *core, const struct cgpu_node *node, char *text, size_t bytes)
{
	struct core_place place;
	struct core_text out;
	int err;

	if (node->directory)
		return -EISDIR;
	core_text_start(&out, text, bytes);
	core_lock(core);
	err = core_tree_place(core->state, node, &place);
	if (err == 0 && place.container)
		err = container_text(core, node, &place, &out);
	else if (err == 0 && place.gpu)
		err = gpu_text(core->state, place.gpu, node->kind, &out);
	else if (err == 0)
		err = root_text(core->state, node->kind, &out);
	core_unlock(core);
	if (err == 0 && out.full)
		err = -EINVAL;
	return err ? err : (long)out.length;
}
