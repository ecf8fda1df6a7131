// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
/* The escapes of the driver that a container may use: one row for each. An escape without a row is refused. */
#include "call/call.h"

#define ESCAPES 256u /* numbers of an ioctl have eight bits */

/* These calls have no pointers that the driver follows. */
static void plan_to_run(struct core_call_context *context)
{
	context->plan->may_run = 1;
}

static enum cgpu_verdict begin_free(struct core_call_context *context)
{
	const struct nv_layout_NVOS00_PARAMETERS *at = &context->abi->NVOS00_PARAMETERS;

	if (core_frees_notifier(
		    context, get32(context->call->top, at->hRoot), get32(context->call->top, at->hObjectOld)))
		return core_answer(context, NV_ERR_IN_USE);
	return core_execute(context, CORE_OP_FREE);
}

/*
 * A row without a judge passes: CUDA and nvidia-smi use these escapes, and none of them changes a charge. Escapes
 * without a row: those that CUDA does not use and that reach around the driver's own checks or around the charges,
 * those that no driver serves, and those that were never examined.
 */
#define PASSES(number) [number] = { .known = 1 }
#define FORM(layout, client_field, status_field)                                  \
	.bytes = CORE_ABI(layout.bytes), .client = CORE_ABI(layout.client_field), \
	.second = CORE_ABI(layout.client_field), .status = CORE_ABI(layout.status_field)

/* One struct for all drivers, or one for older programs beside it. */
static const struct core_escape_form alloc_forms[] = {
	{ FORM(NVOS64_PARAMETERS, hRoot, status), .class = CORE_ABI(NVOS64_PARAMETERS.hClass),
		.made = CORE_ABI(NVOS64_PARAMETERS.hObjectNew), .root_names_none = 1 },
	{ FORM(NVOS21_PARAMETERS, hRoot, status), .class = CORE_ABI(NVOS21_PARAMETERS.hClass),
		.made = CORE_ABI(NVOS21_PARAMETERS.hObjectNew), .root_names_none = 1 },
};
static const struct core_escape_form alloc_memory_form = { FORM(
	nv_ioctl_nvos02_parameters_with_fd, params_hRoot, params_status) };
static const struct core_escape_form alloc_object_form = { FORM(NVOS05_PARAMETERS, hRoot, status),
	.class = CORE_ABI(NVOS05_PARAMETERS.hClass), .made = CORE_ABI(NVOS05_PARAMETERS.hObjectNew) };
static const struct core_escape_form heap_form = { FORM(NVOS32_PARAMETERS, hRoot, status) };
static const struct core_escape_form control_form = { FORM(NVOS54_PARAMETERS, hClient, status) };
static const struct core_escape_form dup_form = {
	.bytes = CORE_ABI(NVOS55_PARAMETERS.bytes),
	.client = CORE_ABI(NVOS55_PARAMETERS.hClient),
	.second = CORE_ABI(NVOS55_PARAMETERS.hClientSrc),
	.status = CORE_ABI(NVOS55_PARAMETERS.status),
};
static const struct core_escape_form share_form = { FORM(NVOS57_PARAMETERS, hClient, status) };
static const struct core_escape_form map_form = { FORM(NVOS46_PARAMETERS, hClient, status) };
static const struct core_escape_form unmap_form = { FORM(NVOS47_PARAMETERS, hClient, status) };
static const struct core_escape_form free_form = { FORM(NVOS00_PARAMETERS, hRoot, status) };

static const struct core_escape escapes[ESCAPES] = {
	[NV_ESC_RM_ALLOC] = { 1, core_begin_alloc, core_plan_alloc, 2, alloc_forms,
		CORE_ABI(NVOS21_PARAMETERS.pAllocParms) },
	[NV_ESC_RM_ALLOC_MEMORY] = { 1, core_begin_alloc_memory, NULL, 1, &alloc_memory_form, 0 },
	[NV_ESC_RM_ALLOC_OBJECT] = { 1, core_begin_alloc_object, NULL, 1, &alloc_object_form, 0 },
	[NV_ESC_RM_VID_HEAP_CONTROL] = { 1, core_begin_heap, plan_to_run, 1, &heap_form, 0 },
	[NV_ESC_RM_CONTROL] = { 1, core_begin_control, core_plan_control, 1, &control_form,
		CORE_ABI(NVOS54_PARAMETERS.params) },
	[NV_ESC_RM_DUP_OBJECT] = { 1, core_begin_dup, plan_to_run, 1, &dup_form, 0 },
	[NV_ESC_RM_SHARE] = { 1, core_begin_share, plan_to_run, 1, &share_form, 0 },
	[NV_ESC_RM_MAP_MEMORY_DMA] = { 1, core_begin_map, plan_to_run, 1, &map_form, 0 },
	[NV_ESC_RM_UNMAP_MEMORY_DMA] = { 1, core_begin_unmap, plan_to_run, 1, &unmap_form, 0 },
	[NV_ESC_RM_FREE] = { 1, begin_free, plan_to_run, 1, &free_form, 0 },
	PASSES(NV_ESC_RM_IDLE_CHANNELS),
	PASSES(NV_ESC_RM_MAP_MEMORY),
	PASSES(NV_ESC_RM_UNMAP_MEMORY),
	PASSES(NV_ESC_RM_GET_EVENT_DATA),
	PASSES(NV_ESC_RM_ALLOC_CONTEXT_DMA2),
	PASSES(NV_ESC_RM_BIND_CONTEXT_DMA),
	PASSES(NV_ESC_RM_UPDATE_DEVICE_MAPPING_INFO),
	PASSES(NV_ESC_CARD_INFO),
	PASSES(NV_ESC_REGISTER_FD),
	PASSES(NV_ESC_ALLOC_OS_EVENT),
	PASSES(NV_ESC_FREE_OS_EVENT),
	PASSES(NV_ESC_STATUS_CODE),
	PASSES(NV_ESC_CHECK_VERSION_STR),
	PASSES(NV_ESC_ATTACH_GPUS_TO_FD),
	PASSES(NV_ESC_QUERY_DEVICE_INTR),
	PASSES(NV_ESC_SYS_PARAMS),
	PASSES(NV_ESC_NUMA_INFO),
	PASSES(NV_ESC_WAIT_OPEN_COMPLETE),
};

const struct core_escape *core_escape(u32 nr)
{
	return nr < ESCAPES && escapes[nr].known ? &escapes[nr] : NULL;
}

int core_form_find(struct core_call_context *context)
{
	const struct core_escape *escape = core_escape(context->call->nr);
	u32 i;

	for (i = 0; escape && i < escape->forms; i++) {
		u32 bytes = core_abi_at(context->abi, escape->form[i].bytes);

		if (bytes == 0 || context->call->bytes != bytes)
			continue;
		context->form = &escape->form[i];
		context->status_at = core_abi_at(context->abi, escape->form[i].status);
		return 0;
	}
	return -EINVAL;
}
