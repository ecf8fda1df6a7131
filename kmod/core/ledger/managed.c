// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
/*
 * Managed memory as a transport outside of the kernel can tell it: by the mappings that a process has. The whole of them
 * may come to lie on each of its container's GPUs, and is charged on each, under the pin of the process (reference.c).
 */
#include "ledger/ledger.h"
#include "registry/registry.h"

/* The record of what a process has on a GPU. CORE_NONE: nothing yet. */
static u32 managed_on(const struct cgpu_state *state, u32 pin, u32 gpu)
{
	u32 at = pin == CORE_NONE ? CORE_NONE : state->client[pin].first;

	for (; at != CORE_NONE; at = core_object_after(state, at)) {
		if (state->object[at].kind == CORE_OBJECT_MEMORY && state->object[at].gpu == gpu)
			return at;
	}
	return CORE_NONE;
}

static u64 managed_bytes_on(const struct cgpu_state *state, u32 pin, u32 gpu)
{
	u32 object = managed_on(state, pin, gpu);

	return object == CORE_NONE ? 0 : state->memory[state->object[object].memory].bytes;
}

/* Whether each GPU's slice has room for what is new; one that has none counts that. */
static int managed_fits(struct cgpu_state *state, const struct cgpu_managed *wanted, u32 pin)
{
	const struct core_instance *instance;
	u32 gpu, number;
	u64 old;

	for (gpu = 0; gpu < CGPU_MAX_GPUS; gpu++) {
		instance = core_instance_of(state, gpu, wanted->slot, &number);
		old = managed_bytes_on(state, pin, gpu);
		if (instance == NULL || wanted->bytes <= old)
			continue;
		if (core_unaccounted_refuses(state, gpu))
			core_stat_short(state, gpu, number, CORE_SHORT_UNACCOUNTED);
		else if (wanted->bytes - old > core_memory_room(instance))
			core_stat_short(state, gpu, number, CORE_SHORT_LIMIT);
		else
			continue;
		return 0;
	}
	return 1;
}

static int managed_record(struct cgpu_state *state, u32 pin, u32 gpu, u32 instance)
{
	u32 object = core_object_begin(state, pin, CORE_OBJECT_MEMORY, gpu);

	if (object == CORE_NONE)
		return -ENOSPC;
	if (core_memory_begin(state, object, instance, 0) == CORE_NONE) {
		core_object_drop(state, object);
		return -ENOSPC;
	}
	core_memory_mark_managed(state, state->object[object].memory);
	core_object_confirm(state, object, object + 1, CORE_NONE);
	return 0;
}

/* Have a record on each of the container's GPUs, before any of them counts. */
static int managed_records(struct cgpu_state *state, u32 slot, u32 pin)
{
	u32 gpu, instance;
	int err = 0;

	for (gpu = 0; gpu < CGPU_MAX_GPUS && err == 0; gpu++) {
		if (core_instance_of(state, gpu, slot, &instance) && managed_on(state, pin, gpu) == CORE_NONE)
			err = managed_record(state, pin, gpu, instance);
	}
	return err;
}

static void managed_resize(struct cgpu_state *state, u32 gpu, u32 memory, u64 bytes)
{
	u32 number = state->memory[memory].instance;

	core_memory_resize(state, memory, bytes);
	if (number < CGPU_MAX_INST)
		core_stat_taken(state, gpu, number, state->gpu[gpu].instance[number].used);
}

static int managed_set(struct cgpu_state *state, const struct cgpu_managed *wanted)
{
	u32 pin = core_client_find(state, wanted->slot, core_pin_handle(wanted->tgid)), gpu, object;
	int known = pin != CORE_NONE, err;

	if (wanted->bytes == 0) {
		if (known)
			core_client_drop(state, pin);
		return 0;
	}
	if (wanted->limited && state->settings.enforce && !managed_fits(state, wanted, pin))
		return -ENOMEM;
	if (!known)
		pin = core_client_take(state, wanted->slot, core_pin_handle(wanted->tgid), wanted->tgid);
	if (pin == CORE_NONE)
		return -ENOSPC;
	err = managed_records(state, wanted->slot, pin);
	if (err < 0) {
		if (!known)
			core_client_drop(state, pin);
		return err;
	}
	state->client[pin].confirmed = 1;
	if (wanted->started)
		state->client[pin].started = wanted->started;
	for (gpu = 0; gpu < CGPU_MAX_GPUS; gpu++) {
		object = managed_on(state, pin, gpu);
		if (object != CORE_NONE)
			managed_resize(state, gpu, state->object[object].memory, wanted->bytes);
	}
	return 0;
}

int cgpu_managed_set(struct cgpu_core *core, const struct cgpu_managed *wanted)
{
	int err = -ENODEV;

	core_lock(core);
	if (core_container(core->state, wanted->slot, wanted->generation))
		err = managed_set(core->state, wanted);
	core_unlock(core);
	return err;
}

int cgpu_managed_next(struct cgpu_core *core, u32 slot, u32 *cursor, struct cgpu_managed *found)
{
	u32 wanted = slot == CGPU_ORPHANS ? CORE_NONE : slot;
	int err = -ENOENT;

	core_lock(core);
	for (; err && *cursor < CGPU_MAX_CLIENTS; (*cursor)++) {
		const struct core_client *record = &core->state->client[*cursor];

		if (record->live != CORE_LIVE || record->slot != wanted ||
			record->handle != core_pin_handle(record->tgid))
			continue;
		*found = (struct cgpu_managed){
			.slot = slot, .generation = record->generation, .tgid = record->tgid, .started = record->started
		};
		err = 0;
	}
	core_unlock(core);
	return err;
}

void cgpu_managed_ended(struct cgpu_core *core, const struct cgpu_managed *found)
{
	struct cgpu_state *state = core->state;
	u32 slot = found->slot == CGPU_ORPHANS ? CORE_NONE : found->slot;
	u32 handle = core_pin_handle(found->tgid), i, next;

	core_lock(core);
	for (i = core_client_of_handle(state, handle); i != CORE_NONE; i = next) {
		const struct core_client *record = &state->client[i];

		next = record->next;
		if (record->handle == handle && record->tgid == found->tgid && record->slot == slot &&
			record->generation == found->generation)
			core_client_drop(state, i);
	}
	core_unlock(core);
}
