// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
/*
 * Taking up a state whose last owner may have died anywhere. Only records are believed, and each only as
 * far as it makes sense; links and sums are made anew from them. An allocation that was under way stays
 * charged without a handle, because the driver may have done it: until cgpu_recover_finish(), or its client goes.
 */
#include "ledger/ledger.h"
#include "ledger/tables.h"
#include "registry/registry.h"
#include "sched/sched.h"
#include "lib/text.h"

static int settings_sane(const struct cgpu_settings *settings)
{
	return core_settings_check(settings) == 0 && settings->engine[sizeof(settings->engine) - 1] == 0 &&
		settings->version[sizeof(settings->version) - 1] == 0;
}

static int gpu_sane(const struct core_gpu *gpu, u32 index)
{
	if (!cgpu_policy_in_bounds(gpu->policy, gpu->max_inst, gpu->prio_ratio))
		return 0;
	if (gpu->facts.index != index || gpu->facts.memtotal == 0 || gpu->facts.memtotal > CORE_BYTES_MAX)
		return 0;
	return gpu->facts.uuid[sizeof(gpu->facts.uuid) - 1] == 0 && gpu->facts.name[sizeof(gpu->facts.name) - 1] == 0;
}

static void recover_container(struct cgpu_state *state, u32 slot)
{
	struct core_container *container = &state->container[slot];
	size_t length = core_string_length(container->id, sizeof(container->id));
	u32 i;

	container->clients = 0;
	container->objects = 0;
	if (container->live != CORE_LIVE) {
		/* A registration that never came to its end. */
		for (i = 0; i < CGPU_MAX_GPUS; i++) {
			if (container->moved >> i & 1)
				state->gpu[i].policy = cgpu_policy_before_weight(state->gpu[i].policy);
		}
		memset(container, 0, sizeof(*container));
		return;
	}
	container->moved = 0;
	container->cgroup[sizeof(container->cgroup) - 1] = 0;
	if (length == sizeof(container->id) || core_id_check(container->id, length) || container->pid <= 0 ||
		container->generation == 0)
		memset(container, 0, sizeof(*container));
	else if (container->generation > state->generation)
		state->generation = container->generation;
}

/* Two containers must not answer to one directory. Counts those that remain. */
static void recover_names(struct cgpu_state *state)
{
	u32 i;

	for (i = 0; i < CGPU_MAX_CONTAINERS; i++) {
		struct core_container *container = &state->container[i];

		if (container->live != CORE_LIVE)
			continue;
		if (core_slot_by_directory(state, container->id, core_id_directory(container->id)) != i)
			memset(container, 0, sizeof(*container));
	}
	state->containers = 0;
	for (i = 0; i < CGPU_MAX_CONTAINERS; i++)
		state->containers += state->container[i].live == CORE_LIVE;
}

/* Whether a reservation makes sense, and is the first with its id: the ones before it were checked, so it is found
 * before any behind it. */
static int reservation_sane(struct cgpu_state *state, u32 gpu, u32 number)
{
	const struct core_reservation *reservation = &state->reservation[gpu][number];
	size_t length = core_string_length(reservation->id, sizeof(reservation->id));

	if (core_reservation(state, gpu, number) == NULL || length == sizeof(reservation->id))
		return 0;
	if (core_id_check(reservation->id, length) || !core_slice_in_bounds(&reservation->slice))
		return 0;
	if (reservation->slice.memsize == 0 || reservation->slice.memsize > state->gpu[gpu].facts.memtotal)
		return 0;
	return core_reservation_find(state, reservation->id, length, NULL) == reservation;
}

/* A reservation that no container uses gets generation 0, by which no later container can pass for its user. */
static int recover_reservations(struct cgpu_state *state, u32 gpu)
{
	u32 i;

	for (i = 0; i < CGPU_MAX_INST; i++) {
		struct core_reservation *reservation = &state->reservation[gpu][i];

		if (!reservation_sane(state, gpu, i)) {
			memset(reservation, 0, sizeof(*reservation));
		} else if (core_reservation_user(state, gpu, reservation) == NULL) {
			reservation->slot = CORE_NONE;
			reservation->generation = 0;
		}
	}
	return core_totals(state, gpu).promised > state->gpu[gpu].facts.memtotal ? -EINVAL : 0;
}

/* A GPU that is gone, or has slices or reservations, is nobody's passthrough GPU. */
static void recover_passthrough(struct cgpu_state *state)
{
	u32 slot, gpu;

	for (gpu = 0; gpu < CGPU_MAX_GPUS; gpu++) {
		if (state->gpu[gpu].live == CORE_LIVE && core_totals(state, gpu).places == 0)
			continue;
		for (slot = 0; slot < CGPU_MAX_CONTAINERS; slot++)
			state->container[slot].passthrough &= ~(1u << gpu);
	}
}

static int recover_gpu(struct cgpu_state *state, u32 index)
{
	struct core_gpu *gpu = &state->gpu[index];
	u64 promised = 0;
	u32 i, number;

	gpu->orphaned = 0;
	gpu->orphaned_managed = 0;
	gpu->counted = 0;
	/* The card's own memory is worth keeping, the rest shows anew. */
	gpu->drift = (struct core_unaccounted){ .own = gpu->drift.own, .own_known = gpu->drift.own_known == 1 };
	if (gpu->drift.own > gpu->facts.memtotal)
		gpu->drift.own_known = 0;
	gpu->passthrough = 0;
	gpu->mig = gpu->mig != 0;
	gpu->lost = gpu->lost != 0;
	for (i = 0; i < CGPU_MAX_INST; i++) {
		struct core_instance *instance = &gpu->instance[i];

		instance->used = 0;
		instance->managed = 0;
		instance->counted = 0;
		if (gpu->live != CORE_LIVE || core_instance(state, index, i) == NULL ||
			!core_slice_in_bounds(&instance->slice) ||
			(core_instance_of(state, index, instance->slot, &number) && number != i))
			memset(instance, 0, sizeof(*instance));
		if (instance->slice.memsize > gpu->facts.memtotal ||
			promised > gpu->facts.memtotal - instance->slice.memsize)
			return -EINVAL;
		promised += instance->slice.memsize;
	}
	return 0;
}

static void recover_client(struct cgpu_state *state, u32 index)
{
	struct core_client *client = &state->client[index];

	if (client->live != CORE_LIVE)
		return;
	client->confirmed = 1;
	if (client->settled > state->serial)
		state->serial = client->settled;
	/* Its container was removed, or was being removed when the end came. */
	if (core_container(state, client->slot, client->generation) == NULL) {
		client->slot = CORE_NONE;
		client->generation = 0;
	} else if (core_client_find(state, client->slot, client->handle) != CORE_NONE) {
		client->live = 0;
		return;
	}
	core_client_link(state, index);
}

/* Whether an object's own fields make sense. Its parent's kind must be a lower one, so no circles can be. */
static int object_sane(struct cgpu_state *state, const struct core_object *object)
{
	const struct core_object *parent;

	if (object->kind < CORE_OBJECT_DEVICE || object->kind > CORE_OBJECT_LAST)
		return 0;
	if (object->client >= CGPU_MAX_CLIENTS || state->client[object->client].live != CORE_LIVE)
		return 0;
	if (core_gpu(state, object->gpu) == NULL && (object->kind != CORE_OBJECT_HOST || object->gpu != CORE_NONE))
		return 0;
	if (object->parent == CORE_NONE)
		return 1;
	if (object->parent >= CGPU_MAX_OBJECTS)
		return 0;
	parent = &state->object[object->parent];
	return parent->live == CORE_LIVE && parent->kind < object->kind && parent->client == object->client;
}

static int memory_sane(struct cgpu_state *state, const struct core_object *object)
{
	const struct core_client *client = &state->client[object->client];
	const struct core_instance *instance;
	struct core_memory *memory;

	if (object->memory == CORE_NONE)
		return object->kind != CORE_OBJECT_MEMORY;
	if (!core_kind_is_charged(object->kind) || object->memory >= CGPU_MAX_OBJECTS)
		return 0;
	memory = &state->memory[object->memory];
	if (memory->live != CORE_LIVE || memory->gpu != object->gpu)
		return 0;
	memory->managed = memory->managed != 0;
	if (memory->bytes > state->gpu[memory->gpu].facts.memtotal)
		memory->bytes = state->gpu[memory->gpu].facts.memtotal;
	memory->group_ids = memory->group_ids == 1;
	memory->channel_ids = memory->channel_ids == 1;
	if (client->slot == CORE_NONE) {
		/* All references are orphans, or none is. */
		if (memory->first == CORE_NONE)
			memory->instance = CORE_NONE;
		return memory->instance == CORE_NONE;
	}
	if (memory->instance == CORE_PASSTHROUGH)
		return core_is_passthrough(state, memory->gpu, client->slot);
	if (memory->instance >= CGPU_MAX_INST)
		return 0;
	instance = core_instance(state, memory->gpu, memory->instance);
	return instance && instance->slot == client->slot;
}

/* Kinds that cost nothing by themselves, and that a call under way can still be settled for. */
static int stays_without_charge(u32 kind)
{
	return kind == CORE_OBJECT_HOST || kind == CORE_OBJECT_VA_SPACE || kind == CORE_OBJECT_VIRTUAL;
}

/* A mapping lies in a reservation or device; the memory that it is of may be gone. */
static int mapping_sane(struct cgpu_state *state, struct core_object *object)
{
	const struct core_object *memory = object->mapped < CGPU_MAX_OBJECTS ? &state->object[object->mapped] : NULL;

	if (object->kind != CORE_OBJECT_MAPPING)
		return core_object_find(state, object->client, object->handle) == CORE_NONE;
	if (memory == NULL || memory->live != CORE_LIVE || memory->client != object->client)
		object->mapped = CORE_NONE;
	return object->parent != CORE_NONE && core_mapping_find(state, object->parent, object->address) == CORE_NONE;
}

static void recover_object(struct cgpu_state *state, u32 index)
{
	struct core_object *object = &state->object[index];

	if (object->live == CORE_PENDING) {
		/* With a handle it was done, all but its mark. */
		if (object->handle == 0)
			object->parent = CORE_NONE;
		object->live = object->handle || object->memory != CORE_NONE || stays_without_charge(object->kind) ?
			CORE_LIVE :
			0;
	}
	if (object->live != CORE_LIVE)
		return;
	if (!object_sane(state, object) || !memory_sane(state, object) || !mapping_sane(state, object)) {
		object->live = 0;
		return;
	}
	core_object_link(state, index);
	object->notifies = 0;
	object->tsg_list = CORE_NONE;
	object->applied = 0;
	if (object->runlist >= CORE_RUNLISTS)
		object->runlist = 0;
	if (object->handle) {
		core_object_hash_link(state, index);
		core_tsg_link(state, index);
	}
	if (object->memory != CORE_NONE)
		core_memory_link(state, index);
	core_mapping_link(state, index);
	core_tables_link(state, index);
	if (object->serial > state->serial)
		state->serial = object->serial;
}

/* used: no record counts from there on. clean: from there on free ones are in their lists. */
static void recover_ledger(struct cgpu_state *state, u32 used, u32 clean)
{
	u32 kind, i;

	core_links_clear(state);
	for (i = 0; i < CGPU_MAX_CLIENTS; i++)
		recover_client(state, i);
	for (i = 0; i < used; i++) {
		state->memory[i].first = CORE_NONE;
		state->memory[i].tables = 0;
	}
	/* Parents first. Records of no known kind go with the first pass. */
	for (kind = CORE_OBJECT_DEVICE; kind <= CORE_OBJECT_LAST; kind++) {
		for (i = 0; i < used; i++) {
			u32 own = state->object[i].kind;

			if (own == kind || (kind == CORE_OBJECT_DEVICE && own - 1 >= CORE_OBJECT_LAST))
				recover_object(state, i);
		}
	}
	for (i = 0; i < used; i++) {
		if (state->object[i].live == CORE_LIVE && state->object[i].kind == CORE_OBJECT_CHANNEL)
			core_notifiers_link(state, i);
		if (state->memory[i].live == CORE_LIVE && state->memory[i].first == CORE_NONE)
			state->memory[i].live = 0;
	}
	core_free_lists(state, clean);
	for (i = 0; i < CGPU_MAX_CLIENTS; i++) {
		if (state->client[i].live != CORE_LIVE || state->client[i].slot != CORE_NONE)
			continue;
		core_client_thin(state, i);
		core_orphan_settle(state, i);
	}
}

static int recover(struct cgpu_state *state, u32 used, u32 clean)
{
	u32 i;

	if (state->magic != CORE_MAGIC || state->version != CORE_VERSION || state->bytes != sizeof(*state))
		return -EINVAL;
	if (!settings_sane(&state->settings))
		return -EINVAL;
	for (i = 0; i < CGPU_MAX_GPUS; i++) {
		if (state->gpu[i].live != CORE_LIVE)
			memset(&state->gpu[i], 0, sizeof(state->gpu[i]));
		else if (!gpu_sane(&state->gpu[i], i))
			return -EINVAL;
	}
	for (i = 0; i < CGPU_MAX_CONTAINERS; i++)
		recover_container(state, i);
	recover_names(state);
	for (i = 0; i < CGPU_MAX_GPUS; i++) {
		if (recover_gpu(state, i))
			return -EINVAL;
	}
	for (i = 0; i < CGPU_MAX_GPUS; i++) {
		if (recover_reservations(state, i))
			return -EINVAL;
	}
	recover_passthrough(state);
	state->rounds_due = 0;
	state->limits_due = ~0u;
	for (i = 0; i < CGPU_MAX_GPUS; i++) {
		if (state->gpu[i].live == CORE_LIVE)
			core_sched_begin(state, i);
	}
	recover_ledger(state, used, clean);
	core_stat_recover(state);
	return 0;
}

int cgpu_state_recover(struct cgpu_state *state)
{
	int err = recover(state, core_objects_used(state), CGPU_MAX_OBJECTS);

	if (err == 0)
		state->stat.engine.restarts++;
	return err;
}

void cgpu_recover_finish(struct cgpu_core *core)
{
	struct cgpu_state *state = core->state;
	u32 i, client;

	core_lock(core);
	for (i = 0; i < CGPU_MAX_OBJECTS; i++) {
		/* Only recovery leaves a live record without a handle. */
		if (state->object[i].live != CORE_LIVE || state->object[i].handle != 0)
			continue;
		client = state->object[i].client;
		core_object_drop(state, i);
		core_client_settle(state, client);
	}
	core_unlock(core);
}

/* --- From the layout of one version of the core to that of another --- */

u32 cgpu_state_version(void)
{
	return CORE_VERSION;
}

/* Whether this core reads a layout. A test builds a core that also reads another version, whose layout is the same. */
static int reads_version(u32 version)
{
#ifdef CORE_CONVERTS_FROM
	if (version == CORE_CONVERTS_FROM)
		return 1;
#endif
	return version == CORE_VERSION;
}

enum cgpu_state_kind cgpu_state_converts(const struct cgpu_state *from)
{
	if (from->magic != CORE_MAGIC || !reads_version(from->version) || from->bytes != sizeof(*from))
		return CGPU_STATE_FOREIGN;
	return from->version == CORE_VERSION ? CGPU_STATE_OWN : CGPU_STATE_CONVERTS;
}

int cgpu_state_convert(struct cgpu_state *to, const struct cgpu_state *from)
{
	if (cgpu_state_converts(from) == CGPU_STATE_FOREIGN)
		return -EPROTO;
	memcpy(to, from, sizeof(*to));
	to->stat.engine.fresh = CORE_TAKEN_UP;
	to->version = CORE_VERSION;
	return 0;
}

int cgpu_state_take_over(struct cgpu_state *to, const struct cgpu_state *from)
{
	u32 used;

	if (cgpu_state_converts(from) == CGPU_STATE_FOREIGN)
		return -EPROTO;
	used = core_objects_used(from);
	/* Links are made anew, and free records are there already. */
	memcpy(to, from, offsetof(struct cgpu_state, client_hash));
	memcpy(to->gpu, from->gpu, sizeof(to->gpu));
	memcpy(to->container, from->container, sizeof(to->container));
	memcpy(to->client, from->client, sizeof(to->client));
	memcpy(to->object, from->object, used * sizeof(to->object[0]));
	memcpy(to->memory, from->memory, used * sizeof(to->memory[0]));
	memcpy(to->reservation, from->reservation, sizeof(to->reservation));
	memcpy(&to->stat, &from->stat, sizeof(to->stat));
	to->version = CORE_VERSION;
	to->stat.engine.restarts++;
	return recover(to, used, used);
}
