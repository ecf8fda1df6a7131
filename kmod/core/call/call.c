// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0
/* Decides what to do with one driver call, before it runs. */
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

static enum cgpu_verdict decide(struct core_call_context *context)
{
	struct cgpu_call *call = context->call;

	core_assert_locked();
	context->container = core_container(context->state, call->slot, call->generation);
	/* An undo may free an object after its container is gone. */
	if (call->opaque[CORE_NOTE_UNDO] == CORE_UNDO && call->nr == NV_ESC_RM_FREE)
		return core_form_find(context) ? core_refuse(context, EINVAL) : core_execute(context, CORE_OP_FREE);
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

/* Count the outcome of a call that is judged to its end. hints: enum cgpu_call_hint, from the transport. */
static void count(struct core_call_context *context, enum cgpu_verdict verdict, u32 hints)
{
	struct core_engine_stat *stat = &context->state->stat.engine;
	int refused = verdict == CGPU_REFUSE || (verdict == CGPU_ANSWER && context->status != NV_OK);
	int again = (hints & CGPU_CALL_AGAIN) || context->call->opaque[CORE_NOTE_UNDO] == CORE_UNDO;

	/* The transport asks the driver first, and has the call judged again. */
	if (refused && (hints & CGPU_CALL_LOOKS) && context->call->no_room)
		return;
	if (refused)
		core_refusal_count(context);
	if (!again) {
		stat->executed += verdict == CGPU_EXECUTE;
		stat->continued += verdict == CGPU_CONTINUE;
		stat->answered += verdict == CGPU_ANSWER && !refused;
		stat->refused += (u64)refused;
	}
}

static int asks(enum cgpu_verdict verdict)
{
	return verdict == CGPU_COPY_IN || verdict == CGPU_FIND_FILE;
}

enum cgpu_verdict cgpu_call_begin(struct cgpu_core *core, struct cgpu_call *call)
{
	struct core_call_context context = { .core = core, .state = core->state, .abi = core->abi, .call = call };
	u32 hints = call->no_room & (CGPU_CALL_LOOKS | CGPU_CALL_AGAIN);
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
	if (asks(verdict))
		call->no_room = hints;
	else
		count(&context, verdict, hints);
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
