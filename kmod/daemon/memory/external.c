// SPDX-License-Identifier: Apache-2.0
/* Records the memory that UVM is about to map, by start address and by file, and drops it when it is unmapped. */
#define _GNU_SOURCE

#include "clock.h"
#include "descriptors.h"
#include "engine.h"
#include "external.h"
#include "lib/hash.h"
#include "processes.h"

/* Head of the chain (by next) that has the mappings at a place among others. */
static u32 *head_of(struct external *x, u32 file, u64 start)
{
	return &x->hash[core_hash(x->key, (u32)start, (u32)(start >> 32) ^ file << 20) % EXTERNAL_BUCKETS];
}

void external_relink(struct external *x, u32 at)
{
	struct external_map *map = &x->store->map[at];
	u32 *head = head_of(x, map->file, map->start);

	map->next = *head;
	*head = at;
	map->before = EXTERNAL_NONE;
	map->after = x->first[map->file];
	if (map->after != EXTERNAL_NONE)
		x->store->map[map->after].before = at;
	x->first[map->file] = at;
	if (map->serial > x->latest)
		x->latest = map->serial;
}

void external_link(struct external *x, const struct cgpu_reference *reference, const struct external_map *map)
{
	struct external_map *place = &x->store->map[reference->object];

	*place = *map;
	place->serial = 0;
	if (x->store->used <= reference->object)
		x->store->used = reference->object + 1;
	atomic_thread_fence(memory_order_release);
	place->serial = reference->serial;
	external_relink(x, reference->object);
}

void external_unlink(struct external *x, u32 at)
{
	struct external_map *map = &x->store->map[at];
	u32 *link = head_of(x, map->file, map->start);

	while (*link != EXTERNAL_NONE && *link != at)
		link = &x->store->map[*link].next;
	if (*link == at)
		*link = map->next;
	if (map->after != EXTERNAL_NONE)
		x->store->map[map->after].before = map->before;
	if (map->before != EXTERNAL_NONE)
		x->store->map[map->before].after = map->after;
	else
		x->first[map->file] = map->after;
	map->serial = 0;
}

static int same_container(const struct external_file *file, const struct external_caller *caller)
{
	return file->slot == caller->slot && file->generation == caller->generation;
}

static int same_process(const struct external_user *one, const struct external_user *other)
{
	return one->tgid == other->tgid && (!one->started || !other->started || one->started == other->started);
}

/* A kernel without kcmp(2): CUDA has one such file in a process. */
static int is_same(int one, int other, int own)
{
	int r = same_file(one, other);

	return r == 1 || (r == -ENOSYS && own);
}

/* own: only files with which the caller's process has mapped. */
static u32 find(struct external *x, const struct external_caller *caller, int fd, int own)
{
	u32 i;

	for (i = 0; i < atomic_load(&x->top); i++) {
		const struct external_file *file = &x->store->file[i];

		if (!file->live || x->ending[i] || x->fd[i] < 0 || !same_container(file, caller))
			continue;
		if ((file->user[0].tgid == caller->user.tgid) == own && is_same(x->fd[i], fd, own))
			return i;
	}
	return EXTERNAL_NONE;
}

static u32 find_file(struct external *x, const struct external_caller *caller, int fd)
{
	u32 found = atomic_load(&x->files) ? find(x, caller, fd, 1) : EXTERNAL_NONE;

	return found == EXTERNAL_NONE && atomic_load(&x->files) ? find(x, caller, fd, 0) : found;
}

u32 external_find(struct cgpud *d, const struct external_caller *caller, int fd, u64 *latest)
{
	u32 found;

	pthread_mutex_lock(&d->external.lock);
	found = find_file(&d->external, caller, fd);
	*latest = d->external.latest;
	pthread_mutex_unlock(&d->external.lock);
	return found;
}

static u32 free_place(const struct external *x, const struct external_caller *caller)
{
	u32 i, own = 0, top = atomic_load(&x->top), place = EXTERNAL_NONE;

	for (i = 0; i < top; i++) {
		if (x->store->file[i].live)
			own += same_container(&x->store->file[i], caller);
		else if (place == EXTERNAL_NONE)
			place = i;
	}
	if (own >= EXTERNAL_SHARE)
		return EXTERNAL_NONE;
	return place == EXTERNAL_NONE && top < EXTERNAL_FILES ? top : place;
}

static void file_begin(struct external *x, u32 at, const struct external_caller *caller)
{
	struct external_file *file = &x->store->file[at];

	*file = (struct external_file){
		.slot = caller->slot, .generation = caller->generation, .user = { caller->user }
	};
	atomic_thread_fence(memory_order_release);
	file->live = 1;
	x->fd[at] = -1;
	x->first[at] = EXTERNAL_NONE;
	if (atomic_load(&x->top) <= at)
		atomic_store(&x->top, at + 1);
	atomic_fetch_add(&x->files, 1);
}

int external_file_end(struct cgpud *d, u32 at)
{
	struct external *x = &d->external;
	int fd = x->fd[at];

	cgpu_reference_file_ended(&d->core, at);
	x->fd[at] = -1;
	x->ending[at] = 0;
	x->store->file[at].live = 0;
	atomic_fetch_sub(&x->files, 1);
	return fd;
}

int external_is_kept(const struct external *x, u32 file)
{
	return x->store->file[file].live && !x->ending[file];
}

void external_unlock(struct cgpud *d, u32 file)
{
	struct external *x = &d->external;
	int unused = external_is_kept(x, file) && x->first[file] == EXTERNAL_NONE ? external_file_end(d, file) : -1;

	pthread_mutex_unlock(&x->lock);
	close_any(unused);
}

/* 1: the same mapping once more, as a call that was interrupted is made again; -ENOSPC: too many at one place. */
static int is_there(struct cgpud *d, u32 file, const struct external_request *request,
	const struct cgpu_reference_request *named, const u8 *uuid)
{
	struct external *x = &d->external;
	u32 at = *head_of(x, file, request->start), here = 0;

	for (; at != EXTERNAL_NONE; at = x->store->map[at].next) {
		struct external_map *map = &x->store->map[at];
		struct cgpu_reference reference = { .object = at, .serial = map->serial };

		if (map->file != file || map->start != request->start)
			continue;
		if (map->end == request->end && !memcmp(map->uuid, uuid, EXTERNAL_UUID) &&
			cgpu_reference_names(&d->core, &reference, named)) {
			map->tid = request->caller.user.tid;
			map->since = clock_ms();
			return 1;
		}
		here++;
	}
	return here < EXTERNAL_PLACE ? 0 : -ENOSPC;
}

enum cgpu_reference_to external_refers_to(u32 kind)
{
	if (kind == EXTERNAL_GROUP)
		return CGPU_REFERENCE_GROUP;
	return kind == EXTERNAL_CHANNEL ? CGPU_REFERENCE_CHANNEL : CGPU_REFERENCE_MEMORY;
}

static int add_one(struct cgpud *d, u32 file, const struct external_request *request, const u8 *uuid)
{
	struct cgpu_reference_request named = { .slot = request->caller.slot,
		.generation = request->caller.generation,
		.tgid = request->caller.user.tgid,
		.to = external_refers_to(request->kind),
		.client = request->client,
		.handle = request->handle };
	struct external_map map = { .start = request->start,
		.end = request->end,
		.file = file,
		.kind = request->kind,
		.tid = request->caller.user.tid,
		.since = clock_ms(),
		.client = request->client,
		.handle = request->handle };
	struct cgpu_reference reference;
	int r = is_there(d, file, request, &named, uuid);

	if (r)
		return r < 0 ? r : 0;
	r = cgpu_reference_on_file(&d->core, &named, file, &reference);
	if (r < 0 || reference.serial == 0)
		return r;
	memcpy(map.uuid, uuid, EXTERNAL_UUID);
	map.of = reference.of;
	external_link(&d->external, &reference, &map);
	return cgpu_reference_confirm(&d->core, &reference) < 0 ? -ENODEV : 0;
}

void external_drop(struct cgpud *d, u32 at)
{
	struct cgpu_reference reference = { .object = at, .serial = d->external.store->map[at].serial };

	external_unlink(&d->external, at);
	cgpu_reference_drop(&d->core, &reference);
}

static int add_all(struct cgpud *d, u32 file, const struct external_request *request)
{
	struct external_request group = *request;
	struct external *x = &d->external;
	u64 before = x->latest;
	u32 i;
	int r = 0;

	group.kind = EXTERNAL_GROUP;
	for (i = 0; i < request->count && r == 0; i++)
		r = add_one(d, file, request, request->uuid + (size_t)i * request->stride);
	if (r == 0 && request->kind == EXTERNAL_CHANNEL)
		r = add_one(d, file, &group, request->uuid);
	/* The newest come first. */
	while (r < 0 && x->first[file] != EXTERNAL_NONE && x->store->map[x->first[file]].serial > before)
		external_drop(d, x->first[file]);
	return r;
}

int external_add(struct cgpud *d, const struct external_request *request, int *fd)
{
	struct external *x = &d->external;
	u32 at;
	int r;

	pthread_mutex_lock(&x->lock);
	at = find_file(x, &request->caller, *fd);
	if (at == EXTERNAL_NONE) {
		at = free_place(x, &request->caller);
		if (at == EXTERNAL_NONE) {
			pthread_mutex_unlock(&x->lock);
			return -ENOSPC;
		}
		file_begin(x, at, &request->caller);
		x->fd[at] = *fd;
		*fd = -1;
	}
	r = add_all(d, at, request);
	if (x->first[at] != EXTERNAL_NONE && !same_process(&x->store->file[at].user[0], &request->caller.user))
		x->store->file[at].user[1] = request->caller.user;
	external_unlock(d, at);
	return r;
}

static int is_channel(const struct external_map *map)
{
	return map->kind == EXTERNAL_CHANNEL || map->kind == EXTERNAL_GROUP;
}

/* A range that was freed takes everything in it along; of one GPU's mappings those go that are unmapped whole. */
static int is_meant(const struct external_map *map, const struct external_span *span)
{
	if (map->serial > span->latest || is_channel(map) != (int)span->channels)
		return 0;
	if (span->channels && span->client)
		return map->client == span->client && map->start == span->start;
	if (span->uuid)
		return map->kind != EXTERNAL_P2P && span->start <= map->start && map->end <= span->end &&
			!memcmp(map->uuid, span->uuid, EXTERNAL_UUID);
	return map->start == span->start || (span->start < map->start && map->end <= span->end);
}

u32 external_underway(const struct external_map *map, const struct external_span *span)
{
	u64 done = map->since + EXTERNAL_UNDERWAY;

	return map->tid == span->tid || span->began >= done ? 0 : (u32)(done - span->began);
}

/* The mappings that a call is about, one after the other: those of the file, or of one start alone. */
struct walk {
	const struct external *x;
	const struct external_span *span;
	u32 file;
	int by_start;
};

static u32 skip(const struct walk *walk, u32 at)
{
	for (; at != EXTERNAL_NONE;
		at = walk->by_start ? walk->x->store->map[at].next : walk->x->store->map[at].after) {
		const struct external_map *map = &walk->x->store->map[at];

		if (map->file == walk->file && (!walk->by_start || map->start == walk->span->start) &&
			is_meant(map, walk->span))
			break;
	}
	return at;
}

static u32 walk_next(const struct walk *walk, u32 at)
{
	const struct external_map *map = &walk->x->store->map[at];

	return skip(walk, walk->by_start ? map->next : map->after);
}

/* Nearly every call means one mapping, as large as the part: a search by its start is enough then. */
static u32 walk_first(struct walk *walk, struct external *x, u32 file, const struct external_span *span)
{
	u32 at;

	*walk = (struct walk){ .x = x, .span = span, .file = file, .by_start = 1 };
	for (at = skip(walk, *head_of(x, file, span->start)); at != EXTERNAL_NONE; at = walk_next(walk, at)) {
		if (x->store->map[at].end >= span->end)
			return skip(walk, *head_of(x, file, span->start));
	}
	walk->by_start = 0;
	return skip(walk, x->first[file]);
}

u32 external_wait(struct cgpud *d, u32 file, const struct external_span *span)
{
	struct external *x = &d->external;
	u32 at = EXTERNAL_NONE, wait = 0, more;
	struct walk walk;

	pthread_mutex_lock(&x->lock);
	if (external_is_kept(x, file))
		at = walk_first(&walk, x, file, span);
	for (; at != EXTERNAL_NONE; at = walk_next(&walk, at)) {
		more = external_underway(&x->store->map[at], span);
		wait = more > wait ? more : wait;
	}
	pthread_mutex_unlock(&x->lock);
	return wait < EXTERNAL_UNDERWAY ? wait : EXTERNAL_UNDERWAY;
}

void external_gone(struct cgpud *d, u32 file, const struct external_span *span)
{
	struct external *x = &d->external;
	u32 at = EXTERNAL_NONE, next;
	struct walk walk;

	pthread_mutex_lock(&x->lock);
	if (external_is_kept(x, file))
		at = walk_first(&walk, x, file, span);
	for (; at != EXTERNAL_NONE; at = next) {
		next = walk_next(&walk, at);
		/* Another thread may have begun the mapping anew meanwhile, so that it comes to lie there after all. */
		if (!external_underway(&x->store->map[at], span))
			external_drop(d, at);
	}
	external_unlock(d, file);
}
