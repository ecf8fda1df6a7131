// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE

#include "reply_cache.h"
#include "driver_call.h"
#include "clock.h"
#include "handle.h"
#include "processes.h"
#include "rm.h"
#include "target.h"
#include "uvm.h"

/* From a signal's arrival to the end of its handler. */
#define SENT_NS 250000000ull

/* The descriptor is not held meanwhile: a copy would keep the memory of a dead process alive. The worker's cache may be
 * in use for the call that brought us here. */
static void take_back(struct cgpud *d, struct exchange *e)
{
	int fd = (int)e->notif.data.args[0];
	struct task task;
	int r;

	task_init(&task, NULL, (s32)e->notif.pid);
	/* Another one may have its number by now. */
	r = e->started && process_started(task.tid) == e->started ? task_take(d, &task, fd) : -ENOENT;
	if (r < 0 && e->call.tgid != task.tid) {
		task_drop(&task);
		task_init(&task, NULL, e->call.tgid);
		r = task_take(d, &task, fd);
	}
	/* Where the process is gone, the driver has freed what it had. */
	if (r == 0)
		call_undo(d, e, task.file);
	task_drop(&task);
	exchange_release(&d->exchanges, e);
}

void answer_keep(struct cgpud *d, struct exchange *e)
{
	atomic_fetch_add(&d->counters.interrupted, 1);
	e->started = process_started((s32)e->notif.pid);
	if (!e->started)
		take_back(d, e);
	else
		exchange_keep(&d->exchanges, e);
}

/* Questions may be asked again; what makes or frees an object must not happen twice. */
static int happens_once(const struct cgpu_call *call)
{
	u32 nr = call->nr;

	if (call->device == CGPU_DEVICE_UVM)
		return nr == UVM_FREE;
	return nr == NV_ESC_RM_ALLOC || nr == NV_ESC_RM_FREE || nr == NV_ESC_RM_DUP_OBJECT ||
		nr == NV_ESC_RM_VID_HEAP_CONTROL || call->target;
}

void answer_sent(struct cgpud *d, struct exchange *e)
{
	if (happens_once(&e->call))
		exchange_sent(&d->exchanges, e);
	else
		exchange_release(&d->exchanges, e);
}

static int same_call(const struct exchange *kept, const struct exchange *e)
{
	/* Descriptor, command, address: ioctl has no more arguments, and other registers may have changed. */
	return kept->notif.data.nr == e->notif.data.nr && kept->notif.data.arch == e->notif.data.arch &&
		!memcmp(kept->notif.data.args, e->notif.data.args, 3 * sizeof(e->notif.data.args[0]));
}

/* The caller's memory holds already the answer, or (or_before) what it held before. scratch: its copies
 * are free. */
static int same_memory(const struct exchange *kept, struct exchange *scratch, const struct task *task, int or_before)
{
	u32 n, bytes;

	for (n = 0; n <= kept->call.segments; n++) {
		bytes = exchange_bytes(kept, n);
		if (process_read(task->memory, exchange_address(kept, n), scratch->copy[n], bytes) < 0)
			return 0;
		if (memcmp(scratch->copy[n], kept->copy[n], bytes) &&
			(!or_before || memcmp(scratch->copy[n], kept->before[n], bytes)))
			return 0;
	}
	return 1;
}

/* Nothing has come after the answer that could have undone it. */
static u32 is_latest(struct cgpud *d, const struct exchange *sent)
{
	struct turns *turns = engine_turns(d, sent->call.slot);
	u32 status;

	/* Mappings are made beside the order. */
	if (sent->call.device == CGPU_DEVICE_UVM)
		return 0;
	return sent->turn == atomic_load(handle_freed(d->core.abi, sent, &status) ? &turns->made : &turns->freed);
}

int answer_stands(const struct cgpud *d, const struct exchange *e)
{
	struct handle_place place;
	u32 at;

	if (e->result)
		return 0;
	if (e->call.device == CGPU_DEVICE_UVM)
		return uvm_stands(d->core.abi, e);
	if (handle_place(d->core.abi, e, &place))
		return rm_get32(e->copy[0], place.status) == NV_ERR_INSERT_DUPLICATE_NAME;
	if (target_is_taken(d->core.abi, e))
		return 1;
	if (!handle_freed(d->core.abi, e, &at))
		return 0;
	switch (rm_get32(e->copy[0], at)) {
	case NV_ERR_OBJECT_NOT_FOUND:
	case NV_ERR_INVALID_OBJECT:
	case NV_ERR_INVALID_OBJECT_HANDLE:
	case NV_ERR_INVALID_OBJECT_OLD:
	case NV_ERR_INVALID_CLIENT:
		return 1;
	default:
		return 0;
	}
}

static struct exchange *find_sent(struct cgpud *d, struct exchange *e, const struct task *task)
{
	struct exchange *sent = exchange_take_sent(&d->exchanges, task->tid);

	if (!sent)
		return NULL;
	if (clock_ns() - sent->sent < SENT_NS && same_call(sent, e) && same_memory(sent, e, task, 0))
		return sent;
	exchange_release(&d->exchanges, sent);
	return NULL;
}

struct exchange *answer_find(struct cgpud *d, struct exchange *e, const struct task *task, u32 *sure)
{
	struct exchange *found = find_sent(d, e, task), *kept;

	*sure = !found || (is_latest(d, found) && !target_is_export(d->core.abi, found));
	while (!found && (kept = exchange_take_kept(&d->exchanges, task->tid, 0))) {
		if (kept->started == process_started(task->tid) && same_call(kept, e) && same_memory(kept, e, task, 1))
			found = kept;
		else
			take_back(d, kept);
	}
	return found;
}

void answers_sweep(struct cgpud *d, u32 all)
{
	struct exchange *kept;
	u32 i;

	if (all) {
		kept = exchange_take_oldest_kept(&d->exchanges);
		if (kept)
			take_back(d, kept);
		return;
	}
	for (i = 0; i < EXCHANGES_MAX; i++) {
		kept = exchange_take_kept(&d->exchanges, 0, i);
		if (!kept)
			return;
		i = kept->index;
		if (process_started((s32)kept->notif.pid) == kept->started)
			exchange_return_kept(&d->exchanges, kept);
		else
			take_back(d, kept);
	}
}
