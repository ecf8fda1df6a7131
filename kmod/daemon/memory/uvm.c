// SPDX-License-Identifier: Apache-2.0
/*
 * Which of UVM's calls may be run by another process, and why (kernel-open/nvidia-uvm of 515 to 595):
 * - UVM_MAP_EXTERNAL_ALLOCATION and UVM_ALLOC_DEVICE_P2P duplicate memory of a client. RM asks that the task that calls
 *   belongs to the process that made the client (client_resource.c, cliresShareCallback): they must go on.
 * - UVM_REGISTER_CHANNEL duplicates a channel's group, on the same terms.
 * - UVM_UNMAP_EXTERNAL, UVM_FREE, UVM_UNREGISTER_CHANNEL and UVM_UNREGISTER_GPU_VASPACE look at the file's address space alone, and
 *   at no process. The structs have no pointers. So they are run here, on a copy of file and arguments.
 * - UVM_INITIALIZE ties the file to the caller's address space, and must go on. In the sharing mode managed memory outlives
 *   that (uvm.c, uvm_vm_close_managed), until the last copy of the file goes: nothing would tell of it.
 */
#define _GNU_SOURCE
#include <sys/ioctl.h>
#include <unistd.h>

#include "clock.h"
#include "engine.h"
#include "processes.h"
#include "rm.h"
#include "uvm.h"

#define TOP_MAX 128
#define BATCH 16 /* in one walk over a file's mappings */

/* A call's struct: its size, and where the driver puts its status. */
struct shape {
	u32 bytes, status;
};

static struct shape shape_of(const struct nv_abi *abi, u32 nr)
{
	switch (nr) {
	case UVM_INITIALIZE:
		return (struct shape){ abi->UVM_INITIALIZE_PARAMS.bytes, abi->UVM_INITIALIZE_PARAMS.rmStatus };
	case UVM_MAP_EXTERNAL_ALLOCATION:
		return (struct shape){ abi->UVM_MAP_EXTERNAL_ALLOCATION_PARAMS.bytes,
			abi->UVM_MAP_EXTERNAL_ALLOCATION_PARAMS.rmStatus };
	case UVM_ALLOC_DEVICE_P2P:
		return (struct shape){ abi->UVM_ALLOC_DEVICE_P2P_PARAMS.bytes,
			abi->UVM_ALLOC_DEVICE_P2P_PARAMS.rmStatus };
	case UVM_UNMAP_EXTERNAL:
		return (struct shape){ abi->UVM_UNMAP_EXTERNAL_PARAMS.bytes, abi->UVM_UNMAP_EXTERNAL_PARAMS.rmStatus };
	case UVM_FREE:
		return (struct shape){ abi->UVM_FREE_PARAMS.bytes, abi->UVM_FREE_PARAMS.rmStatus };
	case UVM_REGISTER_CHANNEL:
		return (struct shape){ abi->UVM_REGISTER_CHANNEL_PARAMS.bytes,
			abi->UVM_REGISTER_CHANNEL_PARAMS.rmStatus };
	case UVM_UNREGISTER_CHANNEL:
		return (struct shape){ abi->UVM_UNREGISTER_CHANNEL_PARAMS.bytes,
			abi->UVM_UNREGISTER_CHANNEL_PARAMS.rmStatus };
	case UVM_UNREGISTER_GPU_VASPACE:
		return (struct shape){ abi->UVM_UNREGISTER_GPU_VASPACE_PARAMS.bytes,
			abi->UVM_UNREGISTER_GPU_VASPACE_PARAMS.rmStatus };
	default:
		return (struct shape){ 0 };
	}
}

u32 uvm_bytes(const struct nv_abi *abi, u32 nr)
{
	return shape_of(abi, nr).bytes;
}

int uvm_needs_file(const struct cgpu_call *call)
{
	return call->bytes != 0 && call->nr != UVM_INITIALIZE;
}

static struct external_caller caller_of(const struct in_flight *e, const struct task *task)
{
	return (struct external_caller){ .slot = e->call.slot,
		.generation = e->call.generation,
		.user = { .tid = task->tid, .tgid = e->call.tgid, .number = (int)e->notif.data.args[0] } };
}

/* 0: as it stands the driver refuses it. */
static int read_map(const struct nv_abi *abi, const u8 *top, struct external_request *request)
{
	const struct nv_layout_UVM_MAP_EXTERNAL_ALLOCATION_PARAMS *at = &abi->UVM_MAP_EXTERNAL_ALLOCATION_PARAMS;
	u32 each = abi->UvmGpuMappingAttributes.bytes;
	u64 count = get64(top, at->gpuAttributesCount);

	request->client = get32(top, at->hClient);
	request->handle = get32(top, at->hMemory);
	request->start = get64(top, at->base);
	request->end = request->start + get64(top, at->length);
	request->count = (u32)count;
	request->stride = each;
	request->uuid = top + at->perGpuAttributes + abi->UvmGpuMappingAttributes.gpuUuid;
	return request->end > request->start && count > 0 &&
		count <= (u64)(at->gpuAttributesCount - at->perGpuAttributes) / each;
}

static int read_p2p(const struct nv_abi *abi, const u8 *top, struct external_request *request)
{
	const struct nv_layout_UVM_ALLOC_DEVICE_P2P_PARAMS *at = &abi->UVM_ALLOC_DEVICE_P2P_PARAMS;

	request->client = get32(top, at->hClient);
	request->handle = get32(top, at->hMemory);
	request->start = get64(top, at->base);
	request->end = request->start + get64(top, at->length);
	request->kind = EXTERNAL_P2P;
	request->count = 1;
	request->uuid = top + at->gpuUuid;
	return request->end > request->start;
}

static int read_channel(const struct nv_abi *abi, const u8 *top, struct external_request *request)
{
	const struct nv_layout_UVM_REGISTER_CHANNEL_PARAMS *at = &abi->UVM_REGISTER_CHANNEL_PARAMS;

	request->kind = EXTERNAL_CHANNEL;
	request->client = get32(top, at->hClient);
	request->handle = get32(top, at->hChannel);
	request->start = EXTERNAL_CHANNELS | request->handle;
	request->end = request->start + 1;
	request->count = 1;
	request->uuid = top + at->gpuUuid;
	return 1;
}

static int read_request(const struct nv_abi *abi, const struct in_flight *e, struct external_request *request)
{
	switch (e->call.nr) {
	case UVM_ALLOC_DEVICE_P2P:
		return read_p2p(abi, e->copy[0], request);
	case UVM_REGISTER_CHANNEL:
		return read_channel(abi, e->copy[0], request);
	default:
		return read_map(abi, e->copy[0], request);
	}
}

static u32 refusal_of(u32 nr, int r)
{
	if (r == -EPERM)
		return nr == UVM_REGISTER_CHANNEL ? NV_ERR_INVALID_CHANNEL : NV_ERR_INSUFFICIENT_PERMISSIONS;
	return NV_ERR_NO_MEMORY;
}

static enum cgpu_verdict judge_map(struct cgpud *d, struct in_flight *e, struct task *task)
{
	struct external_request request = { .caller = caller_of(e, task) };
	const struct nv_abi *abi = d->core.abi;
	int known = read_request(abi, e, &request);
	int r;

	request.caller.user.started = look_mark(&task->asker, request.caller.user.tgid);
	r = known ? external_add(d, &request, &task->file) : 0;
	if (r == 0 || !atomic_load(&d->enforce))
		return CGPU_CONTINUE;
	put32(e->copy[0], shape_of(abi, e->call.nr).status, refusal_of(e->call.nr, r));
	return CGPU_ANSWER;
}

static enum cgpu_verdict judge_initialize(struct cgpud *d, struct in_flight *e)
{
	const struct nv_abi *abi = d->core.abi;

	if (!(get64(e->copy[0], abi->UVM_INITIALIZE_PARAMS.flags) & UVM_INIT_FLAGS_MULTI_PROCESS_SHARING_MODE) ||
		!atomic_load(&d->enforce))
		return CGPU_CONTINUE;
	put32(e->copy[0], shape_of(abi, e->call.nr).status, NV_ERR_NOT_SUPPORTED);
	return CGPU_ANSWER;
}

enum cgpu_verdict uvm_judge(struct cgpud *d, struct in_flight *e, struct task *task)
{
	struct external_caller caller;
	u64 latest;

	if (e->call.bytes == 0)
		return CGPU_CONTINUE;
	if (e->call.nr == UVM_INITIALIZE)
		return judge_initialize(d, e);
	if (e->call.nr == UVM_MAP_EXTERNAL_ALLOCATION || e->call.nr == UVM_ALLOC_DEVICE_P2P ||
		e->call.nr == UVM_REGISTER_CHANNEL)
		return judge_map(d, e, task);
	/* An earlier run of this call may have removed the last mapping. */
	if (e->again || e->repeated)
		return CGPU_EXECUTE;
	caller = caller_of(e, task);
	/* Without a mapping in the ledger nothing depends on the result. */
	return external_find(d, &caller, task->file, &latest) == EXTERNAL_NONE ? CGPU_CONTINUE : CGPU_EXECUTE;
}

/* Channels of UVM_UNREGISTER_CHANNEL, or of a card's address space, with which all of its channels go. */
static struct external_span channels_of(const struct nv_abi *abi, const struct in_flight *e, const struct task *task)
{
	const struct nv_layout_UVM_UNREGISTER_CHANNEL_PARAMS *at = &abi->UVM_UNREGISTER_CHANNEL_PARAMS;
	struct external_span span = { .tid = task->tid, .channels = 1, .start = EXTERNAL_CHANNELS, .end = ~0ull };
	const u8 *top = e->copy[0];

	if (e->call.nr == UVM_UNREGISTER_GPU_VASPACE) {
		span.uuid = top + abi->UVM_UNREGISTER_GPU_VASPACE_PARAMS.gpuUuid;
		return span;
	}
	span.client = get32(top, at->hClient);
	span.start = EXTERNAL_CHANNELS | get32(top, at->hChannel);
	span.end = span.start + 1;
	return span;
}

static struct external_span span_of(const struct nv_abi *abi, const struct in_flight *e, const struct task *task)
{
	const struct nv_layout_UVM_UNMAP_EXTERNAL_PARAMS *unmap = &abi->UVM_UNMAP_EXTERNAL_PARAMS;
	const struct nv_layout_UVM_FREE_PARAMS *free = &abi->UVM_FREE_PARAMS;
	struct external_span span = { .tid = task->tid };
	const u8 *top = e->copy[0];

	if (e->call.nr == UVM_UNREGISTER_CHANNEL || e->call.nr == UVM_UNREGISTER_GPU_VASPACE)
		return channels_of(abi, e, task);
	if (e->call.nr == UVM_UNMAP_EXTERNAL) {
		span.start = get64(top, unmap->base);
		span.end = span.start + get64(top, unmap->length);
		span.uuid = top + unmap->gpuUuid;
		return span;
	}
	span.start = get64(top, free->base);
	/* A driver that ignores the length has no field for it. */
	if (free->length != NV_ABI_ABSENT)
		span.end = span.start + get64(top, free->length);
	return span;
}

/* A mapping by another thread that is under way would come to lie there afterwards, and its charge be gone. */
static void wait_for_mappings(struct cgpud *d, u32 file, struct external_span *span)
{
	u32 wait;

	span->began = clock_ms();
	wait = external_wait(d, file, span);
	if (!wait)
		return;
	usleep(wait * 1000);
	span->began = clock_ms();
}

static int unmap(const struct nv_abi *abi, int fd, const struct external_map *map, const u8 *uuid, u32 *status)
{
	const struct nv_layout_UVM_UNMAP_EXTERNAL_PARAMS *at = &abi->UVM_UNMAP_EXTERNAL_PARAMS;
	u8 top[TOP_MAX] = { 0 };
	int r;

	put64(top, at->base, map->start);
	put64(top, at->length, map->end - map->start);
	memcpy(top + at->gpuUuid, uuid, sizeof(map->uuid));
	r = ioctl(fd, UVM_UNMAP_EXTERNAL, top) < 0 ? -errno : 0;
	*status = get32(top, at->rmStatus);
	return r;
}

/* 0 when the driver says that no range is around a mapping; 1 when there is one, or it does not say. */
static int has_range(const struct nv_abi *abi, int fd, const struct external_map *map)
{
	static const u8 nobody[EXTERNAL_UUID];
	u32 status = NV_OK;

	/* The range is looked for before the GPU is (uvm_map_external.c, uvm_unmap_external): nothing is unmapped. */
	return unmap(abi, fd, map, nobody, &status) < 0 || status != NV_ERR_INVALID_ADDRESS;
}

struct piece {
	u32 at;
	struct external_map map;
};

static int is_lower(const struct external_map *a, const struct external_map *b)
{
	return a->start < b->start || (a->start == b->start && a->serial < b->serial);
}

/* Keep the lowest ones, in order. */
static u32 insert(struct piece *piece, u32 count, u32 at, const struct external_map *map)
{
	u32 i = count < BATCH ? count : BATCH - 1;

	if (count == BATCH && !is_lower(map, &piece[BATCH - 1].map))
		return count;
	for (; i > 0 && is_lower(map, &piece[i - 1].map); i--)
		piece[i] = piece[i - 1];
	piece[i] = (struct piece){ .at = at, .map = *map };
	return count < BATCH ? count + 1 : count;
}

/* The next mappings above one. */
static u32 collect(struct external *x, u32 file, const struct external_span *span, const struct external_map *above,
	struct piece *piece)
{
	u32 at, count = 0;

	pthread_mutex_lock(&x->lock);
	at = external_is_kept(x, file) ? x->first[file] : EXTERNAL_NONE;
	for (; at != EXTERNAL_NONE; at = x->store->map[at].after) {
		const struct external_map *map = &x->store->map[at];

		/* Memory for other devices is a range of its own. */
		if (map->kind == EXTERNAL_MAPPED && map->serial <= span->latest && is_lower(above, map))
			count = insert(piece, count, at, map);
	}
	pthread_mutex_unlock(&x->lock);
	return count;
}

static void drop(struct cgpud *d, u32 file, const struct external_span *span, const struct piece *piece)
{
	struct external *x = &d->external;
	const struct external_map *map = &x->store->map[piece->at];

	pthread_mutex_lock(&x->lock);
	if (external_is_kept(x, file) && map->serial == piece->map.serial && map->file == file &&
		!external_underway(map, span))
		external_drop(d, piece->at);
	external_unlock(d, file);
}

/*
 * Drivers from 590 on free a range by its start alone. The container alone ran the call that gave the range's length,
 * so the engine does not believe that length: it asks the driver, mapping by mapping upwards, whether a range is still
 * around it. Ranges do not overlap and are never split, so the first range found ends the search.
 */
static void drop_rest(struct cgpud *d, u32 file, const struct external_span *span, int fd)
{
	struct external_map above = { .start = span->start, .serial = ~0ull };
	struct piece piece[BATCH];
	u32 count, i;

	do {
		count = collect(&d->external, file, span, &above, piece);
		for (i = 0; i < count; i++) {
			if (has_range(d->core.abi, fd, &piece[i].map))
				return;
			drop(d, file, span, &piece[i]);
			above = piece[i].map;
		}
	} while (count == BATCH);
}

void uvm_execute(struct cgpud *d, struct in_flight *e, const struct task *task)
{
	struct external_caller caller = caller_of(e, task);
	struct external_span span = span_of(d->core.abi, e, task);
	u32 at = shape_of(d->core.abi, e->call.nr).status;
	u32 file = external_find(d, &caller, task->file, &span.latest);

	if (file != EXTERNAL_NONE)
		wait_for_mappings(d, file, &span);
	e->result = ioctl(task->file, e->call.nr, e->copy[0]) < 0 ? -errno : 0;
	if (file != EXTERNAL_NONE && e->result == 0 && get32(e->copy[0], at) == NV_OK) {
		external_gone(d, file, &span);
		if (e->call.nr == UVM_FREE && span.end == 0)
			drop_rest(d, file, &span, task->file);
	}
	/* The engine before us may have done it. */
	if (e->repeated && uvm_stands(d->core.abi, e))
		put32(e->copy[0], at, NV_OK);
}

int uvm_stands(const struct nv_abi *abi, const struct in_flight *e)
{
	u32 at = shape_of(abi, e->call.nr).status, status = at ? get32(e->copy[0], at) : NV_OK;

	if (e->result)
		return 0;
	switch (e->call.nr) {
	case UVM_FREE:
		return status == NV_ERR_INVALID_ADDRESS;
	case UVM_UNREGISTER_CHANNEL:
		return status == NV_ERR_INVALID_CHANNEL;
	case UVM_UNREGISTER_GPU_VASPACE:
		return status == NV_ERR_INVALID_DEVICE;
	default:
		return 0;
	}
}

static int unregister(const struct nv_abi *abi, int fd, const struct external_map *map, u32 *status)
{
	const struct nv_layout_UVM_UNREGISTER_CHANNEL_PARAMS *at = &abi->UVM_UNREGISTER_CHANNEL_PARAMS;
	u8 top[TOP_MAX] = { 0 };
	int r;

	if (at->gpuUuid != NV_ABI_ABSENT)
		memcpy(top + at->gpuUuid, map->uuid, sizeof(map->uuid));
	put32(top, at->hClient, map->client);
	put32(top, at->hChannel, map->handle);
	r = ioctl(fd, UVM_UNREGISTER_CHANNEL, top) < 0 ? -errno : 0;
	*status = get32(top, at->rmStatus);
	return r;
}

int uvm_take_away(const struct nv_abi *abi, int fd, const struct external_map *map, u32 *status)
{
	const struct nv_layout_UVM_FREE_PARAMS *free = &abi->UVM_FREE_PARAMS;
	u8 top[TOP_MAX] = { 0 };
	int r;

	if (map->kind == EXTERNAL_CHANNEL || map->kind == EXTERNAL_GROUP)
		return unregister(abi, fd, map, status);
	if (map->kind != EXTERNAL_P2P)
		return unmap(abi, fd, map, map->uuid, status);
	put64(top, free->base, map->start);
	if (free->length != NV_ABI_ABSENT)
		put64(top, free->length, map->end - map->start);
	r = ioctl(fd, UVM_FREE, top) < 0 ? -errno : 0;
	*status = get32(top, free->rmStatus);
	return r;
}
