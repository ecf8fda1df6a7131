// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
/* Writes to nodes: what they change. */
#include "ledger/ledger.h"
#include "registry/registry.h"
#include "sched/sched.h"
#include "tree/tree.h"

static int max_inst_write(struct cgpu_state *state, u32 gpu, u32 value)
{
	struct core_totals totals = core_totals(state, gpu);
	struct core_gpu *found = &state->gpu[gpu];
	u32 before = found->max_inst;

	if (totals.places > value || totals.weights > value)
		return -EBUSY;
	found->max_inst = value;
	/* With fewer places each has more numbers for channels. */
	if (value >= before || core_tsg_ids_suffice(found, totals.places, totals.promised))
		return 0;
	found->max_inst = before;
	return -ENOMEM;
}

static int gpu_write(struct cgpu_state *state, struct core_gpu *gpu, u32 kind, u32 value)
{
	u32 index = gpu->facts.index;
	int err = 0;

	if (kind == CGPU_NODE_KIND_POLICY)
		gpu->policy = value;
	else if (kind == CGPU_NODE_KIND_PRIO_RATIO)
		gpu->prio_ratio = value;
	else if (kind == CGPU_NODE_KIND_MAX_INST)
		err = max_inst_write(state, index, value);
	else
		err = -EINVAL;
	if (err == 0)
		core_sched_policy(state, index);
	return err;
}

static int memsize_write(struct cgpu_core *core, const struct core_place *place, u64 value)
{
	struct cgpu_state *state = core->state;
	struct core_instance *instance = place->instance;
	u32 gpu = place->gpu->facts.index;
	u64 others = core_promised_to_others(state, gpu, instance);

	if (value < core_instance_has(instance))
		return -EBUSY;
	if (value > instance->slice.memsize && value > core_unpromised(state, gpu, instance))
		return -ENOMEM;
	if (value > instance->slice.memsize &&
		!core_tsg_ids_suffice(place->gpu, core_totals(state, gpu).places, others + value))
		return -ENOMEM;
	instance->slice.memsize = value;
	state->limits_due |= 1u << gpu;
	return 0;
}

static int weight_write(struct cgpu_state *state, const struct core_place *place, u32 value)
{
	struct core_gpu *gpu = place->gpu;
	u32 others = core_weights_of_others(state, gpu->facts.index, place->instance);

	if (value > gpu->max_inst || (value == 0 && !state->settings.allow_zero_weight))
		return -EINVAL;
	if (value > place->instance->slice.weight && others + value > gpu->max_inst)
		return -EDQUOT;
	gpu->policy = cgpu_policy_for_weight(gpu->policy, value);
	place->instance->slice.weight = value;
	core_sched_changed(state, gpu->facts.index, place->number);
	return 0;
}

static int container_write(struct cgpu_core *core, const struct core_place *place, u32 kind, u64 value)
{
	if (kind == CGPU_NODE_KIND_MEMSIZE)
		return memsize_write(core, place, value);
	if (kind == CGPU_NODE_KIND_WEIGHT)
		return weight_write(core->state, place, (u32)value);
	if (core_kind_attribute(kind) >= CGPU_SLICE_ATTRIBUTES)
		return -EINVAL;
	*core_slice_value(&place->instance->slice, core_kind_attribute(kind)) = value;
	core_sched_changed(core->state, place->gpu->facts.index, place->number);
	return 0;
}

static int node_write(struct cgpu_core *core, const struct cgpu_node *node, u64 value)
{
	struct cgpu_state *state = core->state;
	struct core_place place;
	int err = core_tree_place(state, node, &place);

	if (err)
		return err;
	if (place.gpu)
		core_pages_look(core, place.gpu->facts.index);
	if (place.container)
		return container_write(core, &place, node->kind, value);
	if (place.gpu)
		return gpu_write(state, place.gpu, node->kind, (u32)value);
	/* This engine has no second part that could be exchanged while it runs. */
	if (node->kind == CGPU_NODE_KIND_UPGRADE)
		return -EBUSY;
	if (node->kind != CGPU_NODE_KIND_DEFAULT_MEMSIZE)
		return -EINVAL;
	state->default_memsize = value;
	return 0;
}

static int value_write(struct cgpu_core *core, const struct cgpu_node *node, const char *text, size_t bytes)
{
	u64 value = 0;
	int err = core_value_parse(node->kind, text, bytes, &value);

	if (err)
		return err;
	core_lock(core);
	err = node_write(core, node, value);
	core_unlock(core);
	if (!core_orphans_settle(core, err))
		return err;
	core_lock(core);
	err = node_write(core, node, value);
	core_unlock(core);
	return err;
}

int cgpu_tree_write(
	struct cgpu_core *core, const struct cgpu_node *node, const char *text, size_t bytes, struct cgpu_refusal *why)
{
	int err;

	if (node->directory)
		return -EISDIR;
	if (node->kind == CGPU_NODE_KIND_INST_CTL)
		return cgpu_inst_ctl(core, text, bytes, why);
	err = value_write(core, node, text, bytes);
	if (err)
		core_value_refused(core, node, text, bytes, err);
	return err;
}
