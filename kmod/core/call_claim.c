// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0
/*
 * Whose an RM client is. The driver goes by the file that a client was made on, and a file can be handed to
 * another container: without an owner, each of the two could hold what the other one is charged for.
 */
#include "call.h"

/* Whether a call that makes a client asks for a handle of the engine's own records, in either of two fields. */
static int makes_holder(const struct core_frame *frame, const struct core_escape_form *form)
{
	const u8 *top = frame->call->top;

	return form->class && core_is_root(core_field(frame, top, form->class)) &&
		(core_field(frame, top, form->client) >= CORE_HOLDER_BASE ||
			core_field(frame, top, form->made) >= CORE_HOLDER_BASE);
}

static int names_none(const struct core_frame *frame, const struct core_escape_form *form)
{
	return form->root_names_none && core_is_root(core_field(frame, frame->call->top, form->class));
}

int core_names_holder(const struct core_frame *frame)
{
	const struct core_escape_form *form = frame->form;
	const u8 *top = frame->call->top;

	if (makes_holder(frame, form))
		return 1;
	if (names_none(frame, form))
		return 0;
	return core_field(frame, top, form->client) >= CORE_HOLDER_BASE ||
		core_field(frame, top, form->second) >= CORE_HOLDER_BASE;
}

u32 core_claimed(const struct core_frame *frame)
{
	const struct core_escape_form *form = frame->form;
	u32 slot = frame->call->slot, client, second;

	if (names_none(frame, form))
		return 0;
	client = core_field(frame, frame->call->top, form->client);
	if (core_client_claimed(frame->state, slot, client) != CORE_NONE)
		return client;
	second = core_field(frame, frame->call->top, form->second);
	return second != client && core_client_claimed(frame->state, slot, second) != CORE_NONE ? second : 0;
}

int cgpu_claim_find(struct cgpu_core *core, u32 slot, u32 client, struct cgpu_claim *claim)
{
	const struct cgpu_state *state = core->state;
	u32 found, at;

	core_lock(core);
	found = core_client_claimed(state, slot, client);
	if (found != CORE_NONE) {
		claim->slot = state->client[found].slot;
		claim->tgid = state->client[found].tgid;
		claim->client = client;
		claim->handles = 0;
		for (at = state->client[found].first; at != CORE_NONE && claim->handles < CGPU_CLAIM_HANDLES;
			at = state->object[at].after) {
			if (state->object[at].handle)
				claim->handle[claim->handles++] = state->object[at].handle;
		}
	}
	core_unlock(core);
	return found == CORE_NONE ? -ENOENT : 0;
}

/* Drop the records of a process's client that a container, or none any more, has. */
static int drop(struct cgpu_core *core, u32 slot, s32 tgid, u32 client)
{
	struct cgpu_state *state = core->state;
	int err = -ENOENT;
	u32 i, next;

	core_lock(core);
	for (i = core_client_of_handle(state, client); i != CORE_NONE; i = next) {
		const struct core_client *record = &state->client[i];

		next = record->next;
		if (record->tgid != tgid || record->handle != client || record->slot != slot)
			continue;
		core_client_drop(state, i);
		err = 0;
	}
	core_unlock(core);
	return err;
}

void cgpu_claim_drop(struct cgpu_core *core, const struct cgpu_claim *claim)
{
	drop(core, claim->slot, claim->tgid, claim->client);
}

int cgpu_orphan_gone(struct cgpu_core *core, s32 tgid, u32 client)
{
	return drop(core, CORE_NONE, tgid, client);
}
