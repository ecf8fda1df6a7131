// SPDX-License-Identifier: Apache-2.0
/* One driver call: read, planned, fetched, judged by the core, run, settled, and written back. */
#define _GNU_SOURCE
#include <sys/random.h>

#include "driver_call.h"
#include "rm.h"
#include "uvm.h"

#define UNDO_TOP_BYTES 256
#define HANDLE_TRIES 8
/* Our handles lie apart from the driver's own (0xcaf00000 and up, src/nvidia/inc/libraries/resserv/rs_domain.h) and
 * from CUDA's, which count up from 0x5c000000. */
#define HANDLE_BASE 0xa7000000u
#define HANDLE_MASK 0x00ffffffu

int status_is_not_found(u32 status)
{
	return status == NV_ERR_OBJECT_NOT_FOUND || status == NV_ERR_INVALID_OBJECT ||
		status == NV_ERR_INVALID_OBJECT_HANDLE || status == NV_ERR_INVALID_OBJECT_OLD;
}

/* --- handles in calls that make or free an object --- */

static int heap_function(const struct nv_abi *abi, const struct in_flight *flight, u32 *function)
{
	if (flight->call.nr != NV_ESC_RM_VID_HEAP_CONTROL || flight->call.bytes != abi->NVOS32_PARAMETERS.bytes)
		return 0;
	*function = get32(flight->before[0], abi->NVOS32_PARAMETERS.function);
	return 1;
}

/* Find the handle's place in an allocation through the heap. */
static int heap_place(const struct nv_abi *abi, u32 function, struct handle_place *place)
{
	const struct nv_layout_NVOS32_PARAMETERS *heap = &abi->NVOS32_PARAMETERS;

	const struct {
		u32 function, handle, flags;
	} calls[] = { { NVOS32_FUNCTION_ALLOC_SIZE, heap->data_AllocSize_hMemory, heap->data_AllocSize_flags },
		{ NVOS32_FUNCTION_ALLOC_TILED_PITCH_HEIGHT, heap->data_AllocTiledPitchHeight_hMemory,
			heap->data_AllocTiledPitchHeight_flags },
		{ NVOS32_FUNCTION_ALLOC_SIZE_RANGE, heap->data_AllocSizeRange_hMemory,
			heap->data_AllocSizeRange_flags } };
	size_t i;

	for (i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
		if (calls[i].function != function)
			continue;
		*place = (struct handle_place){ heap->hRoot, calls[i].handle, heap->status, calls[i].flags };
		return 1;
	}
	return 0;
}

int handle_place(const struct nv_abi *abi, const struct in_flight *flight, struct handle_place *place)
{
	const struct nv_layout_NVOS21_PARAMETERS *narrow = &abi->NVOS21_PARAMETERS;
	const struct nv_layout_NVOS64_PARAMETERS *wide = &abi->NVOS64_PARAMETERS;
	const struct nv_layout_NVOS55_PARAMETERS *dup = &abi->NVOS55_PARAMETERS;
	u32 nr = flight->call.nr, bytes = flight->call.bytes, function;

	if (nr == NV_ESC_RM_ALLOC && bytes == wide->bytes)
		*place = (struct handle_place){ wide->hRoot, wide->hObjectNew, wide->status, 0 };
	else if (nr == NV_ESC_RM_ALLOC && bytes == narrow->bytes)
		*place = (struct handle_place){ narrow->hRoot, narrow->hObjectNew, narrow->status, 0 };
	else if (nr == NV_ESC_RM_DUP_OBJECT && bytes == dup->bytes)
		*place = (struct handle_place){ dup->hClient, dup->hObject, dup->status, 0 };
	else
		return heap_function(abi, flight, &function) && heap_place(abi, function, place);
	return 1;
}

int handle_freed(const struct nv_abi *abi, const struct in_flight *flight, u32 *status)
{
	u32 function;

	if (flight->call.nr == NV_ESC_RM_FREE && flight->call.bytes == abi->NVOS00_PARAMETERS.bytes)
		*status = abi->NVOS00_PARAMETERS.status;
	else if (heap_function(abi, flight, &function) && function == NVOS32_FUNCTION_FREE)
		*status = abi->NVOS32_PARAMETERS.status;
	else
		return 0;
	return 1;
}

/* Whether the caller has given the handle. */
static int handle_given(const struct in_flight *flight, const struct handle_place *place)
{
	if (!get32(flight->before[0], place->handle))
		return 0;
	return !place->flags || (get32(flight->before[0], place->flags) & NVOS32_ALLOC_FLAGS_MEMORY_HANDLE_PROVIDED);
}

static void put_flag(struct in_flight *flight, const struct handle_place *place, u32 flag)
{
	u32 flags;

	if (!place->flags)
		return;
	flags = get32(flight->copy[0], place->flags) & ~(u32)NVOS32_ALLOC_FLAGS_MEMORY_HANDLE_PROVIDED;
	put32(flight->copy[0], place->flags, flags | flag);
}

/* Put a handle of ours into the copy; 0 leaves it to the driver. */
static void handle_put(struct in_flight *flight, const struct handle_place *place, u32 handle)
{
	flight->chosen = handle;
	put32(flight->copy[0], place->handle, handle);
	put_flag(flight, place, handle ? NVOS32_ALLOC_FLAGS_MEMORY_HANDLE_PROVIDED : 0);
}

/* The flag that handle_put() may have set is not the caller's. */
static void handle_hide(struct in_flight *flight, const struct handle_place *place)
{
	u32 before = place->flags ? get32(flight->before[0], place->flags) : 0;

	put_flag(flight, place, before & NVOS32_ALLOC_FLAGS_MEMORY_HANDLE_PROVIDED);
}

/* A handle for a call whose caller gave none; never 0. */
static u32 handle_next(void)
{
	u32 chosen = 0;

	/* The driver may refuse this number as taken: the caller asks for another one. */
	if (getrandom(&chosen, sizeof(chosen), GRND_NONBLOCK) != sizeof(chosen))
		chosen = 1;
	return HANDLE_BASE | (chosen & HANDLE_MASK);
}

/* Client and handle that a call in flight may have made. 0: not known. */
static int handle_wanted(const struct nv_abi *abi, const struct in_flight *flight, u32 *client, u32 *handle)
{
	struct handle_place place;

	if (!handle_place(abi, flight, &place))
		return 0;
	*client = get32(flight->before[0], place.client);
	*handle = handle_given(flight, &place) ? get32(flight->before[0], place.handle) : flight->chosen;
	return *client && *handle && *client != *handle;
}

/* --- reading, planning and fetching --- */

static int read_wrapper(struct cgpud *d, const struct task *task, u32 *nr, u32 *bytes, u64 *address)
{
	u8 wrapper[128];
	int r;

	if (*bytes != d->core.abi->nv_ioctl_xfer_t.bytes || *bytes > sizeof(wrapper))
		return -EINVAL;
	r = task_read_call(task, *address, wrapper, *bytes);
	if (r < 0)
		return r;
	r = cgpu_call_unwrap(&d->core, wrapper, *bytes, nr, bytes, address);
	/* A wrapper in a wrapper is no command of the driver, and executing it would unwrap it. */
	return r < 0 ? r : *nr == NV_ESC_IOCTL_XFER_CMD ? -EINVAL : 0;
}

static int has_wrappers(enum cgpu_device kind)
{
	return kind == CGPU_DEVICE_CTL || kind == CGPU_DEVICE_GPU;
}

int call_read(struct cgpud *d, struct in_flight *flight, const struct task *task, u32 cmd, u64 address)
{
	struct cgpu_call *call = &flight->call;
	u32 nr = cmd & 0xff, bytes = (cmd >> 16) & 0x3fff;
	int r;

	call->device = task->kind;
	call->gpu = task->gpu;
	call->top = flight->copy[0];
	/* UVM's commands are bare numbers without a size. */
	if (task->kind == CGPU_DEVICE_UVM) {
		nr = cmd;
		bytes = uvm_bytes(d->core.abi, cmd);
	}
	if (nr == NV_ESC_IOCTL_XFER_CMD && has_wrappers(task->kind)) {
		r = read_wrapper(d, task, &nr, &bytes, &address);
		if (r < 0)
			return r;
	}
	if (bytes > CGPU_SEGMENT_MAX)
		return -EINVAL;
	call->nr = nr;
	call->bytes = bytes;
	flight->top_address = address;
	r = task_read_call(task, address, flight->copy[0], bytes);
	if (r == 0)
		memcpy(flight->before[0], flight->copy[0], bytes);
	return r;
}

/* Fetch a nested buffer that the plan names. */
static int fetch_buffer(struct in_flight *flight, const struct task *task, u32 n)
{
	struct cgpu_segment *segment = &flight->call.segment[n - 1];
	u32 room;
	int r;

	if (n > CGPU_MAX_SEGMENTS || !segment->address || segment->bytes > CGPU_SEGMENT_MAX || segment->parent >= n)
		return -EINVAL;
	room = in_flight_bytes(flight, segment->parent);
	if (room < sizeof(u64) || segment->pointer > room - sizeof(u64))
		return -EINVAL;
	segment->data = flight->copy[n];
	r = task_read(task, segment->address, segment->data, segment->bytes);
	if (r == 0)
		memcpy(flight->before[n], segment->data, segment->bytes);
	return r;
}

/* Carry out one plan of the core. 1: the buffers that came may name more. */
static int fetch_planned(struct cgpud *d, struct in_flight *flight, struct task *task)
{
	u32 fetched = flight->call.segments, needs = cgpu_call_plan(&d->core, &flight->call);
	/* No copy is waited for under a lock, so a call that may be run has it before it is judged. */
	int r = needs & CGPU_NEEDS_OWN_FILE ? task_copy(d, task) : 0;

	while (r == 0 && fetched < flight->call.segments)
		r = fetch_buffer(flight, task, ++fetched);
	if (r == 0 && (needs & CGPU_NEEDS_FILE))
		r = target_find(d, flight, task);
	return r < 0 ? r : (needs & CGPU_NEEDS_BUFFERS) != 0;
}

int call_fetch(struct cgpud *d, struct in_flight *flight, struct task *task)
{
	u32 plan;
	int r = 1;

	if (flight->call.device == CGPU_DEVICE_UVM)
		return uvm_needs_file(&flight->call) ? task_copy(d, task) : 0;
	for (plan = 0; plan < CGPU_PLANS && r > 0; plan++)
		r = fetch_planned(d, flight, task);
	return r < 0 ? r : 0;
}

/* Nearly all of these may be run here. Most others are continued without a copy. */
static int is_number_made_on_a_copy(u32 nr)
{
	return nr == NV_ESC_RM_ALLOC || nr == NV_ESC_RM_FREE || nr == NV_ESC_RM_DUP_OBJECT ||
		nr == NV_ESC_RM_VID_HEAP_CONTROL || nr == NV_ESC_RM_MAP_MEMORY_DMA || nr == NV_ESC_RM_UNMAP_MEMORY_DMA;
}

struct call_wish foresee_call(const struct nv_abi *abi, u32 cmd, u64 address)
{
	u32 bytes = (cmd >> 16) & 0x3fff;

	/* UVM's commands are bare numbers without a size. */
	return (struct call_wish){ .address = address,
		.bytes = bytes ? bytes : uvm_bytes(abi, cmd),
		.copy = bytes && (cmd >> 8 & 0xff) == NV_IOCTL_MAGIC && is_number_made_on_a_copy(cmd & 0xff) };
}

/* --- judging --- */

/* Count a call, in the container's order. A continued call runs later, but counts from here on. */
static void count_call(struct cgpud *d, struct in_flight *flight)
{
	struct call_counts *counts = engine_call_counts(d, flight->call.slot);
	u32 status;

	if (handle_freed(d->core.abi, flight, &status)) {
		flight->counted = atomic_load(&counts->made);
		atomic_fetch_add(&counts->freed, 1);
	} else {
		flight->counted = atomic_load(&counts->freed);
		atomic_fetch_add(&counts->made, 1);
	}
}

enum cgpu_verdict call_judge(struct cgpud *d, struct in_flight *flight, struct task *task)
{
	struct cgpu_call *call = &flight->call;
	/* Questions about sizes change nothing, and need no order. */
	pthread_mutex_t *order = cgpu_call_changes(d->core.abi, call) ? engine_order(d, call->slot) : NULL;
	enum cgpu_verdict verdict;

	if (order)
		pthread_mutex_lock(order);
	verdict = cgpu_call_begin(&d->core, call);
	if (order && (verdict == CGPU_EXECUTE || verdict == CGPU_CONTINUE))
		count_call(d, flight);
	if (order && verdict != CGPU_EXECUTE)
		pthread_mutex_unlock(order);
	return verdict == CGPU_CONTINUE && call->device == CGPU_DEVICE_UVM ? uvm_judge(d, flight, task) : verdict;
}

/* --- running and settling --- */

static void set_pointers(struct in_flight *flight, int ours)
{
	u32 i;

	for (i = 0; i < flight->call.segments; i++) {
		const struct cgpu_segment *s = &flight->call.segment[i];

		put64(flight->copy[s->parent], s->pointer, ours ? (uintptr_t)s->data : s->address);
	}
}

/* The first run of this call has freed an object that cannot be found. Another refusal is one of both runs: the object is
 * there, and its charge stays. */
static void forgive_free(const struct nv_abi *abi, struct in_flight *flight)
{
	u32 status;

	if (flight->result == 0 && handle_freed(abi, flight, &status) &&
		status_is_not_found(get32(flight->copy[0], status)))
		put32(flight->copy[0], status, NV_OK);
}

static void run_on_copies(struct cgpud *d, struct in_flight *flight, const struct task *task)
{
	set_pointers(flight, 1);
	target_put(d->core.abi, flight, task->target);
	flight->result = rm_call(task->file, flight->call.nr, flight->copy[0], flight->call.bytes);
	target_put(d->core.abi, flight, flight->call.descriptor);
	set_pointers(flight, 0);
}

/* Try the call with this handle. Returns the driver's status. */
static u32 run_with_handle(struct cgpud *d, struct in_flight *flight, const struct task *task,
	const struct handle_place *place, u32 handle)
{
	u32 n;

	for (n = 0; n <= flight->call.segments; n++)
		memcpy(flight->copy[n], flight->before[n], in_flight_bytes(flight, n));
	handle_put(flight, place, handle);
	run_on_copies(d, flight, task);
	handle_hide(flight, place);
	return flight->result ? NV_OK : get32(flight->copy[0], place->status);
}

/* Run it with a handle of our choice, where the caller has left that open; at last with none. */
static void run_named(struct cgpud *d, struct in_flight *flight, const struct task *task)
{
	struct handle_place place;
	u32 tries = HANDLE_TRIES, status;

	if (!handle_place(d->core.abi, flight, &place) || handle_given(flight, &place)) {
		run_on_copies(d, flight, task);
		return;
	}
	/* Only the handle of the first time can tell whether there was a first time. */
	if (flight->again && get32(flight->before[0], place.handle)) {
		run_with_handle(d, flight, task, &place, get32(flight->before[0], place.handle));
		return;
	}
	while (tries--) {
		status = run_with_handle(d, flight, task, &place, tries ? handle_next() : 0);
		/* A client may have been closed for handles that the driver has not made. */
		if (status == NV_ERR_INVALID_OBJECT_HANDLE && tries)
			tries = 1;
		else if (status != NV_ERR_INSERT_DUPLICATE_NAME)
			return;
	}
}

/* The log line has the container's name, as in task.c. */
static void say_not_freed(struct cgpud *d, const struct cgpu_call *call, int error)
{
	struct cgpu_container_info info;

	if (cgpu_container_next(&d->core, call->slot, &info) == 0 && info.slot == call->slot)
		events_log(&d->events, LOG_LEVEL_WARNING,
			"container %s: an allocation of process %d could not be taken back: %s", info.id, call->tgid,
			strerror(error));
}

/* Run a call of our own making the way every other runs, so that the charges follow. 1: the object is not there any more. */
static u32 run_free(struct cgpud *d, struct cgpu_call *call, int file)
{
	u32 status;
	int r = -EPERM;

	if (cgpu_call_begin(&d->core, call) == CGPU_EXECUTE) {
		atomic_fetch_add(&engine_call_counts(d, call->slot)->freed, 1);
		r = rm_call(file, call->nr, call->top, call->bytes);
		cgpu_call_end(&d->core, call, r);
	}
	if (r < 0) {
		say_not_freed(d, call, -r);
		return 0;
	}
	status = get32(call->top, d->core.abi->NVOS00_PARAMETERS.status);
	return status == NV_OK || status_is_not_found(status);
}

/* In the container's order. */
static void free_new_objects(struct cgpud *d, struct in_flight *flight, int file)
{
	u8 top[UNDO_TOP_BYTES] = { 0 };
	struct cgpu_call call = { .top = top };

	if (flight->undone)
		return;
	flight->undone = 1;
	/* Several, after an import of several. */
	while (cgpu_call_undo(&d->core, &flight->call, &call) == 1)
		run_free(d, &call, file);
}

/* Whether the driver has the objects that the call needs; else the copies say so. In the container's order. */
static int ask_driver(struct cgpud *d, struct in_flight *flight, const struct task *task)
{
	_Alignas(u64) u8 top[UNDO_TOP_BYTES] = { 0 };
	struct cgpu_call question = { .top = top };
	u32 number = 0, further;

	for (; cgpu_call_question(&d->core, &flight->call, number, &question); number += further) {
		flight->result = rm_call(task->file, question.nr, question.top, question.bytes);
		further = cgpu_call_answered(&d->core, &flight->call, number, &question);
		if (!further)
			return 0;
	}
	return 1;
}

static void execute_rm(struct cgpud *d, struct in_flight *flight, struct task *task)
{
	int ordered = cgpu_call_changes(d->core.abi, &flight->call);

	if (ask_driver(d, flight, task))
		run_named(d, flight, task);
	if (flight->repeated)
		forgive_free(d->core.abi, flight);
	if (cgpu_call_end(&d->core, &flight->call, flight->result))
		free_new_objects(d, flight, task->file);
	if (ordered)
		pthread_mutex_unlock(engine_order(d, flight->call.slot));
	sharing_after_call(d, flight, task);
	target_drop(task);
}

void call_execute(struct cgpud *d, struct in_flight *flight, struct task *task)
{
	in_flight_set_stage(flight, STAGE_EXECUTING);
	if (flight->call.device == CGPU_DEVICE_UVM)
		uvm_execute(d, flight, task);
	else
		execute_rm(d, flight, task);
	in_flight_set_stage(flight, STAGE_EXECUTED);
	atomic_fetch_add(&d->counters.executed, 1);
}

int call_write(const struct in_flight *flight, struct task *task, u32 count)
{
	struct part part[IN_FLIGHT_BUFFERS];
	u32 n, i = 0;

	/* The top-level struct last, as the driver does it: its status says that the rest is there. */
	for (n = count; n > 0; n--)
		part[i++] = (struct part){ in_flight_address(flight, n - 1), flight->copy[n - 1],
			in_flight_bytes(flight, n - 1) };
	return task_write(task, part, count);
}

void call_undo(struct cgpud *d, struct in_flight *flight, int file)
{
	pthread_mutex_lock(engine_order(d, flight->call.slot));
	free_new_objects(d, flight, file);
	pthread_mutex_unlock(engine_order(d, flight->call.slot));
}

u32 call_undo_unsure(struct cgpud *d, struct in_flight *flight, int file)
{
	const struct nv_layout_NVOS00_PARAMETERS *l = &d->core.abi->NVOS00_PARAMETERS;
	u8 top[UNDO_TOP_BYTES] = { 0 };
	struct cgpu_call call = flight->call;
	u32 client, handle, gone;

	if (!handle_wanted(d->core.abi, flight, &client, &handle))
		return 0;
	memset(call.opaque, 0, sizeof(call.opaque));
	call.segments = 0;
	call.no_room = 0;
	call.nr = NV_ESC_RM_FREE;
	call.bytes = l->bytes;
	call.top = top;
	put32(top, l->hRoot, client);
	put32(top, l->hObjectOld, handle);
	pthread_mutex_lock(engine_order(d, call.slot));
	/* The process may have another file under the descriptor by now, by which the driver finds no client. */
	gone = run_free(d, &call, file);
	pthread_mutex_unlock(engine_order(d, call.slot));
	return gone;
}
