// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0
/* What is judged of a control by its number, and the controls whose parameters name a client. */
#include "call/call.h"

static const struct nv_control *find_control(const struct nv_control *table, u32 count, u32 number)
{
	u32 low = 0, high = count;

	while (low < high) {
		u32 middle = low + (high - low) / 2;

		if (table[middle].number == number)
			return &table[middle];
		if (table[middle].number < number)
			low = middle + 1;
		else
			high = middle;
	}
	return NULL;
}

u32 core_control_verdict(u32 command)
{
	const struct nv_control *known = find_control(nv_controls, nv_controls_count, command);

	if (known == NULL)
		known = find_control(
			nv_control_families, nv_control_families_count, command & ~(NV_CONTROL_FAMILY - 1));
	return known ? known->verdict : NV_CONTROL_UNKNOWN;
}

int core_uvm_is_known(u32 nr)
{
	const struct nv_control *known = find_control(nv_judged_uvm, nv_judged_uvm_count, nr);

	return known && known->verdict != NV_CONTROL_REFUSE;
}

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
