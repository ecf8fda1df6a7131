// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0
/* Charges by process, and what the driver says of processes and clients. */
#include "ledger.h"
#include "process.h"

/* Bytes of all clients that a process has in a container; *lowest becomes the first of them. */
static u64 process_sum(const struct cgpu_state *state, u32 client, u32 gpu, u32 *lowest)
{
	const struct core_client *record = &state->client[client];
	u64 bytes = 0;
	u32 i;

	*lowest = client;
	for (i = core_client_of_process(state, record->tgid); i != CORE_NONE; i = state->client[i].tgid_next) {
		const struct core_client *other = &state->client[i];

		if (other->tgid != record->tgid || other->slot != record->slot)
			continue;
		bytes += other->charged[gpu];
		if (i < *lowest)
			*lowest = i;
	}
	return bytes;
}

int core_process_next(
	const struct cgpu_state *state, u32 slot, u32 gpu, u32 *cursor, struct cgpu_process_charge *charge)
{
	for (; *cursor < CGPU_MAX_CLIENTS; (*cursor)++) {
		const struct core_client *record = &state->client[*cursor];
		u32 lowest;
		u64 bytes;

		if (record->live != CORE_LIVE || record->slot != slot)
			continue;
		bytes = process_sum(state, *cursor, gpu, &lowest);
		if (lowest != *cursor || bytes == 0)
			continue;
		charge->tgid = record->tgid;
		charge->gpu = gpu;
		charge->bytes = bytes;
		(*cursor)++;
		return 0;
	}
	return -ENOENT;
}

int cgpu_process_next(struct cgpu_core *core, u32 slot, u32 *cursor, struct cgpu_process_charge *charge)
{
	u32 gpu = *cursor / CGPU_MAX_CLIENTS;
	u32 client = *cursor % CGPU_MAX_CLIENTS;
	int err = -ENOENT;

	core_lock(core);
	for (; gpu < CGPU_MAX_GPUS; gpu++, client = 0) {
		if (core->state->gpu[gpu].live != CORE_LIVE)
			continue;
		err = core_process_next(core->state, slot, gpu, &client, charge);
		if (err == 0)
			break;
	}
	*cursor = gpu * CGPU_MAX_CLIENTS + client;
	core_unlock(core);
	return err;
}

int cgpu_process_known(struct cgpu_core *core, u32 slot, u32 *cursor, s32 *tgid)
{
	const struct cgpu_state *state = core->state;
	int err = -ENOENT;
	u32 lowest;

	core_lock(core);
	for (; err && *cursor < CGPU_MAX_CLIENTS; (*cursor)++) {
		const struct core_client *record = &state->client[*cursor];

		if (record->live != CORE_LIVE || record->slot != slot)
			continue;
		/* Once for each process: at the first of its clients. */
		process_sum(state, *cursor, 0, &lowest);
		if (lowest != *cursor)
			continue;
		*tgid = record->tgid;
		err = 0;
	}
	core_unlock(core);
	return err;
}

int cgpu_client_next(struct cgpu_core *core, s32 tgid, u32 *cursor, u32 *client)
{
	int err = -ENOENT;

	core_lock(core);
	for (; err && *cursor < CGPU_MAX_CLIENTS; (*cursor)++) {
		const struct core_client *record = &core->state->client[*cursor];

		if (record->live != CORE_LIVE || record->tgid != tgid)
			continue;
		*client = record->handle;
		err = 0;
	}
	core_unlock(core);
	return err;
}

/* Objects stay that decide where later memory belongs: the process may allocate again. */
static void drop_memory(struct cgpu_state *state, u32 client, u32 gpu)
{
	u32 at, next;

	for (at = state->client[client].first; at != CORE_NONE; at = next) {
		const struct core_object *object = &state->object[at];

		next = core_object_after(state, at);
		/* A call that is under way settles its own record. */
		if (object->live == CORE_LIVE && object->kind == CORE_OBJECT_MEMORY && object->gpu == gpu)
			core_object_drop(state, at);
	}
}

int cgpu_process_figure(struct cgpu_core *core, s32 tgid, u32 gpu, u64 bytes)
{
	struct cgpu_state *state = core->state;
	int known;
	u32 i;

	core_lock(core);
	known = core_gpu(state, gpu) != NULL;
	for (i = core_client_of_process(state, tgid); known && bytes == 0 && i != CORE_NONE;
		i = state->client[i].tgid_next) {
		if (state->client[i].tgid == tgid)
			drop_memory(state, i, gpu);
	}
	core_unlock(core);
	return known ? 0 : -ENOENT;
}

int cgpu_client_gone(struct cgpu_core *core, s32 tgid, u32 client)
{
	struct cgpu_state *state = core->state;
	int err = -ENOENT;
	u32 i, next;

	core_lock(core);
	for (i = core_client_of_process(state, tgid); i != CORE_NONE; i = next) {
		next = state->client[i].tgid_next;
		if (state->client[i].tgid != tgid || state->client[i].handle != client)
			continue;
		core_client_drop(state, i);
		err = 0;
	}
	core_unlock(core);
	return err;
}
