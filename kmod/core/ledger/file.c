// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
/*
 * RM clients and the files they live on. A client belongs to the open file description it was made on for all its life,
 * and ends with its last close. A transport inside the kernel sees all files and their end, a daemon only those that it
 * watches, because memory was exported on them.
 */
#include "ledger/ledger.h"

#define FILE_LOST (~0ull) /* in place of a number: its end will not be seen */

void cgpu_file_closed(struct cgpu_core *core, u64 file)
{
	struct cgpu_state *state = core->state;
	u32 i, next;

	if (file == 0)
		return;
	core_lock(core);
	for (i = core_client_of_file(state, file); i != CORE_NONE; i = next) {
		next = state->client[i].file_next;
		if (state->client[i].file == file)
			core_client_drop(state, i);
	}
	core_unlock(core);
}

int cgpu_file_next(struct cgpu_core *core, u32 *cursor, u64 *file)
{
	int err = -ENOENT;

	core_lock(core);
	for (; err && *cursor < CGPU_MAX_CLIENTS; (*cursor)++) {
		const struct core_client *record = &core->state->client[*cursor];

		if (record->live != CORE_LIVE || record->file == 0 || record->file == FILE_LOST)
			continue;
		*file = record->file;
		err = 0;
	}
	core_unlock(core);
	return err;
}

u32 cgpu_files_lost(struct cgpu_core *core)
{
	struct cgpu_state *state = core->state;
	u32 i, lost = 0;

	core_lock(core);
	for (i = 0; i < CGPU_MAX_CLIENTS; i++) {
		const struct core_client *record = &state->client[i];

		if (record->live != CORE_LIVE || record->file == 0 || record->file == FILE_LOST)
			continue;
		core_client_on_file(state, i, FILE_LOST);
		lost++;
	}
	core_unlock(core);
	return lost;
}

/*
 * Memory that was exported on open files. The driver keeps a copy of the object for each file until that is closed, whatever
 * becomes of the object, its client and its container. Here the file has a record like a client's, which lives on it, and
 * which goes with it or becomes an orphan (orphan.c) as every other.
 */

u32 core_exports_find(const struct cgpu_state *state, u32 slot, u64 file, int *others)
{
	u32 found = CORE_NONE, i;

	*others = 0;
	for (i = core_client_of_file(state, file); i != CORE_NONE; i = state->client[i].file_next) {
		const struct core_client *record = &state->client[i];

		if (record->file != file || !core_client_exports(record))
			continue;
		if (record->slot == slot)
			found = i;
		else
			*others = 1;
	}
	return found;
}

u32 core_exports_take(struct cgpu_state *state, u32 slot, u64 file, s32 tgid)
{
	int others;
	u32 client = core_exports_find(state, slot, file, &others);

	if (client != CORE_NONE)
		return client;
	/* The new client takes the first free record. */
	client = core_client_make(state, slot, CORE_EXPORTS_BASE | state->client_free, tgid);
	if (client != CORE_NONE)
		core_client_on_file(state, client, file);
	return client;
}

void core_exports_settle(struct cgpu_state *state, u32 client)
{
	if (state->client[client].objects == 0)
		core_client_drop(state, client);
}
