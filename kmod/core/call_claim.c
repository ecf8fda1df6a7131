// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0
/*
 * Whose an RM client is. The driver goes by the file that a client was made on, and a file can be handed to
 * another container: without an owner, each of the two could hold what the other one is charged for.
 */
#include "call.h"

/* Where a call names clients, and where its status sits. */
struct named {
	u32 bytes; /* of the form that is known; any other is not looked into. 0: none */
	u32 client, second; /* the same twice where there is one */
	u32 status;
};

static struct named one_client(u32 bytes, u32 client, u32 status)
{
	return (struct named){ bytes, client, client, status };
}

static struct named named_by_alloc(const struct core_frame *frame)
{
	const struct nv_layout_NVOS64_PARAMETERS *wide = &frame->abi->NVOS64_PARAMETERS;
	const struct nv_layout_NVOS21_PARAMETERS *narrow = &frame->abi->NVOS21_PARAMETERS;
	int is_wide = frame->call->bytes == wide->bytes;
	u32 class;

	if (!is_wide && frame->call->bytes != narrow->bytes)
		return one_client(0, 0, 0);
	class = core_get32(frame->call->top, is_wide ? wide->hClass : narrow->hClass);
	/* Makes a client, and names none. */
	if (core_is_root(class))
		return one_client(0, 0, 0);
	return is_wide ? one_client(wide->bytes, wide->hRoot, wide->status) :
			 one_client(narrow->bytes, narrow->hRoot, narrow->status);
}

static struct named named_by(const struct core_frame *frame)
{
	const struct nv_layout_nv_ioctl_nvos02_parameters_with_fd *memory =
		&frame->abi->nv_ioctl_nvos02_parameters_with_fd;
	const struct nv_layout_NVOS32_PARAMETERS *heap = &frame->abi->NVOS32_PARAMETERS;
	const struct nv_layout_NVOS54_PARAMETERS *control = &frame->abi->NVOS54_PARAMETERS;
	const struct nv_layout_NVOS55_PARAMETERS *dup = &frame->abi->NVOS55_PARAMETERS;
	const struct nv_layout_NVOS57_PARAMETERS *share = &frame->abi->NVOS57_PARAMETERS;
	const struct nv_layout_NVOS00_PARAMETERS *free = &frame->abi->NVOS00_PARAMETERS;
	const struct nv_layout_NVOS05_PARAMETERS *object = &frame->abi->NVOS05_PARAMETERS;

	switch (frame->call->nr) {
	case NV_ESC_RM_ALLOC:
		return named_by_alloc(frame);
	case NV_ESC_RM_ALLOC_MEMORY:
		return one_client(memory->bytes, memory->params_hRoot, memory->params_status);
	case NV_ESC_RM_ALLOC_OBJECT:
		return one_client(object->bytes, object->hRoot, object->status);
	case NV_ESC_RM_VID_HEAP_CONTROL:
		return one_client(heap->bytes, heap->hRoot, heap->status);
	case NV_ESC_RM_CONTROL:
		return one_client(control->bytes, control->hClient, control->status);
	case NV_ESC_RM_DUP_OBJECT:
		return (struct named){ dup->bytes, dup->hClient, dup->hClientSrc, dup->status };
	case NV_ESC_RM_SHARE:
		return one_client(share->bytes, share->hClient, share->status);
	case NV_ESC_RM_FREE:
		return one_client(free->bytes, free->hRoot, free->status);
	default:
		return one_client(0, 0, 0);
	}
}

/* A call that makes a client may ask for its handle, in either of two fields. */
static int makes_holder(struct core_frame *frame)
{
	const struct nv_layout_NVOS64_PARAMETERS *wide = &frame->abi->NVOS64_PARAMETERS;
	const struct nv_layout_NVOS21_PARAMETERS *narrow = &frame->abi->NVOS21_PARAMETERS;
	const struct nv_layout_NVOS05_PARAMETERS *old = &frame->abi->NVOS05_PARAMETERS;
	const struct cgpu_call *call = frame->call;
	u32 root, made, class;

	if (call->nr == NV_ESC_RM_ALLOC && (call->bytes == wide->bytes || call->bytes == narrow->bytes)) {
		/* Both forms begin alike. */
		root = core_get32(call->top, narrow->hRoot);
		made = core_get32(call->top, narrow->hObjectNew);
		class = core_get32(call->top, narrow->hClass);
		frame->status_at = call->bytes == wide->bytes ? wide->status : narrow->status;
	} else if (call->nr == NV_ESC_RM_ALLOC_OBJECT && call->bytes == old->bytes) {
		root = core_get32(call->top, old->hRoot);
		made = core_get32(call->top, old->hObjectNew);
		class = core_get32(call->top, old->hClass);
		frame->status_at = old->status;
	} else {
		return 0;
	}
	return core_is_root(class) && (root >= CORE_HOLDER_BASE || made >= CORE_HOLDER_BASE);
}

int core_names_holder(struct core_frame *frame)
{
	const struct cgpu_call *call = frame->call;
	struct named named = named_by(frame);

	if (makes_holder(frame))
		return 1;
	if (named.bytes == 0 || named.bytes != call->bytes)
		return 0;
	frame->status_at = named.status;
	return core_get32(call->top, named.client) >= CORE_HOLDER_BASE ||
		core_get32(call->top, named.second) >= CORE_HOLDER_BASE;
}

u32 core_claimed(struct core_frame *frame)
{
	const struct cgpu_call *call = frame->call;
	struct named named = named_by(frame);
	u32 client, second;

	if (named.bytes == 0 || named.bytes != call->bytes)
		return 0;
	frame->status_at = named.status;
	client = core_get32(call->top, named.client);
	second = core_get32(call->top, named.second);
	if (core_client_claimed(frame->state, call->slot, client) != CORE_NONE)
		return client;
	return core_client_claimed(frame->state, call->slot, second) != CORE_NONE ? second : 0;
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
