// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
/* The text of every node. Each ends with one newline, or is empty: a list of nothing. */
#include "ledger/ledger.h"
#include "registry/registry.h"
#include "sched/sched.h"
#include "tree/tree.h"

/* Functions that write the text of a node return 0. */
static int line_string(struct core_text *out, const char *text)
{
	core_text_string(out, text);
	core_text_string(out, "\n");
	return 0;
}

static int line_number(struct core_text *out, u64 number)
{
	core_text_number(out, number);
	return line_string(out, "");
}

static int engine_text(struct cgpu_core *core, struct core_text *out)
{
	const struct cgpu_settings *settings = &core->state->settings;

	core_text_string(out, settings->engine);
	core_text_string(out, " ");
	core_text_string(out, settings->version);
	if (core_pages_counted(core))
		core_text_string(out, " pages=counted");
	if (core->witness[0]) {
		core_text_string(out, " witness=");
		core_text_string(out, core->witness);
	}
	if (core->abi_source != CGPU_ABI_TABLE)
		core_text_string(out, core->abi_source == CGPU_ABI_ROW ? " driver=row" : " driver=provisional");
	return line_string(out, settings->enforce ? "" : " enforce=off");
}

void cgpu_witness_set(struct cgpu_core *core, const char *word)
{
	size_t i;

	core_lock(core);
	for (i = 0; word[i] && i + 1 < sizeof(core->witness); i++)
		core->witness[i] = word[i];
	core->witness[i] = 0;
	core_unlock(core);
}

static int owner_text(const struct core_container *container, struct core_text *out)
{
	core_text_string(out, container->id);
	core_text_string(out, " ");
	return line_string(out, container->cgroup[0] ? container->cgroup : "-");
}

/* Processes beyond what fits are left out, whole lines only. */
static int meminfo_text(
	struct cgpu_core *core, const struct cgpu_node *node, const struct core_place *place, struct core_text *out)
{
	struct cgpu_state *state = core->state;
	struct cgpu_process_charge charge;
	u32 cursor = 0;

	core_text_string(out, "Free: ");
	line_number(out, core_instance_left(place->instance));
	core_process_walk(state);
	while (core_process_next(state, (u32)node->slot, (u32)node->gpu, &cursor, &charge) == 0) {
		size_t before = out->length;

		core_text_string(out, "PID: ");
		core_text_number(out, (u64)charge.tgid);
		core_text_string(out, " Mem: ");
		line_number(out, charge.bytes);
		if (out->full) {
			core_text_cut(out, before);
			break;
		}
	}
	return 0;
}

static int root_text(struct cgpu_core *core, u32 kind, struct core_text *out)
{
	struct cgpu_state *state = core->state;

	switch (kind) {
	case CGPU_NODE_KIND_DEFAULT_MEMSIZE:
		return line_number(out, state->default_memsize);
	case CGPU_NODE_KIND_ENGINE:
		return engine_text(core, out);
	case CGPU_NODE_KIND_GPUS:
		return core_stat_gpus_text(state, out);
	case CGPU_NODE_KIND_INST_CTL:
		return -EBADF;
	case CGPU_NODE_KIND_MAJOR:
		return line_number(out, state->settings.major);
	case CGPU_NODE_KIND_POLICIES:
		return core_policies_text(out);
	case CGPU_NODE_KIND_STAT:
		return core_stat_root_text(state, out);
	case CGPU_NODE_KIND_UPGRADE:
		return line_number(out, 0);
	case CGPU_NODE_KIND_VERSION:
		return line_string(out, state->settings.version);
	default:
		return -EINVAL;
	}
}

static const char *divided_by(const struct cgpu_state *state, u32 gpu)
{
	static const char *const names[] = {
		[CORE_DIVIDED_BY_DRIVER] = "driver",
		[CORE_DIVIDED_BY_TIMESLICES] = "time_slices",
		[CORE_DIVIDED_BY_CHANNELS] = "gates",
		[CORE_DIVIDED_BY_NOBODY] = "nobody",
	};

	return names[core_sched_divided_by(&state->gpu[gpu].share)];
}

static const char *usage_from(const struct cgpu_state *state, u32 gpu)
{
	const struct core_share *share = &state->gpu[gpu].share;

	if (core_sched_rounds_tell(share))
		return "gates";
	return share->samples ? "samples" : "none";
}

static int sched_text(const struct cgpu_state *state, u32 gpu, struct core_text *out)
{
	const struct cgpu_sched_settings *settings = &state->gpu[gpu].share.sched.settings;
	const char *from = usage_from(state, gpu);

	core_text_string(out, "divided_by=");
	core_text_string(out, divided_by(state, gpu));
	core_text_string(out, " usage_from=");
	core_text_string(out, from);
	core_text_string(out, " resolution=");
	/* Rounds are timed at each change of channels; samples come once in a sampling interval. */
	core_text_number(out, core_same(from, 5, "gates") ? settings->slice : CGPU_SAMPLES_NS);
	core_text_string(out, " slice=");
	return line_number(out, settings->slice);
}

/* A line for each reservation, 25 at most; nothing where there is none. */
static int reserved_text(struct cgpu_state *state, u32 gpu, struct core_text *out)
{
	u32 i;

	for (i = 0; i < CGPU_MAX_INST; i++) {
		const struct core_reservation *reservation = core_reservation(state, gpu, i);
		const struct core_instance *user;

		if (reservation == NULL)
			continue;
		user = core_reservation_user(state, gpu, reservation);
		core_text_string(out, reservation->id);
		core_slice_numbers(&reservation->slice, out);
		core_text_string(out, " ");
		line_string(out, user ? state->container[user->slot].id : "-");
	}
	return 0;
}

static int gpu_text(struct cgpu_core *core, const struct core_gpu *gpu, u32 kind, struct core_text *out)
{
	struct cgpu_state *state = core->state;

	switch (kind) {
	case CGPU_NODE_KIND_NAME:
		return line_string(out, gpu->facts.name);
	case CGPU_NODE_KIND_UUID:
		return line_string(out, gpu->facts.uuid);
	case CGPU_NODE_KIND_DRIFT:
		core_text_signed(out, gpu->drift.bytes);
		return line_string(out, "");
	case CGPU_NODE_KIND_FREE_WEIGHT:
		return line_number(out, core_sched_free_weight(state, gpu->facts.index));
	case CGPU_NODE_KIND_LEFT:
		core_left_text(core, gpu->facts.index, out);
		return 0;
	case CGPU_NODE_KIND_MAJOR:
		return line_number(out, state->settings.major);
	case CGPU_NODE_KIND_MAX_INST:
		return line_number(out, gpu->max_inst);
	case CGPU_NODE_KIND_MEMFREE:
		return line_number(out, gpu->memfree);
	case CGPU_NODE_KIND_MEMTOTAL:
		return line_number(out, gpu->facts.memtotal);
	case CGPU_NODE_KIND_MIG:
		return line_number(out, gpu->mig);
	case CGPU_NODE_KIND_MINOR:
		return line_number(out, gpu->facts.minor);
	case CGPU_NODE_KIND_NATIVES:
		return line_number(out, core_passthroughs(state, gpu->facts.index));
	case CGPU_NODE_KIND_POLICY:
		return line_number(out, gpu->policy);
	case CGPU_NODE_KIND_PRIO_RATIO:
		return line_number(out, gpu->prio_ratio);
	case CGPU_NODE_KIND_RESERVED:
		return reserved_text(state, gpu->facts.index, out);
	case CGPU_NODE_KIND_SCHED:
		return sched_text(state, gpu->facts.index, out);
	case CGPU_NODE_KIND_STAT:
		return core_stat_gpu_text(core, gpu->facts.index, out);
	default:
		return -EINVAL;
	}
}

static int container_text(
	struct cgpu_core *core, const struct cgpu_node *node, const struct core_place *place, struct core_text *out)
{
	u32 attribute = core_kind_attribute(node->kind);

	if (attribute < CGPU_SLICE_ATTRIBUTES)
		return line_number(out, core_slice_get(&place->instance->slice, attribute));
	switch (node->kind) {
	case CGPU_NODE_KIND_ID:
		return line_number(out, place->number);
	case CGPU_NODE_KIND_MEMINFO:
		return meminfo_text(core, node, place, out);
	case CGPU_NODE_KIND_OWNER:
		return owner_text(place->container, out);
	case CGPU_NODE_KIND_STAT:
		return core_stat_instance_text(core, (u32)node->gpu, place->number, out);
	case CGPU_NODE_KIND_USAGE:
		return line_number(out, place->instance->usage);
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
	if (err == 0 && place.gpu)
		core_pages_look(core, place.gpu->facts.index);
	if (err == 0 && place.container)
		err = container_text(core, node, &place, &out);
	else if (err == 0 && place.gpu)
		err = gpu_text(core, place.gpu, node->kind, &out);
	else if (err == 0)
		err = root_text(core, node->kind, &out);
	core_unlock(core);
	if (err == 0 && out.full)
		err = -EINVAL;
	return err ? err : (long)out.length;
}
