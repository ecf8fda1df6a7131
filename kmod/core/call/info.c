// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
/* Answers that a container may see about a card: sizes of memory (its limit, its use, and the difference), and its
 * own processes. */
#include "call/call.h"

struct view {
	u64 limit, left; /* bytes */
};

static struct view view_of(struct core_call_context *context)
{
	struct view view = { 0, 0 };
	u32 gpu = (u32)context->call->opaque[CORE_NOTE_GPU];
	struct core_instance *instance;

	if (context->container == NULL)
		return view;
	instance = core_instance_of(context->state, gpu, context->call->slot, NULL);
	if (instance) {
		core_pages_look_at(context->core, gpu, instance);
		view.limit = instance->slice.memsize;
		view.left = core_instance_left(instance);
	}
	return view;
}

static u32 kib(u64 bytes)
{
	return bytes >> 10 > 0xffffffffu ? 0xffffffffu : (u32)(bytes >> 10);
}

static u32 lower(u32 one, u32 other)
{
	return one < other ? one : other;
}

/* src/common/sdk/nvidia/inc/ctrl/ctrl2080/ctrl2080fb.h:302 has the indexes; sizes are KiB. */
static u32 info_value(const struct view *view, u32 index, u32 real)
{
	switch (index) {
	case NV2080_CTRL_FB_INFO_INDEX_RAM_SIZE:
	case NV2080_CTRL_FB_INFO_INDEX_TOTAL_RAM_SIZE:
	case NV2080_CTRL_FB_INFO_INDEX_HEAP_SIZE:
	case NV2080_CTRL_FB_INFO_INDEX_USABLE_RAM_SIZE:
		return kib(view->limit);
	case NV2080_CTRL_FB_INFO_INDEX_HEAP_FREE:
		return kib(view->left);
	case NV2080_CTRL_FB_INFO_INDEX_MAPPABLE_HEAP_SIZE:
	case NV2080_CTRL_FB_INFO_INDEX_PROTECTED_MEM_SIZE_TOTAL_KB:
		return lower(real, kib(view->limit));
	case NV2080_CTRL_FB_INFO_INDEX_LARGEST_FREE_REGION_SIZE_KB:
	case NV2080_CTRL_FB_INFO_INDEX_PROTECTED_MEM_SIZE_FREE_KB:
		return lower(real, kib(view->left));
	case NV2080_CTRL_FB_INFO_INDEX_FB_TAX_SIZE_KB:
	case NV2080_CTRL_FB_INFO_INDEX_HEAP_OFFLINE_SIZE:
	/* Memory that could be reclaimed from others is no room of the container's. */
	case NV2080_CTRL_FB_INFO_INDEX_HEAP_RECLAIMABLE:
		return 0;
	default:
		return real;
	}
}

static void rewrite_list(struct core_call_context *context, u8 *list, u32 count)
{
	const struct nv_layout_NV2080_CTRL_FB_INFO *at = &context->abi->NV2080_CTRL_FB_INFO;
	struct view view = view_of(context);
	u32 i;

	for (i = 0; i < count; i++) {
		u8 *entry = list + i * at->bytes;
		u32 index = get32(entry, at->index);

		put32(entry, at->data, info_value(&view, index, get32(entry, at->data)));
	}
}

void core_rewrite_fb_info(struct core_call_context *context)
{
	const struct cgpu_segment *list = &context->call->segment[1];

	rewrite_list(context, list->data, list->bytes / context->abi->NV2080_CTRL_FB_INFO.bytes);
}

/* The whole list, whatever the count says: no entry of it may tell the card's size. */
void core_rewrite_fb_info_v2(struct core_call_context *context)
{
	const struct nv_layout_NV2080_CTRL_FB_GET_INFO_V2_PARAMS *at = &context->abi->NV2080_CTRL_FB_GET_INFO_V2_PARAMS;

	rewrite_list(context, context->call->segment[0].data + at->fbInfoList,
		(u32)(at->bytes - at->fbInfoList) / context->abi->NV2080_CTRL_FB_INFO.bytes);
}

void core_rewrite_regions(struct core_call_context *context)
{
	u8 *params = context->call->segment[0].data;
	const struct nv_layout_NV2080_CTRL_CMD_FB_GET_FB_REGION_INFO_PARAMS *at =
		&context->abi->NV2080_CTRL_CMD_FB_GET_FB_REGION_INFO_PARAMS;
	const struct nv_layout_NV2080_CTRL_CMD_FB_GET_FB_REGION_FB_REGION_INFO *one =
		&context->abi->NV2080_CTRL_CMD_FB_GET_FB_REGION_FB_REGION_INFO;
	u32 most = (u32)(at->bytes - at->fbRegion) / one->bytes;
	u32 count = lower(get32(params, at->numFBRegions), most);
	u64 left = view_of(context).limit;
	u32 kept = 0, i;

	for (i = 0; i < most; i++) {
		u8 *region = params + at->fbRegion + i * one->bytes;
		u64 base = get64(region, one->base);
		u64 last = get64(region, one->limit);

		/* Whatever lies beyond the count is not for the container either. */
		if (i >= count || left == 0 || last < base) {
			memset(region, 0, one->bytes);
			continue;
		}
		kept = i + 1;
		if (last - base >= left)
			put64(region, one->limit, base + left - 1);
		last = get64(region, one->limit);
		if (get64(region, one->reserved) > last - base)
			put64(region, one->reserved, last - base + 1);
		left -= last - base + 1;
	}
	put32(params, at->numFBRegions, kept);
}

void core_rewrite_heap_info(struct core_call_context *context)
{
	const struct nv_layout_NVOS32_PARAMETERS *at = &context->abi->NVOS32_PARAMETERS;
	struct view view = view_of(context);
	u8 *top = context->call->top;

	put64(top, at->total, view.limit);
	put64(top, at->free, view.left);
	if (get64(top, at->data_Info_size) > view.left)
		put64(top, at->data_Info_size, view.left);
}

/*
 * Controls that tell of processes: which use a card, and how much memory each has. A container is told of its own only.
 *
 * Drivers list numbers of the host's, and from 535.113.01 on those of the caller's pid namespace, without the processes
 * that it cannot see (src/nvidia/src/kernel/gpu/gpu_rmapi.c). They tell a process's memory by the host's number until
 * 560, and by the caller's from 565.57.01 on. A transport that runs calls in another namespace cannot ask a driver that
 * knows the caller's: there the call goes on.
 *
 * A number on record can be another process's by now, so the transport is asked, too: without the lock, as it may have to look.
 */

/* Process that the driver means; 0: none. */
static s32 process_of(const struct core_call_context *context, u32 number, u32 of_caller)
{
	if (number == 0 || number > 0x7fffffff)
		return 0;
	if (!of_caller)
		return (s32)number;
	return context->core->ops->process_of(context->core->ctx, (s32)number);
}

static int is_own(const struct core_call_context *context, u32 number, u32 of_caller)
{
	const struct cgpu_state *state = context->state;
	s32 tgid = process_of(context, number, of_caller);
	u32 at = core_client_of_process(state, tgid);

	for (; tgid != 0 && at != CORE_NONE; at = state->client[at].tgid_next) {
		if (state->client[at].tgid == tgid && state->client[at].slot == context->call->slot)
			return 1;
	}
	return 0;
}

/* Whether the process is in the container now. */
static int is_inside(const struct core_call_context *context, u32 number, u32 of_caller)
{
	const struct cgpu_core *core = context->core;
	s32 tgid = process_of(context, number, of_caller);

	return tgid != 0 && core->ops->process_in(core->ctx, tgid, context->call->slot, context->call->generation);
}

typedef int keeps_fn(const struct core_call_context *context, u32 number, u32 of_caller);

static void filter_pids(struct core_call_context *context, keeps_fn *keeps)
{
	const struct nv_layout_NV2080_CTRL_GPU_GET_PIDS_PARAMS *at = &context->abi->NV2080_CTRL_GPU_GET_PIDS_PARAMS;
	u8 *params = context->call->segment[0].data;
	u32 most = (u32)(at->bytes - at->pidTbl) / 4, count = get32(params, at->pidTblCount), i, own = 0, pid;

	for (i = 0; i < count && i < most; i++) {
		pid = get32(params, at->pidTbl + 4 * i);
		if (keeps(context, pid, context->abi->pids_of_caller))
			put32(params, at->pidTbl + 4 * own++, pid);
	}
	memset(params + at->pidTbl + 4 * own, 0, 4 * (most - own));
	put32(params, at->pidTblCount, own);
}

/* Processes outside of the container show no memory, as those that do not use the card. */
static void filter_pid_info(struct core_call_context *context, keeps_fn *keeps)
{
	const struct nv_layout_NV2080_CTRL_GPU_GET_PID_INFO_PARAMS *list =
		&context->abi->NV2080_CTRL_GPU_GET_PID_INFO_PARAMS;
	const struct nv_layout_NV2080_CTRL_GPU_PID_INFO *at = &context->abi->NV2080_CTRL_GPU_PID_INFO;
	u8 *entry = context->call->segment[0].data + list->pidInfoList;
	u32 most = (u32)(list->bytes - list->pidInfoList) / at->bytes, i;

	for (i = 0; i < most; i++, entry += at->bytes) {
		if (!keeps(context, get32(entry, at->pid), context->abi->pid_info_of_caller))
			memset(entry + at->data, 0, at->smcSubscription_computeInstanceId - at->data);
	}
}

void core_rewrite_pids(struct core_call_context *context)
{
	filter_pids(context, is_own);
}

void core_rewrite_pid_info(struct core_call_context *context)
{
	filter_pid_info(context, is_own);
}

void core_check_pids(struct core_call_context *context)
{
	filter_pids(context, is_inside);
}

void core_check_pid_info(struct core_call_context *context)
{
	filter_pid_info(context, is_inside);
}
