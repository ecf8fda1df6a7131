// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
/* Settings and GPUs as the transports give them, and containers and reservations as they see them. */
#include "ledger/ledger.h"
#include "registry/registry.h"
#include "sched/sched.h"
#include "lib/text.h"

_Static_assert(CGPU_MAX_INST == CGPU_CONFIG_MAX_INST_MAX, "the state has room for what the configuration allows");

int core_settings_check(const struct cgpu_settings *settings)
{
	if (!cgpu_policy_in_bounds(settings->policy, settings->max_inst, settings->prio_ratio))
		return -EINVAL;
	if (settings->slice && (settings->slice < CGPU_SCHED_SLICE_MIN || settings->slice > CGPU_SCHED_SLICE_MAX))
		return -EINVAL;
	if (settings->context_memory > CORE_BYTES_MAX || settings->page_margin > CORE_BYTES_MAX)
		return -EINVAL;
	return settings->drift_tolerance > CORE_BYTES_MAX ? -EINVAL : 0;
}

int cgpu_settings_apply(struct cgpu_core *core, const struct cgpu_settings *settings)
{
	struct cgpu_state *state = core->state;
	struct cgpu_settings *own = &state->settings;
	u32 gpu;

	if (core_settings_check(settings))
		return -EINVAL;
	core_lock(core);
	/* A value written to the tree stays until the configuration itself says something new. */
	if (own->default_memsize != settings->default_memsize)
		state->default_memsize = settings->default_memsize;
	core_stat_settings(state, settings);
	*own = *settings;
	state->limits_due = ~0u;
	for (gpu = 0; gpu < CGPU_MAX_GPUS; gpu++) {
		if (core_gpu(state, gpu))
			core_sched_policy(state, gpu);
	}
	own->engine[sizeof(own->engine) - 1] = 0;
	own->version[sizeof(own->version) - 1] = 0;
	core_unlock(core);
	return 0;
}

/* -EEXIST when the place or the card is taken by another; 0 also for the same card again. */
static int place_check(const struct cgpu_state *state, const struct cgpu_gpu_facts *facts)
{
	size_t length = core_string_length(facts->uuid, sizeof(facts->uuid));
	u32 i;

	for (i = 0; i < CGPU_MAX_GPUS; i++) {
		const struct core_gpu *gpu = &state->gpu[i];

		if (gpu->live != CORE_LIVE)
			continue;
		if (core_same(facts->uuid, length, gpu->facts.uuid) != (i == facts->index))
			return -EEXIST;
	}
	return 0;
}

static int facts_check(const struct cgpu_gpu_facts *facts)
{
	size_t uuid = core_string_length(facts->uuid, sizeof(facts->uuid));
	size_t name = core_string_length(facts->name, sizeof(facts->name));

	if (facts->index >= CGPU_MAX_GPUS)
		return -ENOSPC;
	if (uuid == 0 || uuid == sizeof(facts->uuid) || name == sizeof(facts->name))
		return -EINVAL;
	return facts->memtotal == 0 || facts->memtotal > CORE_BYTES_MAX ? -EINVAL : 0;
}

int cgpu_gpu_add(struct cgpu_core *core, const struct cgpu_gpu_facts *facts)
{
	struct cgpu_state *state = core->state;
	struct core_lost_line lost = { .level = 0 };
	int err = facts_check(facts);
	struct core_gpu *gpu;

	if (err)
		return err;
	core_lock(core);
	err = place_check(state, facts);
	gpu = &state->gpu[facts->index];
	if (err == 0 && gpu->live == CORE_LIVE && core_totals(state, facts->index).promised > facts->memtotal)
		err = -EINVAL;
	if (err == 0 && gpu->live != CORE_LIVE) {
		memset(gpu, 0, sizeof(*gpu));
		core_stat_gpu_begin(state, facts->index);
		gpu->policy = state->settings.policy;
		gpu->max_inst = state->settings.max_inst;
		gpu->prio_ratio = state->settings.prio_ratio;
		gpu->memfree = facts->memtotal;
		core_sched_begin(state, facts->index);
	}
	if (err == 0) {
		/* Another driver may need another amount, which can be measured only while no container has anything
		 * on the card. */
		if (core_totals(state, facts->index).instances == 0 && core_gpu_left(gpu) == 0)
			memset(&gpu->drift, 0, sizeof(gpu->drift));
		gpu->facts = *facts;
		/* Another driver may have scheduling controls that the one before did not have. */
		gpu->share.enable_fail = 0;
		gpu->share.timeslices_fail = 0;
		gpu->share.enable_work = 0;
		gpu->share.timeslices_work = 0;
		core_sched_policy(state, facts->index);
		state->tree_changes++;
		core_barrier();
		gpu->live = CORE_LIVE;
		/* The facts are the driver's answer. */
		core_lost_set(state, facts->index, 0, &lost);
	}
	core_unlock(core);
	core_lost_log(core, &lost);
	return err;
}

int cgpu_gpu_facts(struct cgpu_core *core, u32 gpu, struct cgpu_gpu_facts *facts)
{
	const struct core_gpu *found;

	core_lock(core);
	found = core_gpu(core->state, gpu);
	if (found)
		*facts = found->facts;
	core_unlock(core);
	return found ? 0 : -ENOENT;
}

int cgpu_gpu_set_memfree(struct cgpu_core *core, u32 gpu, u64 bytes)
{
	struct core_gpu *found;

	core_lock(core);
	found = core_gpu(core->state, gpu);
	if (found)
		found->memfree = bytes;
	core_unlock(core);
	return found ? 0 : -ENOENT;
}

int cgpu_gpu_set_mig(struct cgpu_core *core, u32 gpu, u32 mig)
{
	struct core_gpu *found;

	core_lock(core);
	found = core_gpu(core->state, gpu);
	if (found)
		found->mig = mig != 0;
	core_unlock(core);
	return found ? 0 : -ENOENT;
}

/* --- containers --- */

static void info_fill(const struct cgpu_state *state, u32 slot, struct cgpu_container_info *info)
{
	const struct core_container *container = &state->container[slot];

	memcpy(info->id, container->id, sizeof(info->id));
	memcpy(info->cgroup, container->cgroup, sizeof(info->cgroup));
	info->pid = container->pid;
	info->slot = slot;
	info->generation = container->generation;
	info->passthrough = container->passthrough;
	info->spare = 0;
}

int cgpu_container_find(struct cgpu_core *core, const char *id, struct cgpu_container_info *info)
{
	u32 slot;

	core_lock(core);
	slot = core_slot_by_id(core->state, id);
	if (slot != CORE_NONE)
		info_fill(core->state, slot, info);
	core_unlock(core);
	return slot == CORE_NONE ? -ENOENT : 0;
}

int cgpu_container_next(struct cgpu_core *core, u32 slot, struct cgpu_container_info *info)
{
	int err = -ENOENT;

	core_lock(core);
	for (; slot < CGPU_MAX_CONTAINERS; slot++) {
		if (core->state->container[slot].live != CORE_LIVE)
			continue;
		info_fill(core->state, slot, info);
		err = 0;
		break;
	}
	core_unlock(core);
	return err;
}

int cgpu_instance_info(struct cgpu_core *core, u32 slot, u64 generation, u32 gpu, struct cgpu_instance_info *info)
{
	struct core_instance *instance = NULL;

	core_lock(core);
	if (gpu < CGPU_MAX_GPUS && core_container(core->state, slot, generation))
		instance = core_instance_of(core->state, gpu, slot, NULL);
	if (instance) {
		core_pages_look_at(core, gpu, instance);
		info->memsize = instance->slice.memsize;
		info->charged = core_instance_has(instance);
	}
	core_unlock(core);
	return instance ? 0 : -ENOENT;
}

static void reservation_fill(struct cgpu_state *state, u32 gpu, const struct core_reservation *reservation,
	struct cgpu_reservation_info *info)
{
	const struct core_instance *user = core_reservation_user(state, gpu, reservation);

	memcpy(info->id, reservation->id, sizeof(info->id));
	info->gpu = gpu;
	info->slot = user ? user->slot : CGPU_NO_SLOT;
	info->memsize = reservation->slice.memsize;
}

int cgpu_reservation_next(struct cgpu_core *core, u32 *cursor, struct cgpu_reservation_info *info)
{
	const struct core_reservation *found = NULL;
	u32 at;

	core_lock(core);
	for (at = *cursor; found == NULL && at < CGPU_MAX_GPUS * CGPU_MAX_INST; at++) {
		found = core_reservation(core->state, at / CGPU_MAX_INST, at % CGPU_MAX_INST);
		if (found)
			reservation_fill(core->state, at / CGPU_MAX_INST, found, info);
	}
	core_unlock(core);
	*cursor = at;
	return found ? 0 : -ENOENT;
}

static void say_removed(struct cgpu_core *core, const char *id)
{
	struct core_text out;
	char line[CGPU_ID_BYTES + 32];

	core_text_start(&out, line, sizeof(line) - 1);
	core_text_string(&out, "container ");
	core_text_string(&out, id);
	core_text_string(&out, " removed");
	line[out.length] = 0;
	core->ops->log(core->ctx, 6, line);
}

/* The GPUs of which a container has slices. */
static u32 sliced_gpus(struct cgpu_state *state, u32 slot)
{
	u32 gpu, found = 0;

	for (gpu = 0; gpu < CGPU_MAX_GPUS; gpu++) {
		if (core_instance_of(state, gpu, slot, NULL))
			found |= 1u << gpu;
	}
	return found;
}

int cgpu_container_remove(struct cgpu_core *core, u32 slot, u64 generation)
{
	struct core_event event = { .slot = slot, .generation = generation };
	struct core_container *container;

	core_lock(core);
	container = core_container(core->state, slot, generation);
	if (container) {
		memcpy(event.id, container->id, sizeof(event.id));
		event.gpus = sliced_gpus(core->state, slot);
		core_container_drop(core->state, slot);
	}
	core_unlock(core);
	if (!event.id[0])
		return 0;
	say_removed(core, event.id);
	core_event_ended(core, &event);
	return 0;
}

u32 cgpu_container_gpus(struct cgpu_core *core, u32 slot, u64 generation)
{
	u32 found;

	core_lock(core);
	found = core_container(core->state, slot, generation) ? sliced_gpus(core->state, slot) : 0;
	core_unlock(core);
	return found;
}

int cgpu_minor_granted(struct cgpu_core *core, u32 slot, u64 generation, u32 minor)
{
	struct cgpu_state *state = core->state;
	int granted;
	u32 i;

	core_lock(core);
	granted = !state->settings.enforce;
	for (i = 0; i < CGPU_MAX_GPUS && !granted; i++) {
		const struct core_gpu *gpu = core_gpu(state, i);

		granted = gpu && gpu->facts.minor == minor && core_container(state, slot, generation) &&
			core_has_gpu(state, i, slot);
	}
	core_unlock(core);
	return granted;
}
