// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
/*
 * Memory that a channel names by a handle, and that the driver counts no reference to.
 *
 * The error notifiers, hObjectError and hObjectEccError, or those of the group: on a card with a GSP, drivers 515 to 570 take each
 * for memory that they have found, and do not look whether they have (src/nvidia/src/kernel/gpu/fifo/kernel_channel.c,
 * kchannelConstruct_IMPL; 575 refuses the channel): a handle of anything else has them read from address 0, with the locks that
 * all calls take. And all of them keep a pointer to the memory's descriptor, by which the control that tells a channel's token
 * writes there (kchannelUpdateNotifierMem_IMPL), after the memory's end into whatever is there. So a notifier is memory with a
 * record, directly below the channel's device, as it then goes with that alone, or by its handle; and the driver has said that
 * it has it. As with the parent of a duplicate both is done in the container's order, in which its frees run. A context DMA is
 * refused: it ends with memory that no record tells of, and CUDA has none. So are reservations of addresses: the driver takes
 * one if the kernel has it mapped, which it cannot be asked.
 *
 * USERD, which the card reads and writes by its address: the driver takes that of any memory, of another card's or of a reservation
 * as well, for one of the channel's card, and of the card's memory it frees the pages, though a descriptor of its own names them
 * (kernel_channel_gv100.c, kchannelCreateUserdMemDesc; video_mem.c, vidmemPmaFree). So the rule for notifiers is also its rule.
 *
 * Such memory is not freed before the channel.
 */
#include "call/call.h"

#define NOTIFIERS 2u
#define MEMORIES (NOTIFIERS + 1) /* with USERD */

/* The parameters of a channel that is about to be made. NULL: the call makes none, or one that the driver refuses. */
static const u8 *channel_params(const struct core_call_context *context)
{
	const struct nv_class *class;

	if (context->call->nr != NV_ESC_RM_ALLOC || context->call->opaque[CORE_NOTE_OP] != CORE_OP_ALLOC)
		return NULL;
	class = core_class(get32(context->call->top, context->abi->NVOS21_PARAMETERS.hClass));
	return class && class->by == NV_CLASS_BY_CHANNEL ? core_alloc_judged_params(context) : NULL;
}

/* The object below which the channel is made. CORE_NONE. */
static u32 parent_of_channel(const struct core_call_context *context)
{
	struct core_handles handles;

	core_alloc_handles(context, &handles);
	return core_own_object(context, handles.client, handles.parent);
}

/* The notifiers that the driver will look for. Returns how many. */
static u32 notifiers_find(const struct core_call_context *context, const u8 *params, u32 handles[NOTIFIERS])
{
	const struct nv_layout_NV_CHANNELGPFIFO_ALLOCATION_PARAMETERS *at =
		&context->abi->NV_CHANNELGPFIFO_ALLOCATION_PARAMETERS;
	const u32 own[NOTIFIERS] = { get32(params, at->hObjectError), get32(params, at->hObjectEccError) };
	u32 parent = parent_of_channel(context), count = 0, i;
	const struct core_object *group = parent == CORE_NONE ? NULL : &context->state->object[parent];

	if (group && group->kind != CORE_OBJECT_CHANNEL_GROUP)
		group = NULL;
	for (i = 0; i < NOTIFIERS; i++) {
		u32 handle = own[i] || !group ? own[i] : group->notifier[i];

		if (handle)
			handles[count++] = handle;
	}
	return count;
}

static u32 userd_of(const struct core_call_context *context, const u8 *params)
{
	u32 at = context->abi->NV_CHANNELGPFIFO_ALLOCATION_PARAMETERS.hUserdMemory;

	return at == NV_ABI_ABSENT ? 0 : get32(params, at);
}

/* All the memory that the driver will look for. Returns how many. */
static u32 memories_find(const struct core_call_context *context, const u8 *params, u32 handles[MEMORIES])
{
	u32 count = notifiers_find(context, params, handles), userd = userd_of(context, params);

	if (userd)
		handles[count++] = userd;
	return count;
}

static void ask(const struct nv_abi *abi, u32 client, u32 handle, struct cgpu_call *question)
{
	const struct nv_layout_NV0000_CTRL_CLIENT_GET_HANDLE_INFO_PARAMS *of =
		&abi->NV0000_CTRL_CLIENT_GET_HANDLE_INFO_PARAMS;
	const struct nv_layout_NVOS54_PARAMETERS *at = &abi->NVOS54_PARAMETERS;
	u8 *top = question->top, *params = top + at->bytes;

	memset(question, 0, sizeof(*question));
	question->nr = NV_ESC_RM_CONTROL;
	question->bytes = at->bytes;
	question->top = top;
	memset(top, 0, at->bytes + of->bytes);
	put32(top, at->hClient, client);
	put32(top, at->hObject, client);
	put32(top, at->cmd, NV0000_CTRL_CMD_CLIENT_GET_HANDLE_INFO);
	put64(top, at->params, (u64)(unsigned long)params);
	put32(top, at->paramsSize, of->bytes);
	put32(params, of->hObject, handle);
	put32(params, of->index, NV0000_CTRL_CMD_CLIENT_GET_HANDLE_INFO_INDEX_CLASSID);
}

int core_notifier_question(struct core_call_context *context, u32 number, struct cgpu_call *question)
{
	const u8 *params = channel_params(context);
	u32 handles[MEMORIES], count;

	if (params == NULL)
		return 0;
	core_lock(context->core);
	count = memories_find(context, params, handles);
	core_unlock(context->core);
	if (number >= count)
		return 0;
	ask(context->abi, get32(context->call->top, context->abi->NVOS21_PARAMETERS.hRoot), handles[number], question);
	return 1;
}

static int is_memory_class(u64 class)
{
	return class == NV01_MEMORY_LOCAL_USER || class == NV01_MEMORY_SYSTEM;
}

/* Whether a handle is memory directly below the device of the channel. */
static int is_beside_channel(struct core_call_context *context, u32 handle)
{
	const struct cgpu_state *state = context->state;
	u32 client = get32(context->call->top, context->abi->NVOS21_PARAMETERS.hRoot);
	const struct core_object *record;
	u32 channel_parent, object;
	int is;

	core_lock(context->core);
	channel_parent = parent_of_channel(context);
	object = core_own_object(context, client, handle);
	record = object == CORE_NONE ? NULL : &state->object[object];
	is = record && core_kind_is_mapped(record->kind) && channel_parent != CORE_NONE &&
		record->parent != CORE_NONE && record->parent == core_device_of(state, channel_parent);
	core_unlock(context->core);
	return is;
}

u32 core_notifier_answered(struct core_call_context *context, u32 number, const struct cgpu_call *question)
{
	const struct nv_layout_NV0000_CTRL_CLIENT_GET_HANDLE_INFO_PARAMS *of =
		&context->abi->NV0000_CTRL_CLIENT_GET_HANDLE_INFO_PARAMS;
	const struct nv_layout_NVOS54_PARAMETERS *at = &context->abi->NVOS54_PARAMETERS;
	const u8 *params = question->top + at->bytes;

	(void)number;
	if (get32(question->top, at->status) == NV_OK && is_memory_class(get64(params, of->data)) &&
		is_beside_channel(context, get32(params, of->hObject)))
		return 1;
	if (core_form_find(context) == 0)
		put32(context->call->top, context->status_at, NV_ERR_INVALID_OBJECT_HANDLE);
	return 0;
}

void core_notifiers_note(struct core_call_context *context)
{
	u32 channel = (u32)context->call->opaque[CORE_NOTE_OBJECT];
	const u8 *params;

	if (context->state->object[channel].kind != CORE_OBJECT_CHANNEL)
		return;
	params = core_alloc_judged_params(context);
	if (params == NULL)
		return;
	notifiers_find(context, params, context->state->object[channel].notifier);
	context->state->object[channel].userd = userd_of(context, params);
	core_notifiers_link(context->state, channel);
}
