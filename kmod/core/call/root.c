// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0
/*
 * Calls that make an RM client. They go on as they are. But the driver gives a handle out again only when the client
 * that had it is gone, so its answer ends the records of that one, whosever they are.
 */
#include "call/call.h"

enum cgpu_verdict core_begin_root(struct core_call_context *context)
{
	context->call->opaque[CORE_NOTE_OP] = CORE_OP_ROOT;
	context->call->opaque[CORE_NOTE_SERIAL] = context->state->serial;
	return CGPU_CONTINUE;
}

static u32 made_handle(const struct core_call_context *context)
{
	const struct nv_abi *abi = context->abi;
	int older = context->call->nr == NV_ESC_RM_ALLOC_OBJECT;

	return core_get32(
		context->call->top, older ? abi->NVOS05_PARAMETERS.hObjectNew : abi->NVOS21_PARAMETERS.hObjectNew);
}

void core_end_root(struct core_call_context *context)
{
	struct cgpu_state *state = context->state;
	u64 serial = context->call->opaque[CORE_NOTE_SERIAL];
	u32 handle = made_handle(context);
	u32 i, next;

	if (handle >= CORE_PIN_BASE)
		return;
	for (i = core_client_of_handle(state, handle); i != CORE_NONE; i = next) {
		const struct core_client *record = &state->client[i];

		next = record->next;
		/* A call that has succeeded since this one began may have been made on the new client. */
		if (record->handle == handle && record->confirmed && record->settled <= serial)
			core_client_drop(state, i);
	}
}
