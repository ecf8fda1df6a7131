// SPDX-License-Identifier: Apache-2.0
/* Keeps answers that no thread has taken, and finds them for restarted calls. */
#define _GNU_SOURCE

#include "reply_cache.h"
#include "driver_call.h"
#include "clock.h"
#include "rm.h"
#include "uvm.h"

/* Longest time from a signal's arrival to the end of its handler. */
#define SENT_NS 250000000ull

/* The descriptor is not held meanwhile: a copy would keep the memory of a dead process alive. The worker's cache may be
 * in use for the call that brought us here. */
static void take_back(struct cgpud *d, struct in_flight *e)
{
	struct asker asker = asker_of(&d->looks, e->call.slot, e->call.generation);
	int fd = (int)e->notif.data.args[0];
	struct task task;
	int r;

	task_init(&task, &asker, NULL, (s32)e->notif.pid);
	/* Another one may have its number by now. */
	r = e->started && look_started(&asker, task.tid) == e->started ? task_take(d, &task, fd) : -ENOENT;
	if (r < 0 && e->call.tgid != task.tid) {
		task_drop(&task);
		task_init(&task, &asker, NULL, e->call.tgid);
		r = task_take(d, &task, fd);
	}
	/* The driver has freed all objects of a process that is gone. */
	if (r == 0)
		call_undo(d, e, task.file);
	task_drop(&task);
	in_flight_release(&d->in_flight, e);
}

void reply_keep(struct cgpud *d, struct in_flight *e)
{
	struct asker asker = asker_of(&d->looks, e->call.slot, e->call.generation);

	atomic_fetch_add(&d->counters.interrupted, 1);
	e->started = look_started(&asker, (s32)e->notif.pid);
	if (!e->started)
		take_back(d, e);
	else
		in_flight_keep(&d->in_flight, e);
}

/* Questions may be asked again; calls that make or free an object must not happen twice. */
static int happens_once(const struct cgpu_call *call)
{
	u32 nr = call->nr;

	if (call->device == CGPU_DEVICE_UVM)
		return nr == UVM_FREE || nr == UVM_UNREGISTER_CHANNEL || nr == UVM_UNREGISTER_GPU_VASPACE;
	return nr == NV_ESC_RM_ALLOC || nr == NV_ESC_RM_FREE || nr == NV_ESC_RM_DUP_OBJECT ||
		nr == NV_ESC_RM_VID_HEAP_CONTROL || nr == NV_ESC_RM_MAP_MEMORY_DMA ||
		nr == NV_ESC_RM_UNMAP_MEMORY_DMA || call->target;
}

void reply_sent(struct cgpud *d, struct in_flight *e)
{
	if (happens_once(&e->call))
		in_flight_sent(&d->in_flight, e);
	else
		in_flight_release(&d->in_flight, e);
}

static int same_call(const struct in_flight *kept, const struct in_flight *e)
{
	/* Descriptor, command, address: ioctl has no more arguments, and other registers may have changed. */
	return kept->notif.data.nr == e->notif.data.nr && kept->notif.data.arch == e->notif.data.arch &&
		!memcmp(kept->notif.data.args, e->notif.data.args, 3 * sizeof(e->notif.data.args[0]));
}

/* The caller's memory has already the answer, or (or_before) its bytes from before. scratch: its copies
 * are free. */
static int same_memory(const struct in_flight *kept, struct in_flight *scratch, const struct task *task, int or_before)
{
	u32 n, bytes;

	for (n = 0; n <= kept->call.segments; n++) {
		bytes = in_flight_bytes(kept, n);
		if (task_read_call(task, in_flight_address(kept, n), scratch->copy[n], bytes) < 0)
			return 0;
		if (memcmp(scratch->copy[n], kept->copy[n], bytes) &&
			(!or_before || memcmp(scratch->copy[n], kept->before[n], bytes)))
			return 0;
	}
	return 1;
}

/* Nothing has come after the answer that could have undone it. */
static u32 is_latest(struct cgpud *d, const struct in_flight *sent)
{
	struct call_counts *counts = engine_call_counts(d, sent->call.slot);
	u32 status;

	/* Mappings are made beside the order. */
	if (sent->call.device == CGPU_DEVICE_UVM)
		return 0;
	return sent->counted == atomic_load(handle_freed(d->core.abi, sent, &status) ? &counts->made : &counts->freed);
}

int reply_stands(const struct cgpud *d, const struct in_flight *e)
{
	struct handle_place place;
	u32 at, status;

	if (e->result)
		return 0;
	if (e->call.device == CGPU_DEVICE_UVM)
		return uvm_stands(d->core.abi, e);
	if (handle_place(d->core.abi, e, &place))
		return get32(e->copy[0], place.status) == NV_ERR_INSERT_DUPLICATE_NAME;
	if (target_is_taken(d->core.abi, e))
		return 1;
	if (!handle_freed(d->core.abi, e, &at))
		return 0;
	status = get32(e->copy[0], at);
	return status_is_not_found(status) || status == NV_ERR_INVALID_CLIENT;
}

static struct in_flight *find_sent(struct cgpud *d, struct in_flight *e, const struct task *task)
{
	struct in_flight *sent = in_flight_take_sent(&d->in_flight, task->tid);

	if (!sent)
		return NULL;
	if (clock_ns() - sent->sent < SENT_NS && same_call(sent, e) && same_memory(sent, e, task, 0))
		return sent;
	in_flight_release(&d->in_flight, sent);
	return NULL;
}

struct in_flight *reply_find(struct cgpud *d, struct in_flight *e, const struct task *task, u32 *sure)
{
	struct in_flight *found = find_sent(d, e, task), *kept;

	*sure = !found || (is_latest(d, found) && !target_is_export(d->core.abi, found));
	while (!found && (kept = in_flight_take_kept(&d->in_flight, task->tid, 0))) {
		if (kept->started == look_started(&task->asker, task->tid) && same_call(kept, e) &&
			same_memory(kept, e, task, 1))
			found = kept;
		else
			take_back(d, kept);
	}
	return found;
}

void reply_cache_sweep(struct cgpud *d, u32 all)
{
	struct in_flight *kept;
	struct asker asker;
	u32 i;

	if (all) {
		kept = in_flight_take_oldest_kept(&d->in_flight);
		if (kept)
			take_back(d, kept);
		return;
	}
	for (i = 0; i < IN_FLIGHT_MAX; i++) {
		kept = in_flight_take_kept(&d->in_flight, 0, i);
		if (!kept)
			return;
		i = kept->index;
		asker = asker_soon(&d->looks, kept->call.slot, kept->call.generation);
		if (look_started(&asker, (s32)kept->notif.pid) == kept->started)
			in_flight_return_kept(&d->in_flight, kept);
		else
			take_back(d, kept);
	}
}
