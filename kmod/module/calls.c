// SPDX-License-Identifier: GPL-2.0
/*
 * rm_ioctl(): the driver's own entry for all that a container can ask of it, called when the top-level structure is in
 * the kernel's memory already. Judged by the core, run on the copies it was judged by, and settled by what came out.
 */
#include <linux/slab.h>
#include <linux/uaccess.h>

#include "km.h"

#define UNDO_BYTES 64

struct rm_call {
	struct km_engine *engine;
	struct km_record *record;
	struct km_file *file;
	void *sp, *nv, *nvfp;
};

static bool rm_ioctl_wants(struct pt_regs *regs)
{
	struct km_identity identity;

	/* Our own call of the original. */
	if (km_record_current())
		return false;
	return km_identity_unbound() || km_identity_of_current(&identity);
}
NOKPROBE_SYMBOL(rm_ioctl_wants);

static u32 run(const struct rm_call *rm, u32 nr, void *data, u32 bytes)
{
	u32 (*original)(void *, void *, void *, u32, void *, u32) = (void *)km_probe_rm_ioctl.original;

	return original(rm->sp, rm->nv, rm->nvfp, nr, data, bytes);
}

/* Whether a buffer shares bytes with one before it: what is rewritten in one would be handed out by the other. */
static bool overlaps(const struct cgpu_call *call, const struct cgpu_segment *segment)
{
	const struct cgpu_segment *other;

	for (other = call->segment; other < segment; other++) {
		if (segment->address < other->address + other->bytes &&
			other->address < segment->address + segment->bytes)
			return true;
	}
	return false;
}

/* Room for the nested buffer that the core has just asked for, and what the caller has there. */
static int fetch_segment(struct km_record *record)
{
	struct cgpu_call *call = &record->call;
	struct cgpu_segment *segment;
	u32 n = call->segments;

	if (!n || n > CGPU_MAX_SEGMENTS)
		return -EINVAL;
	segment = &call->segment[n - 1];
	if (!segment->address || segment->bytes > CGPU_SEGMENT_MAX || segment->parent >= n || overlaps(call, segment))
		return -EINVAL;
	if (segment->bytes <= sizeof(record->space) - record->space_used) {
		segment->data = record->space + record->space_used;
		record->space_used += ALIGN(segment->bytes, 8);
	} else {
		segment->data = kvmalloc(segment->bytes, GFP_KERNEL_ACCOUNT);
		if (!segment->data)
			return -ENOMEM;
	}
	if (copy_from_user(segment->data, u64_to_user_ptr(segment->address), segment->bytes))
		return -EFAULT;
	return 0;
}

static void free_segments(struct km_record *record)
{
	u32 i;

	for (i = 0; i < record->call.segments; i++) {
		u8 *data = record->call.segment[i].data;

		if (data && (data < record->space || data >= record->space + sizeof(record->space)))
			kvfree(data);
	}
}

/* Questions about sizes change nothing, and need no order. What changes something must be in the books in the order in
 * which the driver did it. */
static bool is_ordered(const struct cgpu_call *call)
{
	return call->nr != NV_ESC_RM_CONTROL;
}

static void order_take(const struct cgpu_call *call)
{
	if (is_ordered(call))
		mutex_lock(km_order(call->slot));
}

static void order_give(const struct cgpu_call *call)
{
	if (is_ordered(call))
		mutex_unlock(km_order(call->slot));
}

/* Returns with the order held when the verdict is to execute. */
static enum cgpu_verdict judge(struct rm_call *rm)
{
	struct cgpu_call *call = &rm->record->call;
	enum cgpu_verdict verdict;
	u32 round;

	for (round = 0; round <= CGPU_MAX_SEGMENTS; round++) {
		order_take(call);
		verdict = rm->engine->logic->call_begin(&rm->engine->core, call);
		if (verdict == CGPU_EXECUTE)
			return verdict;
		order_give(call);
		if (verdict != CGPU_COPY_IN)
			return verdict;
		/* May take as long as the caller's memory makes it: nothing is held. */
		if (fetch_segment(rm->record))
			return CGPU_REFUSE;
	}
	return CGPU_REFUSE;
}

/* Take back what a call has allocated. */
static void undo(struct rm_call *rm)
{
	struct cgpu_km_core *logic = rm->engine->logic;
	struct cgpu_core *core = &rm->engine->core;
	struct cgpu_call *call = kzalloc(sizeof(*call) + UNDO_BYTES, GFP_KERNEL | __GFP_NOFAIL);

	call->top = (u8 *)(call + 1);
	if (logic->call_undo(core, &rm->record->call, call)) {
		if (logic->call_begin(core, call) == CGPU_EXECUTE) {
			u32 status = run(rm, call->nr, call->top, call->bytes);

			logic->call_end(core, call, status == NV_OK ? 0 : -EINVAL);
		}
	}
	kfree(call);
}

/* What the driver has written, and the core has looked at, goes to the caller. */
static int deliver(const struct km_record *record)
{
	u32 i;

	for (i = 0; i < record->call.segments; i++) {
		const struct cgpu_segment *segment = &record->call.segment[i];

		if ((record->written >> i & 1) &&
			copy_to_user(u64_to_user_ptr(segment->address), segment->data, segment->bytes))
			return -EFAULT;
	}
	return 0;
}

/* Under the order, on the copies. */
static u32 execute(struct rm_call *rm)
{
	struct cgpu_call *call = &rm->record->call;
	u32 status;
	int undone;

	WRITE_ONCE(rm->record->judged, true);
	status = run(rm, call->nr, call->top, call->bytes);
	WRITE_ONCE(rm->record->judged, false);
	/* Only now: another thread may have linked the file while the driver worked. */
	call->file = km_file_number(rm->file);
	undone = rm->engine->logic->call_end(&rm->engine->core, call, status == NV_OK ? 0 : -EINVAL);
	if (undone)
		undo(rm);
	order_give(call);
	if (deliver(rm->record) == 0)
		return status;
	if (!undone) {
		order_take(call);
		undo(rm);
		order_give(call);
	}
	return NV_ERR_INVALID_ADDRESS;
}

static u32 judged_run(struct rm_call *rm)
{
	struct cgpu_call *call = &rm->record->call;

	switch (judge(rm)) {
	case CGPU_EXECUTE:
		return execute(rm);
	case CGPU_CONTINUE:
		return run(rm, call->nr, call->top, call->bytes);
	case CGPU_ANSWER:
		return NV_OK;
	default:
		/* The driver's ioctl makes EINVAL of any status. */
		return NV_ERR_INSUFFICIENT_PERMISSIONS;
	}
}

static u32 contained(struct rm_call *rm, const struct km_identity *identity, u32 nr, void *data, u32 bytes)
{
	struct cgpu_call *call = &rm->record->call;
	u32 status;

	rm->file = km_file_take(rm->engine, rm->nvfp);
	if (IS_ERR(rm->file))
		return NV_ERR_INSUFFICIENT_PERMISSIONS;
	call->slot = identity->slot;
	call->generation = identity->generation;
	call->device = km_file_device(rm->file);
	call->gpu = km_file_gpu(rm->file);
	if (nr == NV_ESC_REGISTER_FD)
		km_file_link(rm->file);
	call->tgid = task_tgid_nr(current);
	call->nr = nr;
	call->bytes = bytes;
	call->top = data;
	status = judged_run(rm);
	free_segments(rm->record);
	return status;
}

static u32 recorded(struct rm_call *rm, u32 nr, void *data, u32 bytes)
{
	struct km_identity identity;
	u32 status;
	int known = km_identity_find(&identity);

	if (known <= 0)
		return known ? NV_ERR_NO_MEMORY : run(rm, nr, data, bytes);
	rm->engine = km_engine_get();
	if (!rm->engine)
		return NV_ERR_INSUFFICIENT_PERMISSIONS;
	status = NV_ERR_INSUFFICIENT_PERMISSIONS;
	if (rm->engine->core.abi)
		status = contained(rm, &identity, nr, data, bytes);
	km_engine_put(rm->engine);
	return status;
}

static u32 rm_ioctl(void *sp, void *nv, void *nvfp, u32 nr, void *data, u32 bytes)
{
	struct rm_call rm = { .sp = sp, .nv = nv, .nvfp = nvfp, .record = km_record_begin() };
	u32 status = NV_ERR_NO_MEMORY;

	if (rm.record) {
		status = recorded(&rm, nr, data, bytes);
		km_record_end(rm.record);
	}
	km_probe_leave();
	return status;
}

struct km_probe km_probe_rm_ioctl = {
	.module = "nvidia",
	.symbol = "rm_ioctl",
	.replacement = rm_ioctl,
	.wants = rm_ioctl_wants,
};
