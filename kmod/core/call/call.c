// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
/* Plans one driver call, and decides what to do with it, before it runs. */
#include "call/call.h"

int cgpu_call_unwrap(const struct cgpu_core *core, const u8 *wrapper, u32 bytes, u32 *nr, u32 *inner, u64 *address)
{
	const struct nv_layout_nv_ioctl_xfer_t *at = &core->abi->nv_ioctl_xfer_t;

	if (bytes != at->bytes)
		return -EINVAL;
	*nr = get32(wrapper, at->cmd);
	*inner = get32(wrapper, at->size);
	*address = get64(wrapper, at->ptr);
	/* The driver does not open a wrapper inside a wrapper. */
	return *inner > NV_MAX_IOCTL_XFER_SIZE || *nr == NV_ESC_IOCTL_XFER_CMD ? -EINVAL : 0;
}

void cgpu_notified(struct cgpu_core *core)
{
	__atomic_fetch_add(&core->state->stat.engine.notified, 1, __ATOMIC_RELAXED);
}

/* Plan a call whose form is known. */
static void make_plan(struct core_call_context *context)
{
	const struct core_escape *escape = core_escape(context->call->nr);

	/* The rest is written before it is read: this runs twice or more for each call. */
	context->plan->may_run = 0;
	context->plan->buffers = 0;
	context->plan->names_file = 0;
	if (escape && escape->plan)
		escape->plan(context);
}

/* Add the planned buffers that the call does not have yet. Returns how many. */
static u32 add_buffers(const struct core_call_context *context)
{
	const struct core_plan *plan = context->plan;
	struct cgpu_call *call = context->call;
	u32 before = call->segments;

	if (plan->buffers > CGPU_MAX_SEGMENTS)
		return 0;
	for (; call->segments < plan->buffers; call->segments++) {
		const struct core_buffer *buffer = &plan->buffer[call->segments];
		const u8 *holder = buffer->parent ? call->segment[buffer->parent - 1].data : call->top;

		call->segment[call->segments] = (struct cgpu_segment){ .parent = buffer->parent,
			.pointer = buffer->pointer,
			.bytes = buffer->bytes,
			.address = get64(holder, buffer->pointer) };
	}
	return call->segments - before;
}

u32 cgpu_call_plan(struct cgpu_core *core, struct cgpu_call *call)
{
	struct core_plan plan;
	struct core_call_context context = {
		.core = core, .state = core->state, .abi = core->abi, .call = call, .plan = &plan
	};
	u32 needs = 0;

	if (call->device == CGPU_DEVICE_UVM || call->device == CGPU_DEVICE_OTHER || core_form_find(&context))
		return 0;
	make_plan(&context);
	if (add_buffers(&context))
		needs |= CGPU_NEEDS_BUFFERS;
	if (plan.names_file && !call->found) {
		call->descriptor = plan.descriptor;
		needs |= CGPU_NEEDS_FILE;
	}
	return plan.may_run ? needs | CGPU_NEEDS_OWN_FILE : needs;
}

static enum cgpu_verdict by_escape(struct core_call_context *context)
{
	const struct core_escape *escape = core_escape(context->call->nr);
	u32 other;

	if (escape == NULL) {
		context->unknown_escape = context->call->nr + 1;
		return core_refuse(context, EINVAL);
	}
	if (escape->begin == NULL)
		return CGPU_CONTINUE;
	if (core_form_find(context))
		return core_refuse(context, EINVAL);
	make_plan(context);
	if (!core_plan_is_met(context))
		return core_refuse(context, EINVAL);
	if (core_names_pin(context))
		return core_answer(context, NV_ERR_INVALID_CLIENT);
	other = core_owned_by_other(context);
	return other ? core_not_yours(context, other) : escape->begin(context);
}

static enum cgpu_verdict by_uvm(struct core_call_context *context)
{
	if (cgpu_uvm_is_served(context->call->nr))
		return CGPU_CONTINUE;
	context->unknown_uvm = context->call->nr + 1;
	return core_refuse(context, EINVAL);
}

/* An undo may free an object after its container is gone; what a channel has come to use meanwhile stays. */
static enum cgpu_verdict begin_undo(struct core_call_context *context)
{
	const u64 *notes = context->call->opaque;
	const struct core_object *record =
		core_object_noted(context->state, notes[CORE_NOTE_OBJECT], notes[CORE_NOTE_SERIAL]);

	if (core_form_find(context))
		return core_refuse(context, EINVAL);
	return record && record->notifies ? core_refuse(context, EBUSY) : core_execute(context, CORE_OP_FREE);
}

static enum cgpu_verdict decide(struct core_call_context *context)
{
	struct cgpu_call *call = context->call;

	core_assert_locked();
	context->container = core_container(context->state, call->slot, call->generation);
	if (call->opaque[CORE_NOTE_UNDO] == CORE_UNDO && call->nr == NV_ESC_RM_FREE)
		return begin_undo(context);
	if (context->container == NULL)
		return core_refuse(context, ENODEV);
	if (call->device == CGPU_DEVICE_UVM)
		return by_uvm(context);
	if (call->device == CGPU_DEVICE_OTHER)
		return core_refuse(context, EPERM);
	if (call->device == CGPU_DEVICE_GPU && !core_has_gpu(context->state, call->gpu, call->slot))
		return core_refuse(context, EPERM);
	return by_escape(context);
}

/* Count the outcome of a call. looks: the transport asks the driver where there is no room, and has the call judged again. */
static void count(struct core_call_context *context, enum cgpu_verdict verdict, u32 looks)
{
	struct core_engine_stat *stat = &context->state->stat.engine;
	int refused = verdict == CGPU_REFUSE || (verdict == CGPU_ANSWER && context->status != NV_OK);

	if (refused && looks && context->call->no_room)
		return;
	if (refused)
		core_refusal_count(context);
	if (context->call->opaque[CORE_NOTE_UNDO] != CORE_UNDO) {
		stat->executed += verdict == CGPU_EXECUTE;
		stat->continued += verdict == CGPU_CONTINUE;
		stat->answered += verdict == CGPU_ANSWER && !refused;
		stat->refused += (u64)refused;
	}
}

enum cgpu_verdict cgpu_call_begin(struct cgpu_core *core, struct cgpu_call *call)
{
	struct core_plan plan;
	struct core_call_context context = {
		.core = core, .state = core->state, .abi = core->abi, .call = call, .plan = &plan
	};
	u32 looks = call->no_room & CGPU_CALL_LOOKS;
	char line[CGPU_ID_BYTES + 96] = "";
	enum cgpu_verdict verdict;
	struct core_text out;
	int refused, say;

	core_text_start(&out, line, sizeof(line) - 1);
	call->error = 0;
	call->no_room = 0;
	core_lock(core);
	verdict = decide(&context);
	refused = verdict == CGPU_ANSWER || verdict == CGPU_REFUSE;
	say = refused && core_refusal_line(&context, &out);
	if (refused && !core->state->settings.enforce) {
		call->no_room = 0;
		verdict = CGPU_CONTINUE;
	}
	count(&context, verdict, looks);
	core_unlock(core);
	if (verdict == CGPU_ANSWER)
		put32(call->top, context.status_at, context.status);
	if (say)
		core->ops->log(core->ctx, 4, line);
	return verdict;
}

int cgpu_call_question(struct cgpu_core *core, const struct cgpu_call *call, u32 number, struct cgpu_call *question)
{
	struct core_call_context context = {
		.core = core, .state = core->state, .abi = core->abi, .call = (struct cgpu_call *)call
	};

	if (!core->state->settings.enforce)
		return 0;
	if (number == 0 && core_parent_question(&context, question))
		return 1;
	return core_notifier_question(&context, number, question);
}

u32 cgpu_call_answered(struct cgpu_core *core, struct cgpu_call *call, u32 number, const struct cgpu_call *question)
{
	struct core_call_context context = { .core = core, .state = core->state, .abi = core->abi, .call = call };

	if (question->nr == NV_ESC_RM_DUP_OBJECT)
		return core_parent_answered(&context, question);
	return core_notifier_answered(&context, number, question);
}
