// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0
/*
 * RM clients and the files they live on. A client belongs to the open file description it was made on for all its life,
 * and ends with its last close. Only a transport inside the kernel sees files and their end.
 */
#include "ledger.h"

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
