// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
/*
 * Registering and removing containers. The container's own mark is the commit: instances count only while
 * it is set, so a process that dies anywhere in here leaves all of a registration or nothing.
 */
#include "ledger/ledger.h"
#include "registry/registry.h"
#include "sched/sched.h"
#include "lib/text.h"

static u32 free_slot(const struct cgpu_state *state)
{
	u32 i;

	for (i = 0; i < CGPU_MAX_CONTAINERS; i++) {
		if (state->container[i].live != CORE_LIVE)
			return i;
	}
	return CORE_NONE;
}

static int check_names(struct cgpu_state *state, const struct core_create *create)
{
	u32 slot = core_slot_by_directory(state, create->id, core_id_directory(create->id));

	if (slot == CORE_NONE)
		return 0;
	if (core_same(create->id, strlen(create->id), state->container[slot].id))
		return core_refuse_line(
			create->why, -EEXIST, "this id is already registered; a container is registered once");
	return core_refuse_line(create->why, -EEXIST,
		"container %s has the same first %u characters; start this one under a new id",
		state->container[slot].id, CORE_SHORT_ID);
}

static int check_gpus(struct cgpu_state *state, const struct core_create *create)
{
	u32 i;

	for (i = 0; i < create->count; i++) {
		if (core_gpu(state, create->want[i].gpu) == NULL)
			return core_refuse_unknown_gpu(state, create->why, create->want[i].gpu);
	}
	for (i = 0; i < CGPU_MAX_GPUS; i++) {
		if ((create->passthrough >> i & 1) && core_gpu(state, i) == NULL)
			return core_refuse_unknown_gpu(state, create->why, i);
	}
	if (create->passthrough_missing)
		return core_refuse_unknown_gpu(state, create->why, CORE_NONE);
	for (i = 0; i < create->count; i++) {
		int err = core_want_check_gpu(state, &create->want[i], create->why);

		if (err)
			return err;
	}
	return 0;
}

#define NAME_ANOTHER "request a slice, or name another GPU"

/* A GPU with slices or reservations cannot be given whole. */
static int check_passthrough(struct cgpu_state *state, const struct core_create *create)
{
	struct core_totals totals;
	u32 gpu;

	for (gpu = 0; gpu < CGPU_MAX_GPUS; gpu++) {
		if (!(create->passthrough >> gpu & 1))
			continue;
		totals = core_totals(state, gpu);
		if (totals.places == 0)
			continue;
		if (totals.instances)
			return core_refuse_line(create->why, -ENOMEM,
				"GPU %u cannot be given whole (native): %u container%s slices of it; " NAME_ANOTHER,
				gpu, totals.instances, totals.instances == 1 ? " has" : "s have");
		return core_refuse_line(create->why, -ENOMEM,
			"GPU %u cannot be given whole (native): %u of its places are reserved; " NAME_ANOTHER, gpu,
			totals.places);
	}
	return 0;
}

/* Check that each GPU has what the registration asks of it. */
static int check_room(struct cgpu_state *state, const struct core_create *create)
{
	int err = 0;
	u32 i;

	for (i = 0; i < create->count && err == 0; i++)
		err = core_want_check_place(state, &create->want[i], create->why);
	for (i = 0; i < create->count && err == 0; i++)
		err = core_want_check_memory(state, &create->want[i], create->why);
	if (err == 0)
		err = check_passthrough(state, create);
	for (i = 0; i < create->count && err == 0 && !state->settings.allow_zero_weight; i++)
		err = core_want_check_free_weight(state, &create->want[i], create->why);
	return err;
}

int core_create_check(struct cgpu_state *state, struct core_create *create)
{
	u32 i;
	int err = create->shares ? core_shares_resolve(state, create) : 0;

	if (err == 0)
		err = check_gpus(state, create);
	if (err)
		return err;
	for (i = 0; i < create->count && !create->shares; i++) {
		if (core_want_check_weight(state, &create->want[i], create->why))
			return -EINVAL;
	}
	err = check_names(state, create);
	if (err)
		return err;
	if (free_slot(state) == CORE_NONE)
		return core_refuse_line(create->why, -ENOSPC,
			"the engine has no place for another container; stop one (cgpu-smi lists them)");
	if (core_quota_orphans_crowd(state))
		return core_refuse_line(create->why, -ENOSPC,
			"removed containers still have %u RM clients with %u objects, expected at most %u and %u; " CORE_END_HOLDERS,
			state->orphaned_clients, state->orphaned_objects, CORE_ORPHANED_CLIENTS, CORE_ORPHANED_OBJECTS);
	return create->shares ? core_shares_check(state, create) : check_room(state, create);
}

/* Write an instance that does not count yet; its number is the lowest free one. */
static void instance_write(struct cgpu_state *state, const struct core_want *want, u32 slot, u64 generation)
{
	struct core_instance *instance;
	u32 number = 0;

	while (number < CGPU_MAX_INST - 1 && core_instance(state, want->gpu, number))
		number++;
	instance = &state->gpu[want->gpu].instance[number];
	instance->live = 0;
	core_barrier();
	memset(instance, 0, sizeof(*instance));
	core_stat_instance_begin(state, want->gpu, number);
	instance->slot = slot;
	instance->generation = generation;
	instance->slice = want->slice;
	core_barrier();
	instance->live = CORE_LIVE;
}

static void policy_moves(struct cgpu_state *state, const struct core_create *create, struct core_container *container)
{
	u32 i;

	for (i = 0; i < create->count; i++) {
		struct core_gpu *gpu = &state->gpu[create->want[i].gpu];

		u32 policy = cgpu_policy_for_weight(gpu->policy, create->want[i].slice.weight);

		if (policy == gpu->policy)
			continue;
		container->moved |= 1u << create->want[i].gpu;
		core_barrier();
		gpu->policy = policy;
		core_sched_policy(state, create->want[i].gpu);
	}
}

/* Where weight 0 is allowed, a container that finds too little left starts without compute. */
static struct core_want affordable(struct cgpu_state *state, const struct core_create *create, u32 which)
{
	struct core_want want = create->want[which];

	if (!create->shares && want.slice.weight > core_sched_free_weight(state, want.gpu))
		want.slice.weight = 0;
	return want;
}

/* Write a container that does not count yet. */
static struct core_container *container_write(struct cgpu_state *state, const struct core_create *create, u32 slot)
{
	struct core_container *container = &state->container[slot];

	memset(container, 0, sizeof(*container));
	core_stat_container_begin(state, slot);
	container->generation = ++state->generation;
	container->pid = create->pid;
	container->passthrough = create->passthrough;
	memcpy(container->id, create->id, sizeof(container->id));
	memcpy(container->cgroup, create->cgroup, sizeof(container->cgroup));
	return container;
}

u32 core_create_commit(struct cgpu_state *state, const struct core_create *create)
{
	u32 slot = free_slot(state);
	struct core_container *container;
	u32 i, number;

	core_assert_locked();
	container = container_write(state, create, slot);
	state->containers++;
	state->tree_changes++;
	policy_moves(state, create, container);
	for (i = 0; i < create->count; i++) {
		struct core_want want = affordable(state, create, i);

		instance_write(state, &want, slot, container->generation);
	}
	core_shares_use(state, create, slot, container->generation);
	state->limits_due = ~0u;
	core_barrier();
	container->live = CORE_LIVE;
	core_barrier();
	container->moved = 0;
	for (i = 0; i < create->count; i++) {
		if (core_instance_of(state, create->want[i].gpu, slot, &number))
			core_sched_added(state, create->want[i].gpu, number);
	}
	return slot;
}

void core_container_drop(struct cgpu_state *state, u32 slot)
{
	struct core_container *container = &state->container[slot];
	u64 generation = container->generation;
	u32 gpu, i;

	core_assert_locked();
	container->live = 0;
	state->limits_due = ~0u;
	state->containers--;
	state->tree_changes++;
	core_barrier();
	core_clients_orphan(state, slot);
	for (gpu = 0; gpu < CGPU_MAX_GPUS; gpu++) {
		for (i = 0; i < CGPU_MAX_INST; i++) {
			struct core_instance *instance = &state->gpu[gpu].instance[i];

			if (instance->live != CORE_LIVE || instance->slot != slot || instance->generation != generation)
				continue;
			instance->live = 0;
			core_tsg_list_orphan(state, gpu, i);
			core_sched_removed(state, gpu, i);
		}
	}
	memset(container->id, 0, sizeof(container->id));
}
