// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0
/* Controls whose parameters name a client. */
#include "call/call.h"

static int is_own(struct core_call_context *context, u32 client)
{
	return core_client_find(context->state, context->call->slot, client) != CORE_NONE;
}

/* Channels are looked for in whatever client the parameters name, with no question whose it is. */
enum cgpu_verdict core_begin_naming(struct core_call_context *context)
{
	u32 bytes = core_abi_at(context->abi, context->control->bytes);
	enum cgpu_verdict verdict;

	if (bytes == 0)
		return core_answer(context, NV_ERR_NOT_SUPPORTED);
	if (core_control_params(context, bytes, &verdict))
		return verdict;
	if (!is_own(context, core_field(context, context->call->segment[0].data, context->control->client)))
		return core_answer(context, NV_ERR_INSUFFICIENT_PERMISSIONS);
	return core_execute(context, CORE_OP_PLAIN);
}

/* As core_begin_share(), but that the driver looks whose the client is: a client without objects has no record. */
enum cgpu_verdict core_begin_share_policy(struct core_call_context *context)
{
	const struct nv_layout_NV0000_CTRL_CLIENT_SET_INHERITED_SHARE_POLICY_PARAMS *at =
		&context->abi->NV0000_CTRL_CLIENT_SET_INHERITED_SHARE_POLICY_PARAMS;
	enum cgpu_verdict verdict;
	const u8 *params;
	u32 target;

	if (core_control_params(context, at->bytes, &verdict))
		return verdict;
	params = context->call->segment[0].data;
	target = core_get32(params, at->sharePolicy_target);
	if (core_get16(params, at->sharePolicy_type) == RS_SHARE_TYPE_CLIENT && !is_own(context, target) &&
		target != core_get32(context->call->top, context->abi->NVOS54_PARAMETERS.hClient))
		return core_answer(context, NV_ERR_INSUFFICIENT_PERMISSIONS);
	return core_execute(context, CORE_OP_PLAIN);
}
