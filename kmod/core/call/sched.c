// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
/*
 * Controls that divide GPU time, which the engine alone does. A container's own timeslices are answered as done and left as
 * they are; levels, real time, disabling of channels and runlists are refused, whatever rights its process has.
 */
#include "call/call.h"
#include "sched/sched.h"

/* A group or channel of a slice, or any object on a card that the container has whole. NULL: the handle names neither. */
static struct core_object *find_group(const struct core_call_context *context)
{
	u32 object = core_subject(context);
	struct core_object *record = object == CORE_NONE ? NULL : &context->state->object[object];

	if (record == NULL || record->tsg_list != CORE_NONE)
		return record;
	return core_is_passthrough(context->state, record->gpu, context->call->slot) ? record : NULL;
}

/*
 * Run a control on the object that find_group() has found, in the container's order. op: how it is settled in a slice.
 * A handle that names no group is not passed on to the driver: a group could be made under it before the driver looks
 * it up, and would be unjudged.
 */
static enum cgpu_verdict run_on_group(
	struct core_call_context *context, const struct core_object *record, enum core_op op)
{
	u32 status = record ? core_params_status(context) : NV_ERR_OBJECT_NOT_FOUND;

	if (status)
		return core_answer(context, status);
	context->call->opaque[CORE_NOTE_OBJECT] = (u64)(record - context->state->object);
	context->call->opaque[CORE_NOTE_SERIAL] = record->serial;
	return core_execute(context, record->tsg_list == CORE_NONE ? CORE_OP_PLAIN : op);
}

/* libcuda sets timeslices of its own accord, by the compute policy, and must not fail with it. */
enum cgpu_verdict core_begin_set_timeslice(struct core_call_context *context)
{
	struct core_object *record = find_group(context);

	if (record && record->tsg_list != CORE_NONE &&
		!cgpu_policies[context->state->gpu[record->gpu].share.sched.settings.policy].undivided)
		return core_answer(context, NV_OK);
	/* Another policy sets it anew. */
	if (record)
		record->applied = 0;
	return run_on_group(context, record, CORE_OP_PLAIN);
}

/* The record that run_on_group() has noted; NULL: it has gone. */
static struct core_object *noted(struct core_call_context *context)
{
	const u64 *notes = context->call->opaque;
	struct core_object *record =
		core_object_noted(context->state, notes[CORE_NOTE_OBJECT], notes[CORE_NOTE_SERIAL]);

	return record && record->live == CORE_LIVE && record->tsg_list != CORE_NONE ? record : NULL;
}

/* New groups and channels between two grants: as many as some dozens of programs have that start at once. */
#define BEGUN_MAX 512u

/* In which count of its TSG list a call to schedule was counted. */
enum counted { COUNTED_NOWHERE, COUNTED_AGAIN, COUNTED_BEGUN };

/*
 * Scheduling a channel may enable it in the driver, so it is disabled again afterwards. A container that schedules channels
 * again and again in the rounds of others could have a little of each: between two of its own rounds once is enough.
 */
enum cgpu_verdict core_begin_schedule(struct core_call_context *context)
{
	enum cgpu_verdict verdict = run_on_group(context, find_group(context), CORE_OP_SCHEDULE);
	struct core_object *record = verdict == CGPU_EXECUTE ? noted(context) : NULL;
	struct core_share *share;
	struct core_tsg_list *tsg_list;

	if (record == NULL)
		return verdict;
	share = &context->state->gpu[record->gpu].share;
	tsg_list = &share->tsg_list[record->tsg_list];
	/* To be taken off is free. */
	if (share->open >> record->tsg_list & 1 ||
		!context->call->segment[0].data[context->abi->NVA06F_CTRL_GPFIFO_SCHEDULE_PARAMS.bEnable])
		return verdict;
	if (record->scheduled ? tsg_list->again : tsg_list->begun >= BEGUN_MAX) {
		core_sched_runlist_changed(context->state, record->gpu);
		return core_answer(context, NV_ERR_BUSY_RETRY);
	}
	tsg_list->again |= record->scheduled;
	tsg_list->begun += !record->scheduled;
	context->call->opaque[CORE_NOTE_UNIT] = record->scheduled ? COUNTED_AGAIN : COUNTED_BEGUN;
	return verdict;
}

/* The driver was never asked: the call comes again, and counts then. */
static void uncount(struct core_call_context *context, const struct core_object *record)
{
	struct core_tsg_list *tsg_list = &context->state->gpu[record->gpu].share.tsg_list[record->tsg_list];

	if (context->call->opaque[CORE_NOTE_UNIT] == COUNTED_AGAIN)
		tsg_list->again = 0;
	if (context->call->opaque[CORE_NOTE_UNIT] == COUNTED_BEGUN && tsg_list->begun)
		tsg_list->begun--;
}

int core_end_schedule(struct core_call_context *context)
{
	struct core_object *record = noted(context);

	if (record != NULL && context->result < 0)
		uncount(context, record);
	if (record == NULL || !context->done)
		return 0;
	record->scheduled = 1;
	core_sched_runlist_changed(context->state, record->gpu);
	if (context->state->gpu[record->gpu].share.open >> record->tsg_list & 1)
		return 0;
	core_tsg_unknown(context->state, (u32)(record - context->state->object));
	/* The group or channel may run until it is stopped; that time is its container's. */
	context->state->gpu[record->gpu].share.tsg_list[record->tsg_list].closing = 1;
	context->call->round = record->gpu + 1;
	return 0;
}

enum cgpu_verdict core_begin_bind(struct core_call_context *context)
{
	return run_on_group(context, find_group(context), CORE_OP_BIND);
}

/* A group runs where it, or a channel of it, was bound last. */
int core_end_bind(struct core_call_context *context)
{
	const struct nv_layout_NVA06F_CTRL_BIND_PARAMS *at = &context->abi->NVA06F_CTRL_BIND_PARAMS;
	struct core_object *record = noted(context);

	if (record && record->kind == CORE_OBJECT_CHANNEL && record->parent != CORE_NONE)
		record = &context->state->object[record->parent];
	/* A group on runlist 0, as each of a card before Ampere, stays there. */
	if (!context->done || record == NULL || record->tsg_list == CORE_NONE || record->runlist == 0)
		return 0;
	record->runlist = core_runlist_of(get32(context->call->segment[0].data, at->engineType));
	core_sched_channels(context->state, record->gpu, record->tsg_list);
	context->call->round = record->gpu + 1;
	return 0;
}

enum cgpu_verdict core_begin_get_policy(struct core_call_context *context)
{
	u32 status = core_params_status(context);

	return status ? core_answer(context, status) : core_execute(context, CORE_OP_POLICY);
}

/* The node's own timeslices are not the container's: it sees the default. */
int core_end_policy(struct core_call_context *context)
{
	const struct nv_layout_NV2080_CTRL_GPU_GET_COMPUTE_POLICY_CONFIG_PARAMS *at =
		&context->abi->NV2080_CTRL_GPU_GET_COMPUTE_POLICY_CONFIG_PARAMS;
	const struct nv_layout_NV2080_CTRL_GPU_COMPUTE_POLICY_CONFIG *entry =
		&context->abi->NV2080_CTRL_GPU_COMPUTE_POLICY_CONFIG;
	u8 *list = context->call->segment[0].data + at->configList;
	u32 i;

	if (!context->done || !context->state->settings.enforce)
		return 0;
	for (i = 0; i < (u32)(at->bytes - at->configList) / entry->bytes; i++) {
		if (get32(list, i * entry->bytes + entry->type) == NV2080_CTRL_GPU_COMPUTE_POLICY_TIMESLICE)
			put32(list, i * entry->bytes + entry->data_timeslice,
				NV2080_CTRL_CMD_GPU_COMPUTE_TIMESLICE_DEFAULT);
	}
	return 0;
}
