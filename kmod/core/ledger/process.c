// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
/* Charges by process, and what the driver says of processes and clients. */
#include "ledger/ledger.h"

void core_process_walk(struct cgpu_state *state)
{
	state->walk++;
}

/*
 * Whether a client is the first of those that its process has in its container; the sums of *charge become those of all.
 * Each process is looked at once in a walk: else one with thousands of clients would be looked at for each of them.
 */
static int is_first(struct cgpu_state *state, u32 client, u32 gpu, struct cgpu_process_charge *charge)
{
	const struct core_client *record = &state->client[client];
	u32 i, lowest = client;

	*charge = (struct cgpu_process_charge){ .tgid = record->tgid, .gpu = gpu };
	if (record->walk == state->walk)
		return 0;
	for (i = core_client_of_process(state, record->tgid); i != CORE_NONE; i = state->client[i].tgid_next) {
		struct core_client *other = &state->client[i];

		if (other->tgid != record->tgid || other->slot != record->slot)
			continue;
		other->walk = state->walk;
		charge->bytes += other->charged[gpu];
		/* The driver's figure for a process has none of the memory of UVM or of a file. */
		if (!core_is_pin(other))
			charge->reported += other->charged[gpu] - other->estimated[gpu];
		if (i < lowest)
			lowest = i;
	}
	return lowest == client;
}

/* The next process; charged: only if it has memory on the GPU. */
static int process_next(
	struct cgpu_state *state, u32 slot, u32 gpu, int charged, u32 *cursor, struct cgpu_process_charge *charge)
{
	for (; *cursor < CGPU_MAX_CLIENTS; (*cursor)++) {
		const struct core_client *record = &state->client[*cursor];

		if (record->live != CORE_LIVE || record->slot != slot)
			continue;
		if (!is_first(state, *cursor, gpu, charge) || (charged && charge->bytes == 0))
			continue;
		(*cursor)++;
		return 0;
	}
	return -ENOENT;
}

int core_process_next(struct cgpu_state *state, u32 slot, u32 gpu, u32 *cursor, struct cgpu_process_charge *charge)
{
	return process_next(state, slot, gpu, 1, cursor, charge);
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
		core_process_walk(core->state);
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
	struct cgpu_process_charge charge;
	int err;

	core_lock(core);
	core_process_walk(core->state);
	err = process_next(core->state, slot, 0, 0, cursor, &charge);
	if (err == 0)
		*tgid = charge.tgid;
	core_unlock(core);
	return err;
}

int cgpu_client_next(struct cgpu_core *core, s32 tgid, u32 *cursor, u32 *client)
{
	int err = -ENOENT;

	core_lock(core);
	for (; err && *cursor < CGPU_MAX_CLIENTS; (*cursor)++) {
		const struct core_client *record = &core->state->client[*cursor];

		if (record->live != CORE_LIVE || record->tgid != tgid || core_is_pin(record))
			continue;
		*client = record->handle;
		err = 0;
	}
	core_unlock(core);
	return err;
}

int cgpu_client_gone(struct cgpu_core *core, s32 tgid, u32 client)
{
	return core_client_forget(core, CORE_ANYWHERE, tgid, client);
}
