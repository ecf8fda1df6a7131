// SPDX-License-Identifier: GPL-2.0-only
/*
 * rm_ioctl(): the driver's own entry for all that a container can ask of it, called when the top-level structure is in
 * the kernel's memory already. The path of a container's call is: plan and fetch, judge, run on the copies it was judged by,
 * settle by what came out.
 */
#include <linux/fs.h>
#include <linux/ktime.h>

#include "compat.h"
#include "driver/driver.h"
#include "fields.h"
#include "probes/files.h"
#include "probes/pages.h"
#include "probes/task_call.h"
#include "sched/rounds.h"

struct rm_call {
	struct km_engine *engine; /* NULL while the call waits for its caller's memory */
	struct km_task_call *task_call;
	struct km_file *file;
	struct km_order *order; /* NULL: it changes nothing */
	void *sp, *nv, *nvfp; /* and the next three: what the driver was called with */
	u32 nr, bytes;
	void *data;
	u64 started; /* ns */
	bool counted; /* how long it took */
};

KM_EXTERNAL(rm_ioctl, u32(void *, void *, void *, u32, void *, u32));

/* The driver's prototype is another one, and its binary part has no hashes: nothing for CFI to check. */
static u32 call_driver(const struct rm_call *rm, u32 nr, void *data, u32 bytes)
{
	/* All structures of the driver's that name a client begin with it. */
	rm->task_call->client = bytes >= sizeof(u32) ? get32(data, 0) : 0;
	rm->task_call->nr = nr;
	return km_call(rm_ioctl)(rm->sp, rm->nv, rm->nvfp, nr, data, bytes);
}

static void took(struct rm_call *rm, enum cgpu_outcome outcome)
{
	km_latency_add(outcome, ktime_get_ns() - rm->started);
	rm->counted = true;
}

/* On the copies that it was judged by. */
static u32 run_judged(const struct rm_call *rm, const struct cgpu_call *call)
{
	u32 status;

	WRITE_ONCE(rm->task_call->judged, true);
	status = call_driver(rm, call->nr, call->top, call->bytes);
	WRITE_ONCE(rm->task_call->judged, false);
	return status;
}

/* Whether the driver has what the call needs; else the call says so. In the container's order. */
static bool ask_driver(const struct rm_call *rm, struct cgpu_call *call)
{
	struct cgpu_km_core *logic = rm->engine->logic;
	struct cgpu_call question = { .top = rm->task_call->undo_top };
	u32 number = 0, further;

	for (; logic->call_question(&rm->engine->core, call, number, &question); number += further) {
		WRITE_ONCE(rm->task_call->asks, true);
		call_driver(rm, question.nr, question.top, question.bytes);
		WRITE_ONCE(rm->task_call->asks, false);
		further = logic->call_answered(&rm->engine->core, call, number, &question);
		if (!further)
			return false;
	}
	return true;
}

static void leave_core(struct rm_call *rm)
{
	km_engine_put(rm->engine);
	rm->engine = NULL;
}

static bool enter_core(struct rm_call *rm)
{
	rm->engine = km_engine_get();
	return rm->engine && rm->engine->core.abi;
}

/* This core may plan the call otherwise than another has. */
static void forget_plan(struct km_task_call *task_call)
{
	struct cgpu_call *call = &task_call->call;

	km_segments_free(task_call);
	km_target_put(task_call);
	memset_startat(call, 0, segments);
}

/* The caller's memory may block this without a limit, so nothing is held meanwhile. -EAGAIN: there is another core
 * afterwards. */
static int fetch_buffers(struct rm_call *rm)
{
	u64 number = rm->engine->number;
	int err;

	leave_core(rm);
	err = km_segments_fetch(rm->task_call);
	if (!enter_core(rm))
		return -ENODEV;
	if (rm->engine->number == number)
		return err;
	forget_plan(rm->task_call);
	return -EAGAIN;
}

/* Carry out one plan of the core. 1: the buffers that came may name more. */
static int fetch_planned(struct rm_call *rm)
{
	u32 needs = rm->engine->logic->call_plan(&rm->engine->core, &rm->task_call->call);
	int err = needs & CGPU_NEEDS_BUFFERS ? fetch_buffers(rm) : 0;

	if (err == 0 && (needs & CGPU_NEEDS_FILE))
		err = km_target_find(rm->task_call);
	return err ? err : (needs & CGPU_NEEDS_BUFFERS) != 0;
}

static int fetch_call(struct rm_call *rm)
{
	u32 plan;
	int err;

	do {
		for (plan = 0, err = 1; plan < CGPU_PLANS && err > 0; plan++)
			err = fetch_planned(rm);
	} while (err == -EAGAIN);
	return err < 0 ? err : 0;
}

/* A call that has not begun can still be killed. */
static int order_take(const struct rm_call *rm)
{
	if (!rm->order)
		return 0;
	if (mutex_lock_killable(&rm->order->lock))
		return -EINTR;
	if (down_read_killable(&rm->file->link_lock) == 0)
		return 0;
	mutex_unlock(&rm->order->lock);
	return -EINTR;
}

static void order_give(const struct rm_call *rm)
{
	if (!rm->order)
		return;
	up_read(&rm->file->link_lock);
	mutex_unlock(&rm->order->lock);
}

/* Whether clients used on a file live on another one. */
static bool is_linked(const struct km_file *file)
{
	return file->device == CGPU_DEVICE_CTL && file->linked;
}

/* Whether a call makes an object through a linked file. The object would live on the other file, and would outlive
 * this file's record or end before it. */
static bool makes_elsewhere(const struct rm_call *rm)
{
	if (!rm->order || !is_linked(rm->file) || !km_enforce)
		return false;
	switch (rm->task_call->call.nr) {
	case NV_ESC_RM_ALLOC:
	case NV_ESC_RM_ALLOC_MEMORY:
	case NV_ESC_RM_ALLOC_OBJECT:
	case NV_ESC_RM_DUP_OBJECT:
	case NV_ESC_RM_VID_HEAP_CONTROL:
	/* Only controls that export and import have an order. */
	case NV_ESC_RM_CONTROL:
		return true;
	default:
		return false;
	}
}

/* Returns with the order held when the verdict is to execute. */
static enum cgpu_verdict judge_call(struct rm_call *rm)
{
	enum cgpu_verdict verdict = CGPU_REFUSE;

	if (order_take(rm))
		return verdict;
	if (!makes_elsewhere(rm))
		verdict = rm->engine->logic->call_begin(&rm->engine->core, &rm->task_call->call);
	if (verdict != CGPU_EXECUTE)
		order_give(rm);
	return verdict;
}

/* Build the call that frees the call's allocation, while the core that noted it is there. */
static bool undo_prepare(struct rm_call *rm)
{
	struct km_task_call *task_call = rm->task_call;

	task_call->undo.top = task_call->undo_top;
	return rm->engine->logic->call_undo(&rm->engine->core, &task_call->call, &task_call->undo) != 0;
}

/* With the order held. */
static void undo_run(struct rm_call *rm)
{
	struct cgpu_km_core *logic = rm->engine->logic;
	struct cgpu_core *core = &rm->engine->core;
	struct cgpu_call *undo = &rm->task_call->undo;
	u32 status;

	if (logic->call_begin(core, undo) != CGPU_EXECUTE)
		return;
	status = run_judged(rm, undo);
	logic->call_end(core, undo, status == NV_OK ? 0 : -EINVAL);
}

/* Undo an allocation whose answer could not be given to the caller. */
static void undo_late(struct rm_call *rm, u64 number)
{
	struct cgpu_call *undo = &rm->task_call->undo;

	rm->engine = km_engine_get_surely();
	if (!rm->engine)
		return;
	/* For a core that has not built the undo, it is a free like any other. */
	if (rm->engine->number != number)
		memset(undo->opaque, 0, sizeof(undo->opaque));
	mutex_lock(&rm->order->lock);
	undo_run(rm);
	mutex_unlock(&rm->order->lock);
}

/* Whether the driver has not come by to get a segment or a file that the call needs: then it ran on something that was not
 * judged. */
static bool bypassed(const struct rm_call *rm)
{
	const struct km_task_call *task_call = rm->task_call;

	if (!task_call->call.fetched || (task_call->copies && (!task_call->target || task_call->handed)))
		return false;
	km_driver_distrust(task_call->copies ? km_probe_get_file.symbol : km_probe_copy_from.symbol);
	return km_enforce;
}

/*
 * A channel is enabled or disabled before the caller learns that it has it. The thread of rounds.c does that, so that no
 * container can delay the others, whatever its tasks run. Nothing is held meanwhile that the thread could need: of what the
 * driver holds for reading around a call (nv_system_pm_lock) its interface for kernel modules takes nothing.
 */
static void await_round(struct rm_call *rm)
{
	if (!rm->task_call->call.round)
		return;
	leave_core(rm);
	km_rounds_await(rm->task_call->call.round - 1);
}

/* The caller's memory may block this without a limit, so the engine is not held. number: of the engine, for an undo. */
static u32 deliver_segments(struct rm_call *rm, u32 status, u64 number, bool undoable)
{
	if (!rm->task_call->written)
		return status;
	leave_core(rm);
	if (km_segments_deliver(rm->task_call) == 0)
		return status;
	if (undoable)
		undo_late(rm, number);
	return NV_ERR_INVALID_ADDRESS;
}

/* Tell the core on which file the client of this call lives. */
static void note_file(const struct rm_call *rm)
{
	if (rm->file->device == CGPU_DEVICE_CTL && !rm->file->linked)
		rm->task_call->call.file = rm->file->number;
}

/* Run a call by its verdict, with the order held. */
static u32 run_ordered(const struct rm_call *rm)
{
	struct km_task_call *task_call = rm->task_call;

	if (task_call->target)
		km_file_note_export(task_call->target->private_data);
	/* Without what it needs of the driver, the call says so already. */
	return ask_driver(rm, &task_call->call) ? run_judged(rm, &task_call->call) : NV_OK;
}

/* With the order held, which is given back. */
static u32 settle_call(struct rm_call *rm, u32 status)
{
	struct cgpu_call *call = &rm->task_call->call;
	u64 number = rm->engine->number;
	bool undoable, undone, skipped;

	note_file(rm);
	undone = rm->engine->logic->call_end(&rm->engine->core, call, status == NV_OK ? 0 : -EINVAL);
	skipped = bypassed(rm);
	while ((undone || skipped) && undo_prepare(rm))
		undo_run(rm);
	/* An import stays, as the driver leaves it too. */
	undoable = !undone && !skipped && !rm->task_call->target && undo_prepare(rm);
	order_give(rm);
	await_round(rm);
	return skipped ? NV_ERR_INVALID_STATE : deliver_segments(rm, status, number, undoable);
}

/* The caller's memory may block the driver, so the engine is not held. */
static u32 continue_call(struct rm_call *rm)
{
	struct cgpu_call *call = &rm->task_call->call;
	u32 version = rm->engine->logic->state_version();
	u32 status;

	leave_core(rm);
	status = call_driver(rm, call->nr, call->top, call->bytes);
	rm->engine = km_engine_get_surely();
	if (!rm->engine || rm->engine->logic->state_version() != version)
		return status;
	note_file(rm);
	/* Among these calls only an allocation of a client is undone, and has an order. */
	if (rm->engine->logic->call_end(&rm->engine->core, call, status == NV_OK ? 0 : -EINVAL) && undo_prepare(rm)) {
		mutex_lock(&rm->order->lock);
		undo_run(rm);
		mutex_unlock(&rm->order->lock);
	}
	return status;
}

/* Run NV_ESC_REGISTER_FD, in which nothing makes the driver wait for the caller. */
static u32 link_file(struct rm_call *rm)
{
	const struct cgpu_call *call = &rm->task_call->call;
	u32 status;

	if (down_write_killable(&rm->file->link_lock))
		return NV_ERR_INSUFFICIENT_PERMISSIONS;
	status = call_driver(rm, call->nr, call->top, call->bytes);
	rm->file->linked |= status == NV_OK;
	up_write(&rm->file->link_lock);
	return status;
}

/* Run a call that maps memory, or unmaps it. */
static u32 run_mapping(const struct rm_call *rm)
{
	const struct nv_abi *abi = rm->engine->core.abi;
	struct km_task_call *task_call = rm->task_call;
	const struct cgpu_call *call = &task_call->call;
	struct mapping *mapping;
	u64 address;
	u32 status;

	if (km_mapping_moves(abi, call))
		return NV_OK;
	if (call->bytes == abi->nv_ioctl_nvos33_parameters_with_fd.bytes)
		task_call->memory = get32(call->top, abi->nv_ioctl_nvos33_parameters_with_fd.params_hMemory);
	mapping = km_mapping_unmaps(abi, call, &address);
	task_call->unmapped = mapping;
	status = call_driver(rm, call->nr, call->top, call->bytes);
	task_call->unmapped = NULL;
	km_mapping_unmapped(abi, call, mapping, address);
	return status;
}

/*
 * Memory that is freed in the middle of a call that maps it would have its place in the window noted in a file after its
 * end. So these calls come in the container's order, as frees do. The driver reads nothing of the caller's for them.
 */
static u32 run_mapping_ordered(const struct rm_call *rm)
{
	u32 status;

	if (order_take(rm))
		return NV_ERR_INSUFFICIENT_PERMISSIONS;
	status = run_mapping(rm);
	order_give(rm);
	return status;
}

static u32 continue_by_number(struct rm_call *rm)
{
	switch (rm->task_call->call.nr) {
	case NV_ESC_REGISTER_FD:
		return link_file(rm);
	case NV_ESC_RM_MAP_MEMORY:
	case NV_ESC_RM_UNMAP_MEMORY:
	case NV_ESC_RM_UPDATE_DEVICE_MAPPING_INFO:
		return run_mapping_ordered(rm);
	default:
		return continue_call(rm);
	}
}

static u32 carry_out_verdict(struct rm_call *rm, enum cgpu_verdict verdict)
{
	u32 status;

	switch (verdict) {
	case CGPU_EXECUTE:
		status = settle_call(rm, run_ordered(rm));
		took(rm, CGPU_OUTCOME_EXECUTED);
		return status;
	case CGPU_CONTINUE:
		/* The time ends here: the driver's work takes as long without this module. */
		took(rm, CGPU_OUTCOME_CONTINUED);
		return continue_by_number(rm);
	case CGPU_ANSWER:
		return NV_OK;
	default:
		/* The driver's ioctl makes EINVAL of any status. */
		return NV_ERR_INSUFFICIENT_PERMISSIONS;
	}
}

/* Queries change nothing, and need no order. Changes must come to the ledger in the order in which the driver made
 * them. */
static bool find_order(struct rm_call *rm)
{
	const struct cgpu_call *call = &rm->task_call->call;

	if (!cgpu_call_changes(rm->engine->core.abi, call))
		return true;
	rm->order = km_order_get(call->slot, call->generation);
	return rm->order != NULL;
}

static void describe_call(struct rm_call *rm, const struct km_identity *identity)
{
	struct cgpu_call *call = &rm->task_call->call;

	call->slot = identity->slot;
	call->generation = identity->generation;
	call->device = rm->file->device;
	if (call->device == CGPU_DEVICE_CTL)
		rm->task_call->client_file = rm->nvfp;
	call->gpu = READ_ONCE(rm->file->gpu);
	call->tgid = task_tgid_nr(current);
	call->nr = rm->nr;
	call->bytes = rm->bytes;
	call->top = rm->data;
	call->finds_files = READ_ONCE(km_probe_get_file.attached);
}

static u32 serve_call(struct rm_call *rm, const struct km_identity *identity)
{
	u32 status;

	rm->file = km_file_take(rm->engine, rm->nvfp);
	if (IS_ERR(rm->file))
		return NV_ERR_INSUFFICIENT_PERMISSIONS;
	describe_call(rm, identity);
	if (!find_order(rm))
		return NV_ERR_NO_MEMORY;
	status = carry_out_verdict(rm, fetch_call(rm) == 0 ? judge_call(rm) : CGPU_REFUSE);
	if (rm->order)
		km_order_put(rm->order);
	km_segments_free(rm->task_call);
	km_target_put(rm->task_call);
	return status;
}

/* Whether it is known which page allocator each started card of the container has: else its pages would not be counted. */
static bool allocators_known(const struct rm_call *rm, const struct km_identity *identity)
{
	struct km_engine *engine = rm->engine;

	return !km_pages_unbound() ||
		!km_pages_bind(
			engine, engine->logic->container_gpus(&engine->core, identity->slot, identity->generation));
}

static u32 serve_container(struct rm_call *rm, const struct km_identity *identity)
{
	u32 status = NV_ERR_INSUFFICIENT_PERMISSIONS;

	if (km_driver_bypassed() && km_enforce)
		return status;
	if (!km_mapping_reserve(rm->task_call, rm->nr))
		return NV_ERR_NO_MEMORY;
	if (enter_core(rm) && allocators_known(rm, identity))
		status = serve_call(rm, identity);
	leave_core(rm);
	return status;
}

static u32 serve_task(struct rm_call *rm)
{
	struct km_identity identity;
	u32 status;

	if (!km_identity_of_current(&identity))
		return call_driver(rm, rm->nr, rm->data, rm->bytes);
	km_latency_enter();
	status = serve_container(rm, &identity);
	if (!rm->counted)
		took(rm, CGPU_OUTCOME_ANSWERED);
	km_latency_leave();
	return status;
}

static u32 rm_ioctl(void *sp, void *nv, void *nvfp, u32 nr, void *data, u32 bytes)
{
	struct rm_call rm = { .sp = sp,
		.nv = nv,
		.nvfp = nvfp,
		.nr = nr,
		.data = data,
		.bytes = bytes,
		.started = ktime_get_ns(),
		.task_call = km_task_call_begin() };
	u32 status = NV_ERR_NO_MEMORY;

	if (rm.task_call) {
		status = serve_task(&rm);
		km_task_call_end(rm.task_call);
	}
	km_probe_leave();
	return status;
}

KM_PROBE_AROUND(rm_ioctl, "nvidia", "rm_ioctl", rm_ioctl, km_wants_container);
