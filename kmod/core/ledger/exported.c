// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0
/*
 * Memory that was exported on open files. The driver keeps a copy of the object for each file until that is closed,
 * whatever becomes of the object, its client and its container. Here the file has a record like a client's, which lives
 * on it, and which goes with it (file.c) or becomes an orphan (orphan.c) as every other.
 */
#include "ledger/ledger.h"

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
	/* It is the first free record that will be taken. */
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
