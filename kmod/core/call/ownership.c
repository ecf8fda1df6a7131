// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
/*
 * Owners of RM clients. The driver goes by the file that a client was made on, and a file can be handed to
 * another container: without an owner, each of the two could hold what the other one is charged for.
 */
#include "call/call.h"

/* Whether a call that makes a client asks for a handle of the engine's own records, in either of two fields. */
static int makes_pin(const struct core_call_context *context, const struct core_escape_form *form)
{
	const u8 *top = context->call->top;

	return form->class && core_is_root(core_field(context, top, form->class)) &&
		(core_field(context, top, form->client) >= CORE_PIN_BASE ||
			core_field(context, top, form->made) >= CORE_PIN_BASE);
}

static int names_none(const struct core_call_context *context, const struct core_escape_form *form)
{
	return form->root_names_none && core_is_root(core_field(context, context->call->top, form->class));
}

int core_names_pin(const struct core_call_context *context)
{
	const struct core_escape_form *form = context->form;
	const u8 *top = context->call->top;

	if (makes_pin(context, form))
		return 1;
	if (names_none(context, form))
		return 0;
	return core_field(context, top, form->client) >= CORE_PIN_BASE ||
		core_field(context, top, form->second) >= CORE_PIN_BASE;
}

u32 core_owned_by_other(const struct core_call_context *context)
{
	const struct core_escape_form *form = context->form;
	u32 slot = context->call->slot, client, second;

	if (names_none(context, form))
		return 0;
	client = core_field(context, context->call->top, form->client);
	if (core_client_of_other(context->state, slot, client) != CORE_NONE)
		return client;
	second = core_field(context, context->call->top, form->second);
	return second != client && core_client_of_other(context->state, slot, second) != CORE_NONE ? second : 0;
}

int cgpu_ownership_find(struct cgpu_core *core, u32 slot, u32 client, struct cgpu_ownership *ownership)
{
	const struct cgpu_state *state = core->state;
	u32 found, at;

	core_lock(core);
	found = core_client_of_other(state, slot, client);
	if (found != CORE_NONE) {
		ownership->slot = state->client[found].slot;
		ownership->tgid = state->client[found].tgid;
		ownership->client = client;
		ownership->handles = 0;
		for (at = state->client[found].first; at != CORE_NONE && ownership->handles < CGPU_OWNERSHIP_HANDLES;
			at = state->object[at].after) {
			if (state->object[at].handle)
				ownership->handle[ownership->handles++] = state->object[at].handle;
		}
	}
	core_unlock(core);
	return found == CORE_NONE ? -ENOENT : 0;
}

void cgpu_ownership_drop(struct cgpu_core *core, const struct cgpu_ownership *ownership)
{
	core_client_forget(core, ownership->slot, ownership->tgid, ownership->client);
}

/*
 * Calls that make an RM client. They go on as they are, since the driver notes whose process makes it. Their answer does two
 * things. It ends the records that have the same handle, whosever they are, as the driver gives a handle out again only when the
 * client that had it is gone. And the new client gets a record, so that nobody has more of them than the ledger bounds: the driver
 * takes 4.6 KiB for each, which no control group is charged for, and has 2^20 handles for all. A transport that does not see the
 * answer records a client with its first object.
 */

enum cgpu_verdict core_begin_root(struct core_call_context *context)
{
	if (!core_quota_room(context->state, context->call->slot, CORE_POOL_CLIENTS))
		return core_no_records(context);
	context->call->opaque[CORE_NOTE_OP] = CORE_OP_ROOT;
	context->call->opaque[CORE_NOTE_SERIAL] = context->state->serial;
	return CGPU_CONTINUE;
}

static u32 made_handle(const struct core_call_context *context)
{
	const struct nv_abi *abi = context->abi;
	int older = context->call->nr == NV_ESC_RM_ALLOC_OBJECT;

	return get32(context->call->top, older ? abi->NVOS05_PARAMETERS.hObjectNew : abi->NVOS21_PARAMETERS.hObjectNew);
}

/* A call that has succeeded since `serial` may have been made on the new client. */
static void drop_replaced(struct cgpu_state *state, u32 handle, u64 serial)
{
	u32 i, next;

	for (i = core_client_of_handle(state, handle); i != CORE_NONE; i = next) {
		const struct core_client *record = &state->client[i];

		next = record->next;
		if (record->handle == handle && record->confirmed && record->settled <= serial)
			core_client_drop(state, i);
	}
}

/* Returns 1 when the client cannot be recorded, and has to be freed. */
static int record_made(struct core_call_context *context, u32 handle)
{
	struct cgpu_state *state = context->state;
	struct cgpu_call *call = context->call;
	u32 client = CORE_NONE;

	/* Without a file nothing would end the record. */
	if (call->file)
		client = core_client_take(state, call->slot, handle, call->tgid);
	if (client == CORE_NONE) {
		call->opaque[CORE_NOTE_DONE] = 1;
		call->opaque[CORE_NOTE_HANDLES] = (u64)handle << 32 | handle;
		return state->settings.enforce;
	}
	state->client[client].confirmed = 1;
	state->client[client].settled = ++state->serial;
	core_client_on_file(state, client, call->file);
	return 0;
}

int core_end_root(struct core_call_context *context)
{
	u32 handle = made_handle(context);

	if (!context->done || handle >= CORE_PIN_BASE)
		return 0;
	drop_replaced(context->state, handle, context->call->opaque[CORE_NOTE_SERIAL]);
	return context->container ? record_made(context, handle) : 0;
}
